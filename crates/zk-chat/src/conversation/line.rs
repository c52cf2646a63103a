//! Handling of a typed line: a command, or a prompt.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use zk_agent::RunOptions;
use zk_core::kernel::Cx;
use zk_core::model::{AgentError, Block, MENTIONED_BY, Message, Role};
use zk_core::service::{
    Command, CommandOutcome, Conversation, ExpandedPrompts, Tool, UiAnswer, match_command,
};
use zk_skills::{CommandFilesPlugin, Skills, is_command_file, typed_command};
use zk_tui::Style;
use zk_tui::plain::FOLLOW_UP_WAIT;
use zk_view::Intent;

use super::bash;
use super::chat::{Chat, LineOutcome};
use super::effects::Remainder;
use super::summary;
use crate::commands::session_commands;
use crate::opening::interrupts::Interruption;
use crate::opening::start::ChatEnd;
use zk_settings::suggest;

/// Rereads the directories of command files.
pub(crate) async fn refresh_files(cx: &Cx) {
    if let Some(files) = cx.service::<CommandFilesPlugin>() {
        files.refresh(cx).await;
    }
}

/// Marks a prompt as written by a command, before it is sent.
pub(crate) fn mark_prompt_of_command(text: &str, cx: &Cx) {
    if let Some(expanded) = cx.service::<ExpandedPrompts>() {
        expanded.note(text);
    }
}

/// Hint for a command name known from other programs.
fn hint_for_other_program(name: &str, has_memory: bool) -> Option<&'static str> {
    Some(match name {
        "rewind" | "checkpoint" | "branch" => {
            "/tree goes back to an earlier prompt, in a branch of this session, and offers its files; /undo takes changes of files back"
        }
        "undo" => "changes of files are not kept here: `[undo] enabled` in the settings says so",
        "usage" | "stats" | "tokens" => "/cost says what was spent, /context what fills the window",
        "memory" | "memories" if has_memory => "/memory lists what is remembered, /remember adds to it",
        "memory" | "memories" | "remember" => {
            "the memory is off (`enabled` under [memory]); AGENTS.md is what is told of a project, /init writes it"
        }
        "settings" | "preferences" => "/config shows settings, /config edit opens your file",
        "approvals" | "allowed-tools" | "mode" | "sandbox" => {
            "/permissions says and changes what runs unasked"
        }
        "continue" => "/resume goes on with another session",
        "save" | "share" => "a session is saved by itself; /export writes it as Markdown",
        "connect" | "signin" | "auth" => "/login signs in to a provider",
        "diff" => {
            "`zk diff` in a shell shows what a prompt changed, `!git diff` what is not committed; /review has it reviewed"
        }
        "doctor" => "`zk doctor` in a shell checks what is configured",
        "hooks" => "`zk hooks` in a shell lists them",
        "vim" | "keybindings" => "`keys.toml` beside settings.toml says which key does what; ?? lists them",
        "reasoning" | "think" => "/effort says and changes how much the model thinks",
        _ => return None,
    })
}

/// Whether a sub-agent has this name.
fn is_agent(name: &str, cx: &Cx) -> bool {
    let Some(spawn) = cx.item::<dyn Tool>("spawn") else { return false };
    let names = spawn.spec().schema.pointer("/properties/agent/enum").and_then(Value::as_array);
    names.is_some_and(|names| names.iter().any(|one| one == name))
}

/// Message about an unknown command.
pub(crate) fn unknown_command_message(line: &str, cx: &Cx) -> String {
    let name = line.trim_start_matches('/').split_whitespace().next().unwrap_or_default();
    let has_memory = cx.item::<dyn Command>("memory").is_some();
    if let Some(instead) = hint_for_other_program(name, has_memory) {
        return format!("zk has no /{name}: {instead}");
    }
    if is_agent(name, cx) {
        return format!("{name} is an agent, and no command: say `use the agent {name} to …` in a prompt");
    }
    let all = cx.items::<dyn Command>();
    let hint = suggest::did_you_mean(name, all.iter().map(|command| &*command.name));
    format!("there is no command /{name}{hint}; /help lists them")
}

impl Chat {
    /// Unknown commands in lines of a drawn screen. Waits for servers and skills that are still loading.
    pub(crate) async fn unknown_commands(&self, lines: &[String]) -> Vec<String> {
        let lines = lines.iter().filter(|line| !zk_tui::opens_picker(line));
        let mut names = lines.map(|line| line.trim_start_matches('/')).peekable();
        if names.peek().is_none() {
            return Vec::new();
        }
        let cx = self.conversation.command_cx();
        refresh_files(&cx).await;
        let is_known = |line: &str| match_command(line, |name| typed_command(name, &cx)).is_some();
        names
            .filter(|line| !is_known(line))
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| !name.contains(':'))
            .map(|name| format!("/{name}"))
            .collect()
    }

    /// Whether a line is a prompt, which the view shows: it begins with the name of an existing skill, or of a
    /// command that is a text.
    pub(crate) async fn is_prompt_line(&self, line: &str) -> bool {
        let name = line.trim_start_matches('/').split_whitespace().next().unwrap_or_default();
        let cx = self.conversation.command_cx();
        if name.starts_with("skill:") {
            return cx.item::<dyn Command>(name).is_some();
        }
        if !line.starts_with('/') {
            return false;
        }
        // The files may have changed since the last command.
        refresh_files(&cx).await;
        is_command_file(name, &cx)
    }

    /// Waits until no question is open before a line is read. Escape and Ctrl-C decline the question.
    pub(crate) async fn wait_for_questions(&self) -> Result<OwnedMutexGuard<()>, LineOutcome> {
        // A short wait, since follow-up questions come soon after an answer.
        if let Ok(turn) = timeout(2 * FOLLOW_UP_WAIT, self.keyboard.turn()).await {
            return Ok(turn);
        }
        let waited = self
            .run_interruptible(async |stop: CancellationToken| {
                stop.run_until_cancelled(self.keyboard.turn()).await.ok_or(LineOutcome::Failed)
            })
            .await;
        let turn = waited.and_then(|turn| turn);
        if turn.is_err() {
            for card in self.view.view().cards {
                let (id, digest, answer) = (card.id, card.digest, UiAnswer::No { message: None });
                self.view.intent(&Intent::Answer { id, digest, answer });
            }
        }
        turn
    }

    /// Handles an input line.
    pub(crate) async fn handle_line(&self, line: &str) -> LineOutcome {
        if line.is_empty() {
            return LineOutcome::Done;
        }
        // A line with only this word quits.
        if matches!(line, "exit" | "quit") {
            return LineOutcome::Quit(ChatEnd::Done);
        }
        if let Some(command) = line.strip_prefix('!') {
            return self.run_shell_command(command).await;
        }
        match self.run_command(line).await {
            Err(outcome) => outcome,
            Ok(outcome) => self.apply_outcome(line, outcome).await,
        }
    }

    /// Runs a shell command of the person, without its `!`.
    async fn run_shell_command(&self, command: &str) -> LineOutcome {
        let (command, private) = command.strip_prefix('!').map_or((command, false), |rest| (rest, true));
        let work = |stop| bash::run(self, command.trim(), private, stop);
        self.run_interruptible(work).await.unwrap_or_else(|outcome| outcome)
    }

    /// Runs a queued prompt or `!` command, then submits the next queued text.
    pub(crate) async fn run_queued_text(&self, text: &str) -> LineOutcome {
        let Some(command) = text.strip_prefix('!') else { return self.run_prompt(text).await };
        self.screen.echo(text);
        self.report_busy(true);
        let outcome = self.run_shell_command(command).await;
        self.report_busy(false);
        let next = self.view.view().queue.iter().find(|queued| !queued.steers).cloned();
        if let Some(next) = next.filter(|_| matches!(outcome, LineOutcome::Done)) {
            self.view.intent(&Intent::Unqueue { id: next.id });
            self.view.intent(&Intent::Submit { text: next.text.unsanitised().to_owned() });
        }
        outcome
    }

    /// Runs a queued text, then carries out the pending effects of the view.
    pub(crate) async fn run_queued_text_and_effects(&self, text: &str) -> LineOutcome {
        let outcome = self.run_queued_text(text).await;
        // A shell command of the person may have queued requests to the host.
        match self.carry_out_effects().await {
            LineOutcome::Done => outcome,
            next => next,
        }
    }

    /// Carries out the pending effects of the view.
    pub(crate) async fn carry_out_effects(&self) -> LineOutcome {
        let mut outcome = LineOutcome::Done;
        while let Some(effect) = self.view.take_effect() {
            match self.effect_host().carry_out(effect).await {
                // The outcome of a run is printed here.
                Some(Remainder::Run(text)) => outcome = self.run_queued_text(&text).await,
                Some(Remainder::GiveBack(text)) => self.keyboard.give_back(&text),
                None => {}
            }
        }
        self.flush().await;
        outcome
    }

    /// Stops the run through the view.
    async fn stop_run(&self) {
        self.view.intent(&Intent::Stop);
        while let Some(effect) = self.view.take_effect() {
            // A stop returns the queued texts to the person, so what is left of the effect is dropped.
            let _ = self.effect_host().carry_out(effect).await;
        }
    }

    /// Submits a prompt and waits for the end of its run.
    async fn submit(&self, text: String) -> LineOutcome {
        self.view.intent(&Intent::Submit { text });
        // Effects are carried out during a run, too.
        Box::pin(self.carry_out_effects()).await
    }

    /// Applies the outcome of a line.
    async fn apply_outcome(&self, line: &str, outcome: Option<CommandOutcome>) -> LineOutcome {
        Box::pin(self.carry_out_effects()).await;
        match outcome {
            Some(CommandOutcome::Done) => LineOutcome::Done,
            Some(CommandOutcome::Show(text)) => {
                text.lines().for_each(|said| match is_verbatim(line) {
                    true => self.screen.line(Style::PLAIN, said),
                    false => self.screen.write_wrapped_line(style_of(line, said), said),
                });
                LineOutcome::Done
            }
            Some(CommandOutcome::Prompt(text)) => {
                mark_prompt_of_command(&text, &self.conversation.command_cx());
                self.submit(text).await
            }
            Some(CommandOutcome::Quit) => LineOutcome::Quit(ChatEnd::Done),
            Some(CommandOutcome::Reload) => match self.reread() {
                Ok(factory) => LineOutcome::Reload(factory),
                Err(why) => {
                    let text = format!("nothing is read anew, everything stays as it is: {why}");
                    text.lines().for_each(|line| self.screen.line(Style::YELLOW, line));
                    LineOutcome::ReloadRejected
                }
            },
            None => self.submit(line.to_owned()).await,
        }
    }

    /// Runs `/name arguments`; `None` if the line is a prompt.
    async fn run_command(&self, line: &str) -> Result<Option<CommandOutcome>, LineOutcome> {
        let Some(rest) = line.strip_prefix('/') else { return Ok(None) };
        let cx = self.conversation.command_cx();
        // Skills of a project that was just approved may not be loaded yet.
        if rest.starts_with("skill:")
            && let Some(skills) = cx.service::<Skills>()
        {
            let _ = skills.refresh(&cx).await;
        }
        refresh_files(&cx).await;
        let Some((command, args)) = match_command(rest, |name| typed_command(name, &cx)) else {
            let name = rest.split_whitespace().next().filter(|_| !rest.starts_with(char::is_whitespace));
            let name = name.unwrap_or_default();
            if rest.trim().is_empty() {
                let text = "a command begins with / and its name; /help lists them";
                return Ok(Some(CommandOutcome::Show(text.to_owned())));
            }
            // A first word with a slash, such as `/etc/hosts`, begins a prompt.
            if name.is_empty() || name.contains('/') {
                return Ok(None);
            }
            return Ok(Some(CommandOutcome::Show(unknown_command_message(line, &cx))));
        };
        let run = async |stop: CancellationToken| {
            let ran = stop.run_until_cancelled(command.run(args, &cx)).await;
            if ran.is_none() {
                self.screen.line(Style::YELLOW, "stopped");
            }
            self.wait_for_run_end(&stop).await;
            ran
        };
        Ok(match self.run_interruptible(run).await? {
            Some(Ok(outcome)) => Some(outcome),
            Some(Err(error)) => Some(CommandOutcome::Show(error.to_string())),
            None => return Err(LineOutcome::Failed),
        })
    }

    /// Waits for a run that a command started, and reports the sessions that it left.
    async fn wait_for_run_end(&self, stop: &CancellationToken) {
        if self.conversation.state().run.is_some() {
            if stop.run_until_cancelled(self.agent.wait_for_idle()).await.is_none() {
                self.stop_run().await;
            }
            // The view returns typed texts to the draft; messages of plugins end with the run.
            let _ = self.conversation.idle().await;
            self.flush().await;
        }
        for left in self.sessions.take_left() {
            if let Some(line) = session_commands::describe_left_session(&left, "/resume") {
                self.screen.line(Style::DIM, &line);
            }
        }
    }

    /// Runs a prompt.
    pub(crate) async fn run_prompt(&self, prompt: &str) -> LineOutcome {
        // A prompt that was given back and sent again unchanged is in the conversation already.
        let images = self.attachments.images_of(prompt);
        let options = if self.is_last_and_unanswered(prompt) {
            RunOptions::resume()
        } else if images.is_empty() {
            RunOptions::from(prompt)
        } else {
            RunOptions::prompt(std::iter::once(Block::text(prompt)).chain(images).collect())
        };
        // A plugin may have begun a run by itself.
        self.agent.wait_for_idle().await;
        let run = match self.conversation.run(options).await {
            Ok(run) => run,
            Err(error) => {
                self.screen.line(Style::RED, &error.to_string());
                return LineOutcome::Failed;
            }
        };
        self.run_interruptible(async |stop: CancellationToken| {
            let mut wait = std::pin::pin!(run.wait());
            let outcome = tokio::select! {
                outcome = &mut wait => outcome,
                () = stop.cancelled() => {
                    self.stop_run().await;
                    wait.await
                }
            };
            self.flush().await;
            self.screen.end_line();
            // On other screens the view shows the end of the run, the advice and the cost.
            let is_told = self.lines().is_none();
            let raise_limit = self.factory.setup().phrases.raise_output_limit;
            match &outcome.result {
                _ if is_told => {}
                Ok(()) => {
                    if let Some(note) = summary::incomplete(&outcome, &outcome.text, raise_limit) {
                        self.screen.line(Style::YELLOW, &note);
                    }
                }
                Err(AgentError::Aborted) => self.screen.line(Style::YELLOW, "stopped"),
                Err(error) => self.screen.line(Style::RED, &self.factory.describe_error(error)),
            }
            if let Some(choices) = outcome.result.as_ref().err().and_then(summary::choices) {
                self.screen.line(Style::YELLOW, choices);
            }
            self.sessions.print_notices();
            let failed = matches!(&outcome.result, Err(error) if !matches!(error, AgentError::Aborted));
            if failed && self.is_last_and_unanswered(prompt) {
                self.keyboard.give_back(prompt);
            }
            // A handler of `input` may have handled the prompt without a run.
            if !is_told && (outcome.stats.turns > 0 || outcome.result.is_err()) {
                let mut totals = summary::totals(&outcome.stats);
                if let Some(context) = summary::context(&self.view.view().status) {
                    totals.push_str(&format!(" · {context}"));
                }
                self.screen.line(Style::DIM, &totals);
            }
            if outcome.result.is_ok() { LineOutcome::Done } else { LineOutcome::Failed }
        })
        .await
        .unwrap_or_else(|outcome| outcome)
    }

    /// Runs `work` until Escape, Ctrl-C or the end of the conversation cancels it.
    async fn run_interruptible<T, F: Future<Output = T>>(
        &self,
        work: impl FnOnce(CancellationToken) -> F,
    ) -> Result<T, LineOutcome> {
        let stop = CancellationToken::new();
        self.interrupts.arm(stop.clone());
        let watching = self.keyboard.watch(stop.clone());
        if let Err(error) = &watching {
            self.screen.line(Style::YELLOW, &format!("only Ctrl-C stops this: cannot read keys: {error}"));
        }
        let worked = self.run_with_commands(&stop, work(stop.clone())).await;
        drop(watching);
        self.drain_commands().await;
        let seen = self.interrupts.seen();
        self.interrupts.disarm();
        match seen {
            Some(Interruption::Terminated) => Err(LineOutcome::Quit(ChatEnd::Terminated)),
            Some(Interruption::Interrupted) | None if stop.is_cancelled() => Err(LineOutcome::Failed),
            Some(Interruption::Interrupted) | None => Ok(worked),
        }
    }

    /// Whether the conversation ends with this prompt, still unanswered.
    fn is_last_and_unanswered(&self, prompt: &str) -> bool {
        let is_it = |message: &Arc<Message>| {
            message.role == Role::User && message.injected_by.is_none() && message.text() == prompt
        };
        // Messages with attached files follow the prompt.
        let is_attached = |message: &&Arc<Message>| {
            let by = message.injected_by.as_deref().unwrap_or_default();
            by.starts_with(MENTIONED_BY) || by.starts_with("skill:")
        };
        self.agent.history().iter().rev().find(|message| !is_attached(message)).is_some_and(is_it)
    }
}

/// Whether a command shows text that may be code, whose lines are not wrapped.
pub(crate) fn is_verbatim(typed: &str) -> bool {
    typed.split_whitespace().next() == Some("/show")
}

/// Text style of a command's output: bold for headings of the help.
pub(crate) fn style_of(typed: &str, said: &str) -> Style {
    let is_heading = !said.is_empty() && !said.starts_with(' ');
    if typed.trim() == "/help" && is_heading { Style::BOLD } else { Style::PLAIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_of_the_help_are_bold() {
        assert_eq!(style_of("/help", "model"), Style::BOLD);
        assert_eq!(style_of("/help", "  /model   another"), Style::PLAIN);
        assert_eq!(style_of("/models", "model"), Style::PLAIN);
    }
}
