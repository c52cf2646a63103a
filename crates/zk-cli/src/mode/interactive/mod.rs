//! A conversation on a terminal.

mod bash;
mod keys;
mod lines;
mod slash;
mod ui;

use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;
use zk_agent::Agent;
use zk_core::events::Input;
use zk_core::model::AgentError;
use zk_core::service::{Command, CommandOutcome, Provider};

use self::keys::Mode;
use self::lines::{Lines, Typed};
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
    let usual = Mode::of_stdin().map_err(cannot)?;
    let signals = Signals::watch(move || usual.apply()).map_err(cannot)?;
    signals.disarm();
    let runtime = runtime()?;
    let mut lines = Lines::new(ground.dirs.line_history()).map_err(Failure::failed)?;
    let chat = runtime.block_on(Chat::open(ground, &prompt, signals))?;
    chat.greet(ground);

    let mut next = prompt.text;
    let mut interrupted = false;
    let exit = loop {
        let text = match next.take() {
            Some(text) => {
                chat.shown.line(Style::Plain, &format!("› {text}"));
                text
            }
            None => match lines.read() {
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
        if let Some(exit) = runtime.block_on(chat.take(text.trim())) {
            break exit;
        }
    };
    runtime.block_on(chat.close());
    Ok(exit)
}

struct Chat {
    agent: Agent,
    session: Session,
    shown: Shown,
    ui: Arc<TerminalUi>,
    signals: Signals,
    cwd: std::path::PathBuf,
}

impl Chat {
    async fn open(ground: &Ground, prompt: &Prompt, signals: Signals) -> Outcome<Self> {
        let endpoint = ground.endpoint().await?;
        let provider = compose::provider(ground, &endpoint).await?;
        let session = sessions::begin(ground, prompt.resume.as_ref()).await?;
        let shown = Shown(Arc::new(Mutex::new(Screen::new(&ground.env))));
        let ui = Arc::new(TerminalUi::new(shown.clone()));
        let allow_all = ground.settings.flag("permissions.allow_all");
        let bus = compose::bus(ground, &session, Manners { ui: Some(ui.clone()), allow_all })?;
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
        Ok(Self { agent, session, shown, ui, signals, cwd: ground.cwd.clone() })
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

    /// Does what a line asks for; an exit code ends the conversation.
    async fn take(&self, line: &str) -> Option<Exit> {
        if line.is_empty() {
            return None;
        }
        if let Some(command) = line.strip_prefix('!') {
            let (command, private) = command.strip_prefix('!').map_or((command, false), |rest| (rest, true));
            return self.watched(|stop| bash::run(self, command.trim(), private, stop)).await;
        }
        match self.command(line).await {
            Some(CommandOutcome::Done) => None,
            Some(CommandOutcome::Show(text)) => {
                text.lines().for_each(|line| self.shown.line(Style::Plain, line));
                None
            }
            Some(CommandOutcome::Prompt(prompt)) => self.ask(&prompt).await,
            Some(CommandOutcome::Quit) => Some(Exit::Done),
            None => self.ask(line).await,
        }
    }

    /// Runs `/name arguments`; nothing when the line is a prompt.
    async fn command(&self, line: &str) -> Option<CommandOutcome> {
        let rest = line.strip_prefix('/')?;
        let (name, args) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let cx = self.agent.bus().cx();
        let Some(command) = cx.item::<dyn Command>(name) else {
            // Something like `/etc/hosts` is the beginning of a prompt.
            if name.is_empty() || name.contains('/') {
                return None;
            }
            let all = cx.items::<dyn Command>();
            let hint = near::did_you_mean(name, all.iter().map(|command| &*command.name));
            return Some(CommandOutcome::Show(format!(
                "there is no command /{name}{hint}; /help lists them"
            )));
        };
        Some(match command.run(args.trim(), &cx).await {
            Ok(outcome) => outcome,
            Err(error) => CommandOutcome::Show(error.to_string()),
        })
    }

    /// One run.
    async fn ask(&self, prompt: &str) -> Option<Exit> {
        let cx = self.agent.bus().cx();
        let input = Input { text: prompt.to_owned(), images: Vec::new(), handled: false };
        let text = match cx.emit(input).await {
            Ok(input) if input.handled => return None,
            Ok(input) => input.text,
            Err(error) => {
                self.shown.line(Style::Red, &error.to_string());
                return None;
            }
        };
        let run = match self.agent.run(text) {
            Ok(run) => run,
            Err(error) => {
                self.shown.line(Style::Red, &error.to_string());
                return None;
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
        })
        .await
    }

    /// Does `work` while Ctrl-C stops it.
    async fn watched<F: Future<Output = ()>>(
        &self,
        work: impl FnOnce(CancellationToken) -> F,
    ) -> Option<Exit> {
        let stop = CancellationToken::new();
        self.signals.arm_run(stop.clone());
        work(stop).await;
        self.ui.settled().await;
        let seen = self.signals.seen();
        self.signals.disarm();
        seen.filter(|exit| *exit == Exit::Terminated)
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
