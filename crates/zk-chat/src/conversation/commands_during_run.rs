//! Commands that are carried out during a run.

use std::collections::VecDeque;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;
use zk_agent::AgentConversation;
use zk_core::service::{CommandOutcome, match_command};
use zk_skills::{CommandFilesPlugin, typed_command};
use zk_tui::{ScreenKind, Style};
use zk_view::{Effect, Intent};

use super::chat::Chat;
use super::line::{mark_prompt_of_command, refresh_files, unknown_command_message};
use crate::screen::host_messages::{HostEvent, Made, OpenConversation};

/// Runs a command that works during a run, and returns its output.
async fn run_for_output(conversation: &AgentConversation, line: &str) -> String {
    let cx = conversation.command_cx();
    match match_command(line.trim_start_matches('/'), |name| typed_command(name, &cx)) {
        None => unknown_command_message(line, &cx),
        Some((command, args)) => match command.run(args, &cx).await {
            Ok(CommandOutcome::Show(text)) => text,
            Ok(
                CommandOutcome::Done
                | CommandOutcome::Prompt(_)
                | CommandOutcome::Quit
                | CommandOutcome::Reload,
            ) => String::new(),
            Err(error) => error.to_string(),
        },
    }
}

/// Runs a command in the background and sends its output to the screen.
pub(crate) fn run_in_background(opened: &OpenConversation, line: String, notes: UnboundedSender<HostEvent>) {
    let conversation = opened.conversation.clone();
    let running = async move {
        let text = run_for_output(&conversation, &line).await;
        // The screen may have ended.
        let _ = notes.send(HostEvent::Beside { line, text });
    };
    tokio::spawn(running);
}

/// Queue of commands that return prompts, and of the prompts typed after them.
#[derive(Default)]
pub(crate) struct PromptCommands {
    worker: Option<UnboundedSender<Typed>>,
    /// Commands and prompts in progress, oldest first.
    waiting: VecDeque<Waiting>,
    /// Texts of commands that were stopped.
    stopped: Vec<String>,
}

struct Waiting {
    text: String,
    stop: CancellationToken,
}

enum Typed {
    Command { line: String, steers: bool, stop: CancellationToken },
    Prompt(Intent),
}

impl PromptCommands {
    /// Queues a command; it runs after the earlier ones, until `stop`. A [`Made`] for each is sent to `notes`.
    pub(crate) fn queue_command(
        &mut self,
        conversation: &AgentConversation,
        notes: &UnboundedSender<HostEvent>,
        (line, steers): (String, bool),
        stop: &CancellationToken,
    ) {
        let sender = self.worker.get_or_insert_with(|| {
            let (sender, typed) = unbounded_channel();
            tokio::spawn(run_queue(conversation.clone(), typed, notes.clone()));
            sender
        });
        let stop = stop.child_token();
        self.waiting.push_back(Waiting { text: line.clone(), stop: stop.clone() });
        // The worker runs as long as the sender exists.
        let _ = sender.send(Typed::Command { line, steers, stop });
    }

    /// Queues a prompt typed after unfinished commands; returns it if the queue is empty.
    pub(crate) fn queue_prompt(&mut self, intent: Intent, stop: Option<CancellationToken>) -> Option<Intent> {
        let (Intent::Submit { text } | Intent::Steer { text }) = &intent else { return Some(intent) };
        let Some(sender) = self.worker.as_ref().filter(|_| !self.waiting.is_empty()) else {
            return Some(intent);
        };
        let stop = stop.unwrap_or_default().child_token();
        self.waiting.push_back(Waiting { text: text.clone(), stop });
        let _ = sender.send(Typed::Prompt(intent));
        None
    }

    /// Stops all commands in the queue.
    pub(crate) fn stop_all(&self) {
        self.waiting.iter().for_each(|waiting| waiting.stop.cancel());
    }

    /// Removes the first unfinished command; returns its text and outcome.
    pub(crate) fn take_done(&mut self, made: Made) -> (String, Made) {
        let Some(Waiting { text, stop }) = self.waiting.pop_front() else { return (String::new(), made) };
        let made = if matches!(made, Made::Prompt(_)) && stop.is_cancelled() { Made::Stopped } else { made };
        if made == Made::Stopped {
            self.stopped.push(text.clone());
        }
        (text, made)
    }

    /// Takes the texts of stopped commands, in order, once the queue is empty.
    pub(crate) fn take_stopped(&mut self) -> Option<String> {
        let texts = std::mem::take(self.waiting.is_empty().then_some(&mut self.stopped)?);
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    /// Stops the queue; returns the texts that were not handled.
    pub(crate) fn stop_and_take_texts(&mut self) -> Option<String> {
        self.stop_all();
        self.worker = None;
        self.stopped.extend(self.waiting.drain(..).map(|waiting| waiting.text));
        self.take_stopped()
    }
}

async fn run_queue(
    conversation: AgentConversation,
    mut typed: UnboundedReceiver<Typed>,
    notes: UnboundedSender<HostEvent>,
) {
    while let Some(typed) = typed.recv().await {
        let made = match typed {
            Typed::Prompt(intent) => Made::Prompt(intent),
            Typed::Command { line, steers, stop } => stop
                .run_until_cancelled(run_prompt_command(&conversation, &line, steers, &stop))
                .await
                .unwrap_or(Made::Stopped),
        };
        if notes.send(HostEvent::Made(made)).is_err() {
            return;
        }
    }
}

/// Runs a command. If the prompt steers the run, the content of a command file is inserted here, since steering
/// messages are not expanded later.
async fn run_prompt_command(
    conversation: &AgentConversation,
    line: &str,
    steers: bool,
    stop: &CancellationToken,
) -> Made {
    let cx = conversation.command_cx().with_stop(stop.clone());
    refresh_files(&cx).await;
    let rest = line.trim_start_matches('/');
    let made = match match_command(rest, |name| typed_command(name, &cx)) {
        // A first word with a slash, such as `/etc/hosts`, begins a prompt.
        None if rest.split_whitespace().next().is_some_and(|name| name.contains('/')) => Ok(line.to_owned()),
        None => Err(Made::Said(unknown_command_message(line, &cx))),
        Some((command, args)) => match command.run(args, &cx).await {
            Ok(outcome) => expect_prompt(outcome).inspect(|prompt| mark_prompt_of_command(prompt, &cx)),
            Err(error) => Err(Made::Said(error.to_string())),
        },
    };
    let prompt = match made {
        Ok(prompt) => prompt,
        Err(made) => return made,
    };
    if !steers {
        return Made::Prompt(Intent::Submit { text: prompt });
    }
    let Some(files) = cx.service::<CommandFilesPlugin>() else {
        return Made::Prompt(Intent::Steer { text: prompt });
    };
    match files.prompt_of(&prompt, &cx).await {
        Ok(Some(text)) => {
            mark_prompt_of_command(&text, &cx);
            Made::Prompt(Intent::Steer { text })
        }
        Ok(None) => Made::Prompt(Intent::Steer { text: prompt }),
        Err(error) => Made::Said(error.to_string()),
    }
}

/// Prompt of a command's outcome, or the other outcome as an error. Ending the conversation is not refused,
/// since the command took effect.
fn expect_prompt(outcome: CommandOutcome) -> Result<String, Made> {
    match outcome {
        CommandOutcome::Prompt(text) => Ok(text),
        CommandOutcome::Show(text) => Err(Made::Said(text)),
        CommandOutcome::Done => Err(Made::Said(String::new())),
        CommandOutcome::Quit => Err(Made::Later("/quit")),
        CommandOutcome::Reload => Err(Made::Later("/reload")),
    }
}

impl Chat {
    /// Awaits `work` and meanwhile runs commands that are safe during a run, for a conversation in plain
    /// lines.
    pub(crate) async fn run_with_commands<T>(
        &self,
        stop: &CancellationToken,
        work: impl Future<Output = T>,
    ) -> T {
        let Ok(mut typed) = self.beside.try_lock() else { return work.await };
        let over = CancellationToken::new();
        let working = async {
            let worked = work.await;
            over.cancel();
            worked
        };
        let beside = async {
            while let Some(Some(line)) = over.run_until_cancelled(typed.recv()).await {
                self.run_during_run(&line, stop).await;
            }
        };
        tokio::join!(working, Box::pin(beside)).0
    }

    /// Runs the commands that are left in the channel when the keyboard stops listening.
    pub(crate) async fn drain_commands(&self) {
        let Ok(mut typed) = self.beside.try_lock() else { return };
        while let Ok(line) = typed.try_recv() {
            self.run_during_run(&line, &CancellationToken::new()).await;
        }
    }

    async fn run_during_run(&self, line: &str, stop: &CancellationToken) {
        self.echo_text(line);
        let Some(text) = stop.run_until_cancelled(run_for_output(&self.conversation, line)).await else {
            return self.screen.line(Style::YELLOW, &format!("stopped: {line} was not done to its end"));
        };
        text.lines().for_each(|line| self.screen.line(Style::PLAIN, line));
        let loads = |effect: &Effect| matches!(effect, Effect::LoadBody { .. });
        while let Some(effect) = self.view.take_effect_where(loads) {
            // The command itself is complete.
            let _ = self.effect_host().carry_out(effect).await;
        }
        if self.wanted.requested_screen().is_some_and(|kind| kind != ScreenKind::Plain) {
            self.screen.line(Style::DIM, "the other screen follows at the end of this run");
        }
    }
}

#[cfg(test)]
mod tests {
    use zk_core::service::CommandOutcome;

    use super::{Made, expect_prompt};

    #[test]
    fn a_request_to_end_or_reload_is_carried_out_after_the_run() {
        assert_eq!(expect_prompt(CommandOutcome::Quit), Err(Made::Later("/quit")));
        assert_eq!(expect_prompt(CommandOutcome::Reload), Err(Made::Later("/reload")));
    }
}
