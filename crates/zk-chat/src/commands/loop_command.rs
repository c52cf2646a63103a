//! `/loop`: a prompt that is sent again and again.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep, sleep_until};
use zk_agent::{AgentConversation, RunOptions};
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::AgentError;
use zk_core::service::{Command, CommandOutcome};

use crate::conversation::line::mark_prompt_of_command;

/// Maximum number of iterations of a loop, and the default.
const MAX_ROUNDS: u32 = 1_000;

/// Number of consecutive failed iterations after which a loop ends.
const MAX_FAILURES_IN_A_ROW: u32 = 5;

/// Pause after a failed round of a loop without an interval.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Minimum and maximum interval between the starts of two iterations.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
const MAX_INTERVAL: Duration = Duration::from_secs(7 * 24 * 3600);

const USAGE: &str = "/loop takes a prompt, and before it how often and how far apart: `/loop 5 fix the next failing test`, \
    `/loop every 10m say what is new in the build`, `/loop 12 every 1h PROMPT`; Esc ends it";

/// Creates the command.
pub(crate) fn command(conversation: &AgentConversation) -> Arc<dyn Command> {
    Arc::new(LoopCommand { conversation: conversation.clone() })
}

struct LoopCommand {
    conversation: AgentConversation,
}

/// Parsed arguments of `/loop`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PromptLoop {
    rounds: u32,
    /// Interval between the starts of two iterations; `None` for iterations without a pause.
    interval: Option<Duration>,
    prompt: String,
}

impl PromptLoop {
    fn parse(text: &str) -> Result<Self, String> {
        let (mut rounds, mut interval, mut rest) = (MAX_ROUNDS, None, text.trim());
        if let Some((first, after)) = rest.split_once(char::is_whitespace)
            && first.bytes().all(|byte| byte.is_ascii_digit())
        {
            rounds = first
                .parse()
                .ok()
                .filter(|rounds| (1..=MAX_ROUNDS).contains(rounds))
                .ok_or_else(|| format!("`{first}` rounds: a loop has 1 to {MAX_ROUNDS}"))?;
            rest = after.trim_start();
        }
        if let Some(after) = rest.strip_prefix("every ") {
            let (length, after) = after.trim_start().split_once(char::is_whitespace).ok_or(USAGE)?;
            interval = Some(parse_interval(length)?);
            rest = after.trim_start();
        }
        if rest.is_empty() {
            return Err(USAGE.to_owned());
        }
        Ok(Self { rounds, interval, prompt: rest.to_owned() })
    }
}

/// Reads an interval such as `90s`, `10m`, `2h` or `1d`.
fn parse_interval(text: &str) -> Result<Duration, String> {
    let not =
        || format!("`{text}` is no interval: write a number and s, m, h or d, such as 10m, from 1s to 7d");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.strip_prefix(digits) {
        Some("s") => 1,
        Some("m" | "min") => 60,
        Some("h") => 3_600,
        Some("d") => 86_400,
        Some(_) | None => return Err(not()),
    };
    let seconds = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(not)?;
    let interval = Duration::from_secs(seconds);
    if (MIN_INTERVAL..=MAX_INTERVAL).contains(&interval) { Ok(interval) } else { Err(not()) }
}

/// Counts of a loop's iterations so far.
#[derive(Debug, Default)]
struct Rounds {
    done: u32,
    failed: u32,
    failed_in_a_row: u32,
    last_error: Option<String>,
}

impl Rounds {
    fn count(&mut self, failure: Option<String>) {
        match failure {
            None => (self.done, self.failed_in_a_row) = (self.done + 1, 0),
            Some(error) => {
                self.failed += 1;
                self.failed_in_a_row += 1;
                self.last_error = Some(error);
            }
        }
    }

    /// Message at the end of a loop, with the counts.
    fn describe(&self, end: &str) -> String {
        let failed = match (self.failed, &self.last_error) {
            (0, _) | (_, None) => String::new(),
            (failed, Some(error)) => format!(", {failed} failed (the last one: {error})"),
        };
        format!("the loop {end}: {} done{failed}", self.done)
    }
}

#[async_trait]
impl Command for LoopCommand {
    fn name(&self) -> &'static str {
        "loop"
    }

    fn help(&self) -> &'static str {
        "send a prompt again and again, until Esc: /loop [N] [every 10m] PROMPT"
    }

    fn argument_hint(&self) -> Option<&str> {
        Some("[N] [every 10m] PROMPT")
    }

    async fn run(&self, args: &str, _: &Cx) -> Result<CommandOutcome, BoxError> {
        let looped = PromptLoop::parse(args)?;
        let mut rounds = Rounds::default();
        for round in 1..=looped.rounds {
            let began = Instant::now();
            // A plugin may have begun a run by itself.
            self.conversation.agent().wait_for_idle().await;
            if round > 1 {
                // The prompt is marked as not typed, since nobody typed it again, and earlier iterations may
                // have read untrusted text.
                mark_prompt_of_command(&looped.prompt, &self.conversation.command_cx());
            }
            let ran = match self.conversation.run(RunOptions::from(&*looped.prompt)).await {
                Ok(run) => run.wait().await.result,
                Err(error) => Err(error),
            };
            match ran {
                Ok(()) => rounds.count(None),
                Err(AgentError::Aborted) => {
                    return Ok(CommandOutcome::Show(rounds.describe("was stopped")));
                }
                Err(error) => rounds.count(Some(error.to_string())),
            }
            if rounds.failed_in_a_row >= MAX_FAILURES_IN_A_ROW {
                let end = format!("ended after {MAX_FAILURES_IN_A_ROW} failures in a row");
                return Ok(CommandOutcome::Show(rounds.describe(&end)));
            }
            if round == looped.rounds {
                break;
            }
            match looped.interval {
                Some(interval) => sleep_until(began + interval).await,
                None if rounds.failed_in_a_row > 0 => sleep(PAUSE_AFTER_FAILURE).await,
                None => {}
            }
        }
        Ok(CommandOutcome::Show(rounds.describe("is over")))
    }
}

#[cfg(test)]
mod tests {
    use zk_agent::Agent;
    use zk_core::events::Input;
    use zk_core::kernel::Bus;
    use zk_core::model::ErrorKind;
    use zk_core::service::ExpandedPrompts;
    use zk_testkit::{Script, ScriptedProvider};

    use super::*;

    #[test]
    fn a_loop_has_a_number_an_interval_and_a_prompt() {
        let read = |text: &str| {
            PromptLoop::parse(text).map(|it| (it.rounds, it.interval.map(|i| i.as_secs()), it.prompt))
        };
        for (text, rounds, interval, prompt) in [
            ("fix it", MAX_ROUNDS, None, "fix it"),
            ("3 fix it", 3, None, "fix it"),
            ("every 10m fix it", MAX_ROUNDS, Some(600), "fix it"),
            ("  12  every  1h  fix  it ", 12, Some(3_600), "fix  it"),
            ("every day is new", MAX_ROUNDS, None, ""),
            ("3rd test is broken", MAX_ROUNDS, None, "3rd test is broken"),
            ("everything", MAX_ROUNDS, None, "everything"),
        ] {
            match read(text) {
                Ok(found) => assert_eq!(found, (rounds, interval, prompt.to_owned()), "{text}"),
                Err(why) => {
                    assert!(prompt.is_empty() && why.contains("`day` is no interval"), "{text}: {why}")
                }
            }
        }
        for (text, said) in [
            ("", "/loop takes a prompt"),
            ("5", "/loop takes a prompt"),
            ("0 x", "1 to 1000"),
            ("99999999999 x", "1 to 1000"),
            ("every 10m", "/loop takes a prompt"),
            ("every 0s x", "from 1s to 7d"),
            ("every 8d x", "from 1s to 7d"),
            ("every 99999999999999999999h x", "no interval"),
            ("every h x", "no interval"),
        ] {
            match PromptLoop::parse(text) {
                // A number without a prompt is itself the prompt.
                Ok(it) => assert_eq!((text, &*it.prompt), ("5", "5")),
                Err(why) => assert!(why.contains(said), "{text}: {why}"),
            }
        }
    }

    #[tokio::test]
    async fn rounds_after_the_first_are_not_typed_by_the_person() {
        let seen: Arc<std::sync::Mutex<Vec<bool>>> = Arc::default();
        let bus = Bus::new();
        bus.scope("memory").provide_service(Arc::new(ExpandedPrompts::default()));
        let noting = seen.clone();
        bus.scope("test").on_sync(move |input: &Input, cx: &Cx| {
            let expanded = cx.service::<ExpandedPrompts>().unwrap();
            noting.lock().unwrap().push(expanded.has(&input.text));
            None
        });
        let script = Script::new().turn(|turn| turn.text("one")).turn(|turn| turn.text("two"));
        let agent = Agent::builder(Arc::new(ScriptedProvider::new(script))).bus(bus).build().unwrap();
        let conversation = AgentConversation::new(agent);
        command(&conversation).run("2 go", &conversation.command_cx()).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), [false, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_survives_failed_rounds_keeps_its_interval_and_ends_after_five_in_a_row() {
        // Whether each iteration fails, and the loop's final message.
        for (fails, args, said, seconds) in [
            (&[false, true, false][..], "3 every 1m go", "is over: 2 done, 1 failed", 120),
            (&[true; 7][..], "go", "ended after 5 failures in a row: 0 done, 5 failed", 20),
            (&[false; 2][..], "2 go", "is over: 2 done", 0),
        ] {
            let script = fails.iter().fold(Script::new(), |script, fails| {
                script.turn(|turn| match fails {
                    true => turn.error(ErrorKind::Rejected, "broken"),
                    false => turn.text("done"),
                })
            });
            let agent =
                Agent::builder(Arc::new(ScriptedProvider::new(script))).bus(Bus::new()).build().unwrap();
            let conversation = AgentConversation::new(agent);
            let began = Instant::now();
            let shown = command(&conversation).run(args, &conversation.command_cx()).await.unwrap();
            let CommandOutcome::Show(text) = shown else { panic!("{shown:?}") };
            assert!(text.contains(said), "{text}");
            assert_eq!(began.elapsed().as_secs(), seconds, "{text}");
        }
    }
}
