//! Actions of the screen for a person beside drawing.

use zk_tools::Jobs;
use zk_tui::plain::LineEditor;
use zk_tui::{Action, App, Modes, Queries, ScreenKind, Style};
use zk_view::{Intent, NoteLevel};

use super::editor::Editing;
use super::host_messages::{HostRequest, Made};
use super::inline::{Edited, InlineScreen};
use crate::commands::job_commands;
use crate::conversation::commands_during_run;
use crate::conversation::effects::EffectHost;
use crate::opening::error::ChatError;

impl InlineScreen {
    pub(crate) async fn act(
        &mut self,
        action: Action,
        app: &mut App,
        editor: &mut LineEditor,
    ) -> Result<(), ChatError> {
        match action {
            Action::Line(line) => self.work(HostRequest::Line(line)),
            Action::Beside(line) => match self.opened.get() {
                Some(opened) => commands_during_run::run(opened, line, self.notes.clone()),
                None => self.work(HostRequest::Line(line)),
            },
            Action::PromptCommand { line, steers } => match (self.opened.get(), self.keyboard.running()) {
                (Some(opened), Some(run)) => {
                    self.commands.run(&opened.conversation, &self.notes, (line, steers), &run);
                    app.set_hint("the command makes its prompt: Esc stops it with the run");
                }
                // The run is over by now.
                (_, _) => self.work(HostRequest::Line(line)),
            },
            Action::Intent(intent) => match self.commands.behind(intent, self.keyboard.running()) {
                Some(intent) => self.take_prompt(&intent).await,
                None => app.set_hint("this waits for the command before it: Esc stops both"),
            },
            Action::Unsteer { id, text } => self.unsteer(id, &text, app).await,
            Action::Stop => {
                self.commands.stop();
                self.keyboard.stop();
            }
            Action::Hurry => _ = self.setup.limits.skip_waits(),
            Action::Job { id, kill } => self.job(&id, kill),
            Action::Attach(path) => self.attach(&path, app),
            Action::NextMode => self.keyboard.back_tab(),
            Action::Remember(text) => editor.remember(&text),
            Action::Suspend => self.suspend(app, true).map_err(ChatError::TerminalAfterStop)?,
            Action::Quit => self.work(HostRequest::Quit),
            // The loop does it, since what is typed goes elsewhere then.
            Action::Edit(_) => {}
        }
        Ok(())
    }

    /// Hands a prompt, or another intent, to the view, and does what comes of it.
    pub(crate) async fn take_prompt(&self, intent: &Intent) {
        self.view.intent(intent);
        self.follow_view().await;
    }

    /// Applies the outcome of a command that was typed during a run. The line is given back where the run was
    /// stopped.
    pub(crate) async fn made(&mut self, made: Made, app: &mut App) {
        match self.commands.done(made) {
            (_, Made::Prompt(intent)) => self.take_prompt(&intent).await,
            (line, Made::Said(text)) => self.show_beside(&line, &text, app).await,
            (line, Made::Later(does)) => {
                let text = format!("{does} follows at the end of this run");
                self.show_beside(&line, &text, app).await;
                self.work(HostRequest::Line(does.to_owned()));
            }
            (_, Made::Stopped) => {}
        }
        if let Some(text) = self.commands.take_stopped() {
            app.give_back(&text);
        }
    }

    /// Attaches an image whose path was pasted, where the model sees images; its path stays text otherwise.
    fn attach(&self, path: &str, app: &mut App) {
        let Some(opened) = self.opened.get() else { return app.insert(path) };
        let model = opened.agent.model();
        let added = if model.capabilities.vision {
            let cwd = self.setup.cwd_now(&opened.agent.bus().cx());
            opened.attachments.add(&*self.setup.host_files, &cwd, path)
        } else {
            Err(format!("{} does not see images: the path stays text", model.reference()))
        };
        match added {
            Ok(mark) => app.attach(&mark),
            Err(why) => {
                app.insert(path);
                app.print(Style::YELLOW, &why);
            }
        }
    }

    /// Takes a steering message back, as long as the model does not have it.
    async fn unsteer(&self, id: u64, text: &str, app: &mut App) {
        if self.opened.get().is_some_and(|opened| opened.conversation.unsteer(text)) {
            self.view.intent(&Intent::Unqueue { id });
            self.follow_view().await;
            app.give_back(text);
        } else {
            app.set_hint("too late: the model has this text already");
        }
    }

    /// Shows the output of a command in the background, or has it end, also while a run goes on.
    fn job(&self, id: &str, kill: bool) {
        let Some(jobs) = self.opened.get().and_then(|opened| opened.agent.bus().service::<Jobs>()) else {
            return;
        };
        let done = if kill { job_commands::kill(&jobs, id) } else { job_commands::tail(&jobs, id) };
        let (level, text) = match done {
            Ok(text) => (NoteLevel::Info, text),
            Err(why) => (NoteLevel::Warning, why),
        };
        let text = if kill { text } else { format!("{id}:\n{text}") };
        self.view.note(level, &text);
    }

    /// Shows what a command said that was done beside a run.
    pub(crate) async fn show_beside(&mut self, line: &str, text: &str, app: &mut App) {
        app.print(Style::BOLD, &format!("› {line}"));
        app.print(Style::PLAIN, text);
        self.follow_view().await;
        let Some(opened) = self.opened.get() else { return };
        match opened.wanted.peek() {
            // The lines begin where the run ends: until then what is drawn belongs to this screen.
            Some(ScreenKind::Plain) => app.set_hint("plain lines follow at the end of this run"),
            Some(kind) => {
                opened.wanted.take();
                self.set_full(kind == ScreenKind::Full, app);
            }
            None => {}
        }
    }

    /// Does what the view asks of a conversation that runs; the rest waits for its turn.
    async fn follow_view(&self) {
        while let Some(effect) = self.view.take_effect() {
            match self.opened.get() {
                // An urgent effect leaves no run and no text behind.
                Some(opened) if EffectHost::is_urgent(&effect) => {
                    let _ = opened.effects(&self.view).carry_out(effect).await;
                }
                Some(_) | None => self.work(HostRequest::Effect(effect)),
            }
        }
    }

    pub(crate) fn work(&self, work: HostRequest) {
        // The conversation may have ended.
        let _ = self.todo.send(work);
    }

    /// Gives the terminal to an editor.
    pub(crate) async fn begin_editing(&self, text: &str, app: &mut App) -> Result<Edited, String> {
        let Some(opened) = self.opened.get() else {
            return Err("the conversation has not begun yet".to_owned());
        };
        let cannot = |error: std::io::Error| format!("cannot use the terminal: {error}");
        let bytes = app.leave();
        self.write(&bytes, app).map_err(cannot)?;
        self.guard.modes().leave();
        self.guard.modes().enter_raw().map_err(cannot)?;
        let result = Box::pin(Editing::begin(&self.setup, opened, text).await?.finish());
        Ok(Edited { before: text.to_owned(), result })
    }

    /// Takes the terminal back, and the text that was edited.
    pub(crate) fn end_editing(
        &self,
        edited: Result<(String, String), String>,
        app: &mut App,
    ) -> std::io::Result<()> {
        self.guard.modes().leave();
        self.guard.modes().enter(Queries::default())?;
        let bytes = app.resize(Modes::size(), self.began.elapsed());
        self.write(&bytes, app)?;
        app.enter(self.began.elapsed());
        match edited {
            Ok((before, text)) => app.end_edit(&before, &text),
            Err(why) => app.print(Style::YELLOW, &why),
        }
        Ok(())
    }
}
