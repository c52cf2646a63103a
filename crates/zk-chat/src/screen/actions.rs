//! Actions of a drawn screen, other than drawing.

use std::borrow::Cow;

use zk_core::model::SessionId;
use zk_core::service::{Exec, Renderer};
use zk_permission::ModeSwitch;
use zk_tools::Jobs;
use zk_tui::plain::LineEditor;
use zk_tui::term::{redacted, stop_process};
use zk_tui::{Action, App, Input, Modes, Queries, Renderers, ScreenKind, Style};
use zk_view::{Intent, NoteLevel};

use super::draft::edited::{Edited, EditedSubject, EditedThing};
use super::draft::editor::Editing;
use super::host_messages::{HostEvent, HostRequest, Made};
use super::inline::InlineScreen;
use crate::commands::job_commands;
use crate::conversation::chat::switch_to_next_mode;
use crate::conversation::clipboard_image::read_clipboard_image;
use crate::conversation::commands_during_run;
use crate::conversation::effects::EffectHost;
use crate::conversation::line::{is_verbatim, style_of};
use crate::opening::error::ChatError;
use crate::opening::person_exec::PersonExec;
use crate::visits::terminal_loan::TerminalLoan;

impl InlineScreen {
    /// The renderers that plugins of the conversation offer.
    pub(crate) fn renderers(&self) -> Renderers {
        let opened = self.opened.clone();
        Renderers::new(move |name| opened.get()?.agent.bus().item::<dyn Renderer>(name))
    }

    pub(crate) async fn carry_out_action(
        &mut self,
        action: Action,
        app: &mut App,
        editor: &mut LineEditor,
    ) -> Result<(), ChatError> {
        if let Action::Line(line) | Action::Beside(line) | Action::PromptCommand { line, .. } = &action {
            self.uses.count_command(line);
        }
        match action {
            Action::Line(line) => self.request_work(HostRequest::Line(line)),
            Action::Beside(line) => match self.opened.get() {
                Some(opened) => commands_during_run::run_in_background(opened, line, self.notes.clone()),
                None => self.request_work(HostRequest::Line(line)),
            },
            Action::PromptCommand { line, steers } => match (self.opened.get(), self.keyboard.running()) {
                (Some(opened), Some(run)) => {
                    self.commands.queue_command(&opened.conversation, &self.notes, (line, steers), &run);
                    app.set_hint("the command makes its prompt: Esc stops it with the run");
                }
                // The run is over, so the line is queued for the worker.
                (_, _) => self.request_work(HostRequest::Line(line)),
            },
            Action::Intent(intent) => match self.commands.queue_prompt(intent, self.keyboard.running()) {
                Some(intent) => self.submit_intent(&intent).await,
                None => app.set_hint("this waits for the command before it: Esc stops both"),
            },
            Action::Unsteer { id, text } => self.unsteer(id, &text, app).await,
            Action::Stop => {
                self.commands.stop_all();
                self.keyboard.stop();
            }
            Action::Hurry => _ = self.setup.limits.skip_waits(),
            Action::Job { id, kill } => self.show_or_kill_job(&id, kill),
            Action::RenameSession { id, title } => self.change_session(id, Some(title)),
            Action::DeleteSession { id } => self.change_session(id, None),
            Action::Attach(path) => self.attach(&path, app),
            Action::PasteImage => self.paste_image(app),
            Action::Background => self.put_in_background(app),
            Action::NextMode => {
                match self.opened.get().and_then(|opened| opened.agent.bus().service::<ModeSwitch>()) {
                    Some(modes) => app.set_hint(switch_to_next_mode(&modes)),
                    None => self.keyboard.back_tab(),
                }
            }
            Action::Remember(text) => editor.remember(&text),
            Action::Suspend => self.suspend(app, true).map_err(ChatError::TerminalAfterStop)?,
            Action::Quit => self.request_work(HostRequest::Quit),
            // Handled by the loop, since the editor then reads the input.
            Action::Edit(_) => {}
        }
        Ok(())
    }

    /// Sends a prompt or other intent to the view and handles the effects.
    pub(crate) async fn submit_intent(&self, intent: &Intent) {
        self.view.intent(intent);
        self.carry_out_urgent_effects().await;
    }

    /// Applies the outcome of a command typed during a run. A stopped line returns to the draft.
    pub(crate) async fn handle_command_outcome(&mut self, made: Made, app: &mut App) {
        match self.commands.take_done(made) {
            (_, Made::Prompt(intent)) => self.submit_intent(&intent).await,
            (line, Made::Said(text)) => self.show_command_output(&line, &text, app).await,
            (line, Made::Later(does)) => {
                let text = format!("{does} follows at the end of this run");
                self.show_command_output(&line, &text, app).await;
                self.request_work(HostRequest::Line(does.to_owned()));
            }
            (_, Made::Stopped) => {}
        }
        if let Some(text) = self.commands.take_stopped() {
            app.give_back(&text);
        }
    }

    /// Attaches the image at a pasted path if the model accepts images; otherwise the path is inserted as text.
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

    /// Reads the clipboard image in the background, if the model accepts images.
    fn paste_image(&self, app: &mut App) {
        let Some(opened) = self.opened.get() else {
            return app.set_hint("an image can be pasted once the conversation has begun");
        };
        let model = opened.agent.model();
        if !model.capabilities.vision {
            return app.print(Style::YELLOW, &format!("{} does not see images", model.reference()));
        }
        let bus = opened.agent.bus();
        let person = bus.service::<PersonExec>().map(|person| person.0.clone());
        let Some(exec) = person.or_else(|| bus.service::<dyn Exec>()) else {
            return app.set_hint("nothing here can read the clipboard: paste the path of an image file");
        };
        app.set_hint("reading the clipboard …");
        let (setup, notes) = (self.setup.clone(), self.notes.clone());
        tokio::spawn(async move {
            let path = setup.program_path.clone().unwrap_or_default();
            let image =
                read_clipboard_image(&*exec, &path, &setup.editor.display_variables(), &setup.cwd).await;
            // The screen may have ended.
            let _ = notes.send(HostEvent::Image(image));
        });
    }

    /// Attaches the clipboard image, or shows the error.
    pub(crate) fn attach_pasted(&self, image: Result<Vec<u8>, String>, app: &mut App) {
        app.clear_hint();
        let Some(opened) = self.opened.get() else { return };
        match image.and_then(|bytes| opened.attachments.add_unnamed(&bytes)) {
            Ok(mark) => app.attach(&mark),
            Err(why) => app.print(Style::YELLOW, &why),
        }
    }

    /// Takes a steering message back, unless the model has received it.
    async fn unsteer(&self, id: u64, text: &str, app: &mut App) {
        if self.opened.get().is_some_and(|opened| opened.conversation.unsteer(text)) {
            self.view.intent(&Intent::Unqueue { id });
            self.carry_out_urgent_effects().await;
            app.give_back(text);
        } else {
            app.set_hint("too late: the model has this text already");
        }
    }

    /// Moves the foreground command to the background.
    fn put_in_background(&self, app: &mut App) {
        let jobs = self.opened.get().and_then(|opened| opened.agent.bus().service::<Jobs>());
        if jobs.is_none_or(|jobs| job_commands::put_in_background(&jobs).is_err()) {
            app.set_hint("no command runs that could go on in the background");
        }
    }

    fn show_or_kill_job(&self, id: &str, kill: bool) {
        let Some(jobs) = self.opened.get().and_then(|opened| opened.agent.bus().service::<Jobs>()) else {
            return;
        };
        let done = if kill { job_commands::kill_job(&jobs, id) } else { job_commands::job_tail(&jobs, id) };
        let (level, text) = match done {
            Ok(text) => (NoteLevel::Info, text),
            Err(why) => (NoteLevel::Warning, why),
        };
        let text = if kill { text } else { format!("{id}:\n{text}") };
        self.view.note(level, &text);
    }

    /// Renames a session, or removes it if `title` is `None`.
    fn change_session(&self, id: String, title: Option<String>) {
        let Some(sessions) = self.opened.get().map(|opened| opened.sessions.clone()) else { return };
        let notes = self.notes.clone();
        tokio::spawn(async move {
            let session = SessionId::from(id.as_str());
            let done = match &title {
                Some(title) => sessions.rename(&session, title).await,
                None => sessions.delete(&session).await,
            };
            let what = if title.is_some() { "renamed" } else { "removed" };
            // The screen may have ended.
            let _ = match done {
                Ok(()) => notes.send(HostEvent::SessionsChanged),
                Err(error) => notes.send(HostEvent::Failed(format!("{id} was not {what}: {error}"))),
            };
        });
    }

    /// Shows the output of a command that ran during a run.
    pub(crate) async fn show_command_output(&mut self, line: &str, text: &str, app: &mut App) {
        app.echo(line);
        // Text without headings is shown at once, since an escape sequence may span lines.
        if text.lines().any(|said| style_of(line, said) != Style::PLAIN) {
            text.lines().for_each(|said| app.print_words(style_of(line, said), said));
        } else if is_verbatim(line) {
            app.print(Style::PLAIN, text);
        } else {
            app.print_words(Style::PLAIN, text);
        }
        self.carry_out_urgent_effects().await;
        let theme = self.opened.get().and_then(|opened| opened.wanted.theme());
        if let Some(theme) = theme {
            self.set_theme(theme, app);
        }
        let Some(opened) = self.opened.get() else { return };
        match opened.wanted.requested_screen() {
            // The printed lines start at the end of the run; until then this screen draws everything.
            Some(ScreenKind::Plain) => app.set_hint("plain lines follow at the end of this run"),
            Some(kind) => {
                opened.wanted.take_screen();
                self.set_full(kind == ScreenKind::Full, app);
            }
            None => {}
        }
    }

    /// Carries out urgent effects of the view; the others wait for their turn.
    async fn carry_out_urgent_effects(&self) {
        while let Some(effect) = self.view.take_effect() {
            match self.opened.get() {
                // An urgent effect leaves nothing to its caller.
                Some(opened) if EffectHost::is_urgent(&effect) => {
                    let _ = opened.effect_host(&self.view).carry_out(effect).await;
                }
                Some(_) | None => self.request_work(HostRequest::Effect(effect)),
            }
        }
    }

    pub(crate) fn request_work(&self, work: HostRequest) {
        // The conversation may have ended.
        let _ = self.todo.send(work);
    }

    /// Stops the process as Ctrl-Z does, after restoring the terminal.
    pub(crate) fn suspend(&mut self, app: &mut App, with_group: bool) -> std::io::Result<()> {
        if self.is_away {
            return Ok(());
        }
        let bytes = app.leave();
        self.write(&bytes, app)?;
        self.guard.modes().leave();
        self.is_away = true;
        // The signal stops all threads; this one goes on here when the process is continued.
        if !stop_process(with_group) {
            app.print(Style::DIM, "zk was not stopped: no shell waits to continue it");
        }
        Ok(())
    }

    /// Pauses drawing while another process has the terminal; reclaims it afterwards.
    pub(super) fn reclaim_terminal(&mut self, app: &mut App) -> std::io::Result<()> {
        match (self.is_away, self.guard.modes().is_in_foreground()) {
            (false, false) => {
                app.abandon();
                self.is_away = true;
            }
            (true, true) => {
                self.is_away = false;
                // The modes are still set, so the other process did not restore them.
                self.guard.modes().leave();
                self.guard.modes().enter(Queries::default())?;
                app.enter(self.began.elapsed());
                let bytes = app.resize(Modes::size(), self.began.elapsed());
                self.write(&bytes, app)?;
            }
            (true, false) | (false, true) => {}
        }
        Ok(())
    }

    /// Lends the terminal to an editor; takes it back if the editor does not start.
    pub(crate) async fn lend_terminal(
        &self,
        thing: EditedThing,
        app: &mut App,
        input: &mut Option<Input>,
    ) -> std::io::Result<Option<Edited>> {
        *input = None;
        match self.begin_editing(thing, app).await {
            Ok(begun) => Ok(Some(begun)),
            Err(why) => {
                self.end_editing(Err(why), app)?;
                *input = Some(Input::read()?);
                Ok(None)
            }
        }
    }

    async fn begin_editing(&self, thing: EditedThing, app: &mut App) -> Result<Edited, String> {
        let Some(opened) = self.opened.get() else {
            return Err("the conversation has not begun yet".to_owned());
        };
        let cannot = |error: std::io::Error| format!("cannot use the terminal: {error}");
        let bytes = app.leave();
        self.write(&bytes, app).map_err(cannot)?;
        self.guard.modes().leave();
        self.guard.modes().enter_raw().map_err(cannot)?;
        let (subject, editing) = match thing {
            EditedThing::Text(text) => {
                let editing = Editing::begin(&self.setup, opened, &text).await?;
                (EditedSubject::Text(text), editing)
            }
            EditedThing::File(file) => {
                (EditedSubject::File, Editing::of_file(&self.setup, opened, file).await?)
            }
            EditedThing::Loan(TerminalLoan(work)) => {
                let work = async move {
                    work.await;
                    Ok(String::new())
                };
                return Ok(Edited { subject: EditedSubject::Loan, result: Box::pin(work) });
            }
        };
        Ok(Edited { subject, result: Box::pin(editing.finish()) })
    }

    /// Takes the terminal back, with the edited text.
    pub(crate) fn end_editing(
        &self,
        edited: Result<(EditedSubject, String), String>,
        app: &mut App,
    ) -> std::io::Result<()> {
        self.guard.modes().leave();
        self.guard.modes().enter(Queries::default())?;
        let bytes = app.resize(Modes::size(), self.began.elapsed());
        self.write(&bytes, app)?;
        app.enter(self.began.elapsed());
        match edited {
            Ok((EditedSubject::Text(before), text)) => app.end_edit(&before, &text),
            Ok((EditedSubject::Loan, _)) => {}
            Ok((EditedSubject::File, _)) => app.print(Style::DIM, "/reload takes in what you changed"),
            Err(why) => app.print(Style::YELLOW, &why),
        }
        Ok(())
    }
}

/// Copies a text to the terminal's clipboard and shows a notice.
pub(super) fn copy(text: &str, app: &mut App) {
    let said = if app.copy(text) {
        "the last answer is in the clipboard of the terminal, if it allows that"
    } else {
        "the last answer is too long for the clipboard of a terminal"
    };
    app.print(Style::DIM, said);
}

/// Redacts the secrets in a line; `None` if it has none.
pub(crate) fn mask(line: &str) -> Option<String> {
    match redacted(line) {
        Cow::Owned(masked) if masked != line => Some(masked),
        Cow::Owned(_) | Cow::Borrowed(_) => None,
    }
}
