use zk_core::kernel::Cx;
use zk_core::service::{ArgumentChoice, Command, CommandOutcome, match_command};
use zk_skills::{Skills, typed_command};
use zk_view::Intent;

use super::conversation::{HostedConversation, HostedEvent, Present};
use crate::conversation::line::{mark_prompt_of_command, refresh_files, unknown_command_message};

/// Error for a command that needs a terminal.
const NO_TERMINAL: &str = "this is for a conversation on a terminal: nothing is drawn here";

/// Outcome of a command of a hosted conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostedOutcome {
    /// The command acted.
    Done,
    /// Output text.
    Said(String),
    /// Prompt to send.
    Prompt(String),
    /// Everything was read anew, with these warnings.
    Reloaded(Vec<String>),
    /// The conversation ends.
    Quit,
}

/// Command of a conversation, as listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedCommand {
    /// The name, without the slash.
    pub name: String,
    /// Help, in one line.
    pub help: String,
    /// Hint for the arguments, such as `[BASE]`.
    pub argument_hint: Option<String>,
}

impl HostedConversation {
    /// Runs a command, with or without its slash. A reload is complete on return.
    ///
    /// # Errors
    /// When there is no such command, or it fails; the message is for the person.
    pub async fn run_command(&self, line: &str) -> Result<HostedOutcome, String> {
        let outcome = {
            let _one_at_a_time = self.changing.lock().await;
            let present = self.present();
            let outcome = run(&present, without_slash(line)?).await?;
            screen_outcome(&present).unwrap_or(Ok(outcome))?
        };
        Ok(match outcome {
            CommandOutcome::Done => HostedOutcome::Done,
            CommandOutcome::Show(text) => HostedOutcome::Said(text),
            CommandOutcome::Prompt(text) => {
                mark_prompt_of_command(&text, &self.present().opened.conversation.command_cx());
                HostedOutcome::Prompt(text)
            }
            CommandOutcome::Quit => HostedOutcome::Quit,
            CommandOutcome::Reload => {
                HostedOutcome::Reloaded(self.reload().await.map_err(|error| error.to_string())?)
            }
        })
    }

    /// Name and arguments of the command that [`run_command`](Self::run_command) would run; `None` if there
    /// is none.
    #[must_use]
    pub fn find_command(&self, line: &str) -> Option<(String, String)> {
        let cx = self.present().opened.conversation.command_cx();
        let (name, args) = match_command(without_slash(line).ok()?, |name| {
            typed_command(name, &cx).map(|command| command.name().to_owned())
        })?;
        Some((name, args.to_owned()))
    }

    /// Applies the outcome of a command: sends its prompt, passes its text to `say`, or ends the
    /// conversation.
    pub fn follow(&self, outcome: HostedOutcome, say: impl Fn(&str)) {
        match outcome {
            HostedOutcome::Done => {}
            HostedOutcome::Said(text) => {
                if !text.is_empty() {
                    say(&text);
                }
            }
            HostedOutcome::Prompt(text) => self.intent(&Intent::Submit { text }),
            HostedOutcome::Reloaded(warnings) => warnings.iter().for_each(|warning| say(warning)),
            HostedOutcome::Quit => self.send_event(HostedEvent::Ended),
        }
    }

    /// Available commands, by name.
    pub async fn commands(&self) -> Vec<ListedCommand> {
        let cx = self.present().opened.conversation.command_cx();
        refresh_files(&cx).await;
        let listed = cx.items::<dyn Command>().into_iter().map(|command| ListedCommand {
            name: command.name.to_string(),
            help: command.value.help().to_owned(),
            argument_hint: command.value.argument_hint().map(ToOwned::to_owned),
        });
        let mut listed: Vec<_> = listed.collect();
        listed.sort_by(|one, other| one.name.cmp(&other.name));
        listed
    }

    /// Completions for the arguments of a command line.
    pub async fn complete(&self, line: &str) -> Vec<ArgumentChoice> {
        let cx = self.present().opened.conversation.command_cx();
        let found = match_command(line.trim_start_matches('/'), |name| typed_command(name, &cx));
        match found {
            Some((command, before)) => command.complete(before, &cx).await,
            None => Vec::new(),
        }
    }
}

/// The line of a command without its slash.
fn without_slash(line: &str) -> Result<&str, String> {
    let line = line.trim();
    let line = line.strip_prefix('/').unwrap_or(line);
    if line.starts_with('/') || line.starts_with(char::is_whitespace) || line.is_empty() {
        return Err("a command begins with / and its name; /help lists them".to_owned());
    }
    Ok(line)
}

async fn run(present: &Present, line: &str) -> Result<CommandOutcome, String> {
    let cx = present.opened.conversation.command_cx();
    refresh(line, &cx).await;
    let Some((command, args)) = match_command(line, |name| typed_command(name, &cx)) else {
        return Err(unknown_command_message(line, &cx));
    };
    command.run(args, &cx).await.map_err(|error| error.to_string())
}

/// Reloads the commands of files and skills.
async fn refresh(line: &str, cx: &Cx) {
    if line.starts_with("skill:")
        && let Some(skills) = cx.service::<Skills>()
    {
        let _ = skills.refresh(cx).await;
    }
    refresh_files(cx).await;
}

/// Outcome of a request that a command made to the screen; `None` without a request.
fn screen_outcome(present: &Present) -> Option<Result<CommandOutcome, String>> {
    let wanted = &present.wanted;
    if let Some(text) = wanted.take_copy() {
        return Some(Ok(CommandOutcome::Show(text)));
    }
    let screen = wanted.take_screen().is_some();
    let asked = wanted.take_sign_in().is_some() || wanted.take_edit().is_some();
    (screen || asked).then(|| Err(NO_TERMINAL.to_owned()))
}
