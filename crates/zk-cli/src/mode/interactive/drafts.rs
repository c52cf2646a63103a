use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use tokio::time::Instant;
use zk_exec::LocalStateFiles;

use super::editor::write_private;
use super::line_editor::OnChange;
use crate::app::AppContext;
use crate::own_files;
use crate::term::redacted;

/// Time after the last key until a draft is stored.
pub(super) const DRAFT: Duration = Duration::from_millis(500);

/// The draft of the prompt in a file of this process, which survives a crash and is removed at its end.
pub(super) struct Drafts {
    /// The directory of drafts, and the file of this process.
    place: Option<(PathBuf, PathBuf)>,
    cwd: String,
    after: Duration,
    text: String,
    /// When the text is to be stored.
    due: Option<Instant>,
}

impl Drafts {
    /// Drafts of this process, stored some time `after` the last change.
    pub(super) fn new(app: &AppContext, after: Duration) -> Self {
        let place = app.dirs.state.as_ref().map(|state| {
            let dir = state.join("drafts");
            let file = dir.join(std::process::id().to_string());
            (dir, file)
        });
        Self { place, cwd: app.cwd.display().to_string(), after, text: String::new(), due: None }
    }

    /// Goes on with a file in which the screen before stored `text`.
    pub(super) fn holding(self, text: String) -> Self {
        Self { text, ..self }
    }

    /// Takes the text that was being typed in this directory when another process broke off; it is not kept
    /// any more then.
    pub(super) fn take_lost(&self) -> Option<String> {
        let (dir, _) = self.place.as_ref()?;
        let mut found: Vec<String> = Vec::new();
        for entry in std::fs::read_dir(dir).ok()?.filter_map(Result::ok) {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            let Some(pid) = pid.filter(|pid| test_kill_process(*pid).is_err()) else { continue };
            let text = own_files::read_text(&entry.path(), own_files::DRAFT).unwrap_or_default();
            if let Some(("", draft)) = text.strip_prefix(&self.cwd).and_then(|rest| rest.split_once('\n')) {
                found.push(draft.to_owned());
                forget(&dir.join(pid.as_raw_nonzero().to_string()));
            }
        }
        found.retain(|draft| !draft.trim().is_empty());
        (!found.is_empty()).then(|| found.join("\n"))
    }

    /// Keeps the draft, and saves it to the file at intervals.
    pub(super) fn note(&mut self, draft: impl FnOnce() -> String) {
        let draft = draft();
        if draft != self.text {
            self.text = draft;
            self.due.get_or_insert_with(|| Instant::now() + self.after);
        }
        if self.due.is_some_and(|due| due <= Instant::now()) {
            self.due = None;
            self.store();
        }
    }

    /// When something is to be stored.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The conversation ends: what was not sent is given back to the next one of this directory.
    pub(super) fn close(&self) {
        self.store();
    }

    /// Stores what goes on with the conversation elsewhere, until that keeps it.
    pub(super) fn hand_on(self, text: String) {
        self.holding(text).store();
    }

    fn store(&self) {
        let Some((dir, file)) = &self.place else { return };
        if self.text.is_empty() {
            return forget(file);
        }
        let text = format!("{}\n{}", self.cwd, redacted(&self.text));
        // A draft that cannot be stored is lost in a crash, and only then.
        let _ = LocalStateFiles::make_private_dir(dir).and_then(|()| write_private(file, &text));
    }
}

/// Drafts that a thread stores, for a screen that waits for keys elsewhere. It sleeps while nothing changes.
pub(super) struct KeptDrafts {
    shared: Arc<(Mutex<Kept>, Condvar)>,
    thread: Option<JoinHandle<()>>,
    lost: Option<String>,
}

#[derive(Default)]
struct Kept {
    /// The draft since it was stored.
    changed: Option<String>,
    is_over: bool,
}

impl KeptDrafts {
    /// Drafts of this process; the thread ends with them, and what it had not stored is stored then.
    pub(super) fn new(app: &AppContext, after: Duration) -> Self {
        let mut drafts = Drafts::new(app, after);
        let lost = drafts.take_lost();
        let shared = Arc::<(Mutex<Kept>, Condvar)>::default();
        let theirs = shared.clone();
        let storing = move || {
            let (kept, changes) = &*theirs;
            let idle = |kept: &mut Kept| kept.changed.is_none() && !kept.is_over;
            let mut kept = changes.wait_while(lock(kept), idle).unwrap_or_else(PoisonError::into_inner);
            loop {
                let pausing = changes.wait_timeout_while(kept, after, |kept| !kept.is_over);
                kept = pausing.unwrap_or_else(PoisonError::into_inner).0;
                if let Some(text) = kept.changed.take() {
                    drafts.text = text;
                    drafts.store();
                }
                if kept.is_over {
                    return;
                }
                kept = changes.wait_while(kept, idle).unwrap_or_else(PoisonError::into_inner);
            }
        };
        // Without a thread a draft is lost in a crash, and only then.
        let thread = std::thread::Builder::new().name("drafts".to_owned()).spawn(storing).ok();
        Self { shared, thread, lost }
    }

    /// Takes the text that was being typed in this directory when another process broke off.
    pub(super) fn take_lost(&mut self) -> Option<String> {
        self.lost.take()
    }

    /// Takes note of what is being typed.
    pub(super) fn noting(&self) -> OnChange {
        let shared = self.shared.clone();
        Box::new(move |draft| {
            lock(&shared.0).changed = Some(draft.to_owned());
            shared.1.notify_all();
        })
    }
}

impl Drop for KeptDrafts {
    fn drop(&mut self) {
        lock(&self.shared.0).is_over = true;
        self.shared.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

fn forget(file: &Path) {
    // Most processes never stored one.
    let _ = std::fs::remove_file(file);
}
