//! A conversation on a terminal.

mod bash;
mod keyboard;
mod keys;
mod lines;
mod models;
mod slash;
mod tty;
mod ui;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zk_agent::Agent;
use zk_core::events::Input;
use zk_core::model::AgentError;
use zk_core::service::{Command, CommandOutcome, Provider};

use self::keyboard::Keyboard;
use self::lines::{Lines, Typed};
use self::tty::Tty;
use self::ui::TerminalUi;
use super::notes;
use super::show::{self, Shown};
use crate::app::{Ground, runtime};
use crate::args::Prompt;
use crate::compose::{self, Manners};
use crate::exit::{Exit, Failure, Outcome};
use crate::near;
use crate::sessions::{self, Session};
use crate::signals::Signals;
use crate::term::{Screen, Style};

pub(crate) fn run(ground: &Ground, prompt: Prompt) -> Outcome<Exit> {
    let cannot = |error: std::io::Error| Failure::failed(format!("cannot use the terminal: {error}"));
    let tty = Tty::of_stdin().map_err(cannot)?;
    let leaving = tty.clone();
    let signals = Signals::watch(move || leaving.leave()).map_err(cannot)?;
    signals.disarm();
    let runtime = runtime()?;
    let mut lines = Lines::new(ground.dirs.line_history()).map_err(Failure::failed)?;
    let chat = runtime.block_on(Chat::open(ground, &prompt, tty, signals))?;
    chat.greet(ground);

    let mut given = prompt.text;
    let mut interrupted = false;
    let exit = loop {
        let text = match given.take().or_else(|| chat.next(&mut lines)) {
            Some(text) => {
                chat.shown.line(Style::Plain, &format!("› {text}"));
                text
            }
            None => match lines.read(&chat.keyboard.take_draft()) {
                Typed::Line(text) => text,
                Typed::Interrupt if interrupted => break Exit::Done,
                Typed::Interrupt => {
                    interrupted = true;
                    chat.shown.line(Style::Dim, "Ctrl-C again, or Ctrl-D, ends the conversation");
                    continue;
                }
                Typed::End => break Exit::Done,
                Typed::Failed(why) => {
                    chat.shown.line(Style::Red, &format!("cannot read the terminal: {why}"));
                    break Exit::Failed;
                }
            },
        };
        interrupted = false;
        match runtime.block_on(chat.take(text.trim())) {
            Went::Well => {}
            Went::Badly => chat.keyboard.unqueue(),
            Went::Over(exit) => break exit,
        }
    };
    runtime.block_on(chat.close());
    Ok(exit)
}

/// How it went with a line.
enum Went {
    Well,
    /// It was stopped, or failed.
    Badly,
    /// The conversation is over.
    Over(Exit),
}

struct Chat {
    agent: Agent,
    session: Session,
    shown: Shown,
    keyboard: Keyboard,
    signals: Signals,
    cwd: std::path::PathBuf,
}

impl Chat {
    async fn open(ground: &Ground, prompt: &Prompt, tty: Tty, signals: Signals) -> Outcome<Self> {
        let endpoint = ground.endpoint().await?;
        let provider = compose::provider(ground, &endpoint).await?;
        let session = sessions::begin(ground, prompt.resume.as_ref()).await?;
        let shown = Shown::with_keys(Screen::new(&ground.env));
        let keyboard = Keyboard::new(tty, shown.clone(), ground.limits.clone());
        let ui = Arc::new(TerminalUi::new(shown.clone(), keyboard.clone()));
        let allow_all = ground.settings.flag("permissions.allow_all");
        let bus = compose::bus(ground, &session, Manners { ui: Some(ui), allow_all })?;
        let model = compose::model(ground, &*provider, &session).await?;
        let agent = compose::agent(ground, &bus, provider.clone(), model, &session)?;
        shown.listen(&bus.scope("terminal-output"));
        bus.scope("provider")
            .provide::<dyn Provider>(provider.name(), provider.clone())
            .map_err(Failure::failed)?;
        let commands = slash::all(&agent, ground);
        let scope = bus.scope("commands");
        for command in commands {
            scope.provide::<dyn Command>(command.name(), command.clone()).map_err(Failure::failed)?;
        }
        Ok(Self { agent, session, shown, keyboard, signals, cwd: ground.cwd.clone() })
    }

    fn greet(&self, ground: &Ground) {
        let model = self.agent.model().reference();
        let kept = match &self.session.open {
            Some(open) if self.session.resumed => format!("session {} continues", open.id()),
            Some(_) => "the conversation is kept".to_owned(),
            None => "nothing is kept".to_owned(),
        };
        self.shown.line(Style::Dim, &format!("zk {} · {model} · {kept}", env!("CARGO_PKG_VERSION")));
        if ground.settings.flag("permissions.allow_all") {
            self.shown.line(Style::Yellow, "every tool runs without asking (--allow-all)");
        }
        self.shown.line(Style::Dim, "/help lists the commands, !command runs one of your own, Ctrl-D ends");
        if self.session.resumed {
            for message in self.agent.history().iter().rev().take(2).rev() {
                let text = message.text();
                if !text.trim().is_empty() {
                    self.shown.line(Style::Dim, &notes::shorten(text.trim().lines().next().unwrap_or("")));
                }
            }
        }
    }

    /// The next of the texts that were typed during a run.
    fn next(&self, lines: &mut Lines) -> Option<String> {
        let text = self.keyboard.next()?;
        lines.remember(&text);
        Some(text)
    }

    /// Does what a line asks for.
    async fn take(&self, line: &str) -> Went {
        if line.is_empty() {
            return Went::Well;
        }
        if let Some(command) = line.strip_prefix('!') {
            let (command, private) = command.strip_prefix('!').map_or((command, false), |rest| (rest, true));
            let work = |stop| bash::run(self, command.trim(), private, stop);
            return self.watched(work).await.unwrap_or_else(|went| went);
        }
        match self.command(line).await {
            Err(went) => went,
            Ok(outcome) => self.follow(line, outcome).await,
        }
    }

    /// Does what came of a line.
    async fn follow(&self, line: &str, outcome: Option<CommandOutcome>) -> Went {
        match outcome {
            Some(CommandOutcome::Done) => Went::Well,
            Some(CommandOutcome::Show(text)) => {
                text.lines().for_each(|line| self.shown.line(Style::Plain, line));
                Went::Well
            }
            Some(CommandOutcome::Prompt(prompt)) => self.ask(&prompt).await,
            Some(CommandOutcome::Quit) => Went::Over(Exit::Done),
            None => self.ask(line).await,
        }
    }

    /// Runs `/name arguments`; nothing when the line is a prompt.
    async fn command(&self, line: &str) -> Result<Option<CommandOutcome>, Went> {
        let Some(rest) = line.strip_prefix('/') else { return Ok(None) };
        let (name, args) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let cx = self.agent.bus().cx();
        let Some(command) = cx.item::<dyn Command>(name) else {
            // Something like `/etc/hosts` is the beginning of a prompt.
            if name.is_empty() || name.contains('/') {
                return Ok(None);
            }
            let all = cx.items::<dyn Command>();
            let hint = near::did_you_mean(name, all.iter().map(|command| &*command.name));
            let text = format!("there is no command /{name}{hint}; /help lists them");
            return Ok(Some(CommandOutcome::Show(text)));
        };
        let run = async |stop: CancellationToken| {
            let ran = stop.run_until_cancelled(command.run(args.trim(), &cx)).await;
            if ran.is_none() {
                self.shown.line(Style::Yellow, "stopped");
            }
            ran
        };
        Ok(match self.watched(run).await? {
            Some(Ok(outcome)) => Some(outcome),
            Some(Err(error)) => Some(CommandOutcome::Show(error.to_string())),
            None => return Err(Went::Badly),
        })
    }

    /// One run.
    async fn ask(&self, prompt: &str) -> Went {
        let cx = self.agent.bus().cx();
        let input = Input { text: prompt.to_owned(), images: Vec::new(), handled: false };
        let text = match cx.emit(input).await {
            Ok(input) if input.handled => return Went::Well,
            Ok(input) => input.text,
            Err(error) => {
                self.shown.line(Style::Red, &error.to_string());
                return Went::Badly;
            }
        };
        let run = match self.agent.run(text) {
            Ok(run) => run,
            Err(error) => {
                self.shown.line(Style::Red, &error.to_string());
                return Went::Badly;
            }
        };
        let handle = run.handle();
        self.watched(async |stop: CancellationToken| {
            let mut wait = std::pin::pin!(run.wait());
            let outcome = tokio::select! {
                outcome = &mut wait => outcome,
                () = stop.cancelled() => {
                    handle.abort();
                    wait.await
                }
            };
            self.shown.settle();
            match &outcome.result {
                Ok(()) => {
                    if let Some(note) = notes::cut(&outcome) {
                        self.shown.line(Style::Yellow, &note);
                    }
                }
                Err(AgentError::Aborted) => self.shown.line(Style::Yellow, "stopped"),
                Err(error) => self.shown.line(Style::Red, &error.to_string()),
            }
            self.shown.line(Style::Dim, &show::totals(&outcome.stats));
            if outcome.result.is_ok() { Went::Well } else { Went::Badly }
        })
        .await
        .unwrap_or_else(|went| went)
    }

    /// Does `work` while Escape and Ctrl-C stop it; fails when they did, or the conversation has to end.
    async fn watched<T, F: Future<Output = T>>(
        &self,
        work: impl FnOnce(CancellationToken) -> F,
    ) -> Result<T, Went> {
        let stop = CancellationToken::new();
        self.signals.arm_run(stop.clone());
        let watching = self.keyboard.watch(stop.clone());
        if let Err(error) = &watching {
            self.shown.line(Style::Yellow, &format!("only Ctrl-C stops this: cannot read keys: {error}"));
        }
        let worked = work(stop.clone()).await;
        drop(watching);
        let seen = self.signals.seen();
        self.signals.disarm();
        match seen {
            Some(exit) if exit == Exit::Terminated => Err(Went::Over(exit)),
            Some(_) | None if stop.is_cancelled() => Err(Went::Badly),
            Some(_) | None => Ok(worked),
        }
    }

    async fn close(&self) {
        self.agent.close().await;
        let written = !self.agent.history().is_empty();
        match (self.session.close().await, &self.session.open) {
            (Err(error), _) => self.shown.line(Style::Red, &error.to_string()),
            (Ok(()), Some(open)) if written => {
                self.shown.line(Style::Dim, &format!("to go on: zk --resume {}", open.id()));
            }
            (Ok(()), _) => {}
        }
    }
}
