use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use zk_core::events::GoalState;
use zk_core::kernel::{BoxError, Cx, Scope};
use zk_core::service::{
    ArgumentChoice, Command, CommandOutcome, Questions, Selection, UiAnswer, visible_line,
};

use super::outcome::describe_goal;
use super::record::cut;
use super::shared::Shared;
use crate::GoalError;
use crate::goal::{GoalInput, GoalSpec};

/// Time limit for the person to answer whether the active goal is replaced.
const ANSWER_TIME_LIMIT: Duration = Duration::from_secs(60 * 60);

pub(super) fn register(shared: &Arc<Shared>, scope: &Scope) -> Result<(), BoxError> {
    scope.provide::<dyn Command>("goal", Arc::new(GoalCommand(shared.clone())))?;
    scope.provide::<dyn Command>("done", Arc::new(DoneCommand(shared.clone())))?;
    Ok(())
}

/// The command `/goal`.
struct GoalCommand(Arc<Shared>);

/// The command `/done`.
struct DoneCommand(Arc<Shared>);

/// Arguments of `/goal`.
#[derive(Debug, PartialEq)]
enum GoalArgs<'a> {
    Show,
    Clear,
    Resume { turns: Option<u32>, budget: Option<f64> },
    Set { text: &'a str, auto: bool, turns: Option<u32>, budget: Option<f64> },
}

fn parse_args(args: &str) -> Result<GoalArgs<'_>, GoalError> {
    match args.trim() {
        "" => Ok(GoalArgs::Show),
        "clear" => Ok(GoalArgs::Clear),
        args => match args.split_once(char::is_whitespace).unwrap_or((args, "")) {
            ("create", rest) => {
                let Options { auto, turns, budget, text } = parse_options(rest)?;
                if !auto && (turns.is_some() || budget.is_some()) {
                    let why = "--turns and --budget are caps of an autonomous goal: add --auto";
                    return Err(GoalError::Arguments(why.to_owned()));
                }
                Ok(GoalArgs::Set { text, auto, turns, budget })
            }
            ("resume", rest) if rest.is_empty() || rest.trim_start().starts_with("--") => {
                let Options { auto, turns, budget, text } = parse_options(rest)?;
                if auto || !text.is_empty() {
                    let why = "/goal resume takes --turns N and --budget USD alone";
                    return Err(GoalError::Arguments(why.to_owned()));
                }
                Ok(GoalArgs::Resume { turns, budget })
            }
            _ => Ok(GoalArgs::Set { text: args, auto: false, turns: None, budget: None }),
        },
    }
}

#[derive(Debug, Default)]
struct Options<'a> {
    auto: bool,
    turns: Option<u32>,
    budget: Option<f64>,
    text: &'a str,
}

/// Parses the options before the text of a goal; `--` ends the options.
fn parse_options(args: &str) -> Result<Options<'_>, GoalError> {
    let mut found = Options::default();
    let mut rest = args.trim_start();
    while let Some(option) = rest.strip_prefix("--") {
        let (name, after) = option.split_once(char::is_whitespace).unwrap_or((option, ""));
        rest = after.trim_start();
        let mut value = || {
            let (value, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            rest = after.trim_start();
            value
        };
        match name {
            "" => break,
            "auto" => found.auto = true,
            "turns" => {
                let value = value();
                let turns = value.parse().ok().filter(|turns| *turns > 0);
                found.turns =
                    Some(turns.ok_or_else(|| invalid_option("--turns", value, "a number of turns above 0"))?);
            }
            "budget" => {
                let value = value();
                let usd = value.trim_start_matches('$').parse::<f64>().ok();
                let usd = usd.filter(|usd| usd.is_finite() && *usd > 0.0);
                found.budget =
                    Some(usd.ok_or_else(|| {
                        invalid_option("--budget", value, "an amount of US dollars above 0")
                    })?);
            }
            other => {
                let why = format!(
                    "--{} is no option of /goal: there are --auto, --turns N and --budget USD, and -- before a text",
                    visible_line(other)
                );
                return Err(GoalError::Arguments(why));
            }
        }
    }
    found.text = rest.trim();
    Ok(found)
}

fn invalid_option(option: &str, value: &str, wanted: &str) -> GoalError {
    GoalError::Arguments(format!("{option} needs {wanted}, unlike `{}`", visible_line(value)))
}

#[async_trait]
impl Command for GoalCommand {
    fn name(&self) -> &'static str {
        "goal"
    }

    fn help(&self) -> &'static str {
        "set, show or clear the goal of this conversation: /goal [TEXT | clear | resume | create --auto TEXT]"
    }

    async fn complete(&self, _: &str, _: &Cx) -> Vec<ArgumentChoice> {
        vec![
            ArgumentChoice::new("create --auto ", "work on it by itself: [--turns N] [--budget USD] TEXT"),
            ArgumentChoice::new("clear", "remove the goal"),
            ArgumentChoice::new("resume", "go on with a goal that ended or paused"),
        ]
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let shared = &self.0;
        let args = parse_args(args)?;
        shared.load_goal(cx).await?;
        match args {
            GoalArgs::Show => {
                let goal =
                    shared.state().machine.goal().filter(|goal| goal.state != GoalState::Cleared).cloned();
                let lines = goal.as_ref().map(describe_goal);
                let none = || vec!["there is no goal: /goal TEXT sets one".to_owned()];
                Ok(CommandOutcome::Show(lines.unwrap_or_else(none).join("\n")))
            }
            GoalArgs::Clear => {
                if shared.state().machine.goal().is_none_or(|goal| goal.state == GoalState::Cleared) {
                    return Err(GoalError::Nothing.into());
                }
                shared.apply(GoalInput::Clear, cx).await?;
                Ok(CommandOutcome::Show("the goal is removed".to_owned()))
            }
            GoalArgs::Resume { turns, budget } => self.resume_goal(turns, budget, cx).await,
            GoalArgs::Set { text, auto, turns, budget } => {
                let spec = GoalSpec::new(text)?;
                if !auto {
                    return self.set_goal(spec, cx).await;
                }
                if !shared.settings.autonomous {
                    return Err(GoalError::NotAllowed.into());
                }
                self.set_goal(spec.autonomous(turns, budget), cx).await
            }
        }
    }
}

impl GoalCommand {
    async fn set_goal(&self, spec: GoalSpec, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let shared = &self.0;
        let open = shared.state().machine.goal().filter(|goal| goal.is_open()).cloned();
        if let Some(active) = open {
            if !ask_to_replace(active.spec.text(), spec.text(), cx).await {
                let text = visible_line(&cut(active.spec.text(), 80));
                return Err(GoalError::Active { text }.into());
            }
            shared.apply(GoalInput::Clear, cx).await?;
        }
        let text = spec.text().to_owned();
        let is_autonomous = spec.is_autonomous();
        shared.begin_goal(spec, cx).await?;
        Ok(match is_autonomous {
            true => CommandOutcome::Prompt(text),
            false => CommandOutcome::Show("the model is told of the goal with your next prompt".to_owned()),
        })
    }

    async fn resume_goal(
        &self,
        turns: Option<u32>,
        budget: Option<f64>,
        cx: &Cx,
    ) -> Result<CommandOutcome, BoxError> {
        let shared = &self.0;
        let goal = shared.state().machine.goal().cloned().ok_or(GoalError::Nothing)?;
        let is_autonomous = goal.spec.is_autonomous();
        match goal.state {
            GoalState::Cleared => return Err(GoalError::Nothing.into()),
            // After a restart, an active autonomous goal has no run yet.
            GoalState::Active if !is_autonomous || shared.state().run().is_some() => {
                return Err(GoalError::AlreadyActive.into());
            }
            GoalState::Active
            | GoalState::Paused
            | GoalState::Completed
            | GoalState::Stuck
            | GoalState::Capped => {}
        }
        let more_turns = match (goal.state, is_autonomous) {
            (GoalState::Capped | GoalState::Completed, true) => {
                Some(turns.unwrap_or(shared.settings.max_turns))
            }
            _ => turns,
        };
        let more_budget = match goal.state {
            GoalState::Capped => budget.or(goal.spec.budget()),
            _ => budget,
        };
        shared.apply(GoalInput::Resume { more_turns, more_budget }, cx).await?;
        let message = shared.state().machine.next_message();
        Ok(match message {
            Some(message) => CommandOutcome::Prompt(message),
            None => CommandOutcome::Show("the goal is active again".to_owned()),
        })
    }
}

/// Asks a person whether a goal replaces the active one; false if no person is present.
async fn ask_to_replace(active: &str, new: &str, cx: &Cx) -> bool {
    let Some(questions) = cx.service::<Questions>() else { return false };
    let text = format!(
        "The goal `{}` is active. Replace it by `{}`?",
        visible_line(&cut(active, 120)),
        visible_line(&cut(new, 120))
    );
    let options = vec!["replace it".to_owned(), "keep the active goal".to_owned()];
    let answer = questions.ask(Selection::new(text, options).into(), cx, ANSWER_TIME_LIMIT).await;
    matches!(answer, UiAnswer::Choice { index: 0 })
}

#[async_trait]
impl Command for DoneCommand {
    fn name(&self) -> &'static str {
        "done"
    }

    fn help(&self) -> &'static str {
        "say that the goal of this conversation is reached"
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        if !args.is_empty() {
            return Err(GoalError::Arguments("/done takes no arguments".to_owned()).into());
        }
        self.0.load_goal(cx).await?;
        let state = self.0.state().machine.state();
        match state {
            None | Some(GoalState::Cleared) => Err(GoalError::Nothing.into()),
            Some(GoalState::Completed) => Ok(CommandOutcome::Show("the goal is reached already".to_owned())),
            Some(GoalState::Active | GoalState::Paused | GoalState::Stuck | GoalState::Capped) => {
                self.0.apply(GoalInput::Done, cx).await?;
                Ok(CommandOutcome::Done)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_words_of_the_command_or_a_text() {
        let set = |text, auto, turns, budget| Ok(GoalArgs::Set { text, auto, turns, budget });
        for (args, expected) in [
            ("", Ok(GoalArgs::Show)),
            (" clear ", Ok(GoalArgs::Clear)),
            ("clear the cache", set("clear the cache", false, None, None)),
            ("fix the tests", set("fix the tests", false, None, None)),
            ("create fix it", set("fix it", false, None, None)),
            ("create --auto fix it", set("fix it", true, None, None)),
            ("create --auto --turns 7 --budget $1.5 fix --all", set("fix --all", true, Some(7), Some(1.5))),
            ("create --auto -- --turns is a flag", set("--turns is a flag", true, None, None)),
            ("resume", Ok(GoalArgs::Resume { turns: None, budget: None })),
            ("resume --turns 3", Ok(GoalArgs::Resume { turns: Some(3), budget: None })),
            ("resume the work", set("resume the work", false, None, None)),
        ] {
            assert_eq!(parse_args(args), expected, "{args}");
        }
        for (args, part) in [
            ("create --turns 3 x", "add --auto"),
            ("create --auto --turns 0 x", "above 0, unlike `0`"),
            ("create --auto --budget -1 x", "above 0, unlike `-1`"),
            ("create --auto --budget NaN x", "unlike `NaN`"),
            ("create --forever x", "--forever is no option"),
            ("resume --auto", "takes --turns N"),
        ] {
            let error = parse_args(args).unwrap_err().to_string();
            assert!(error.contains(part), "{args}: {error}");
        }
    }
}
