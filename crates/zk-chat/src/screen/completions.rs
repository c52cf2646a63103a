use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use zk_core::events::ModelsQuery;
use zk_core::kernel::Cx;
use zk_core::service::{Command, Files, SessionFilter, WalkOptions};
use zk_tui::{Asked, Offered};

use super::host_messages::{HostEvent, OpenConversation};
use crate::commands::session_commands::prompts;
use crate::opening::sessions::ConversationSessions;
use crate::opening::setup::{ChatSetup, ExecutionPlace};

/// Paths that are offered at most.
const MAX_PATHS: usize = 100_000;

/// Time that names count as known.
const FRESH: Duration = Duration::from_secs(10);

/// Time that the prompts of the present session count as known.
const CURRENT: Duration = Duration::from_secs(1);

/// Sessions that are offered.
const SESSIONS: usize = 100;

/// Names of commands, their arguments and files, for whoever types. What takes time is found in the background.
#[derive(Clone)]
pub(crate) struct Completions {
    pub(crate) opened: Arc<OnceLock<OpenConversation>>,
    pub(crate) setup: ChatSetup,
    /// Sender of a note when names were found.
    pub(crate) notes: UnboundedSender<HostEvent>,
    pub(crate) known: Arc<Mutex<Known>>,
}

/// Names that are known by now.
#[derive(Default)]
pub(crate) struct Known {
    /// Directory of the files and sessions.
    cwd: PathBuf,
    files: Names,
    programs: Names,
    models: Names,
    sessions: Names,
    prompts: Names,
}

#[derive(Default)]
struct Names {
    offered: Offered,
    asked: Option<Instant>,
}

impl Names {
    /// Whether they have to be found again.
    fn is_due(&mut self) -> bool {
        let is_due = self.asked.is_none_or(|asked| asked.elapsed() > FRESH);
        if is_due {
            self.asked = Some(Instant::now());
        }
        is_due
    }
}

impl Completions {
    /// The names for what is asked, as far as they are known by now.
    pub(crate) fn offer(&self, asked: &Asked) -> Offered {
        let Some(opened) = self.opened.get() else { return Offered::default() };
        match asked {
            Asked::Command => commands(opened),
            Asked::Program => self.programs(),
            Asked::File | Asked::ShellWord => self.files(opened, &self.cwd(opened)),
            Asked::Argument(command) => match command.as_str() {
                "model" => self.models(opened),
                "resume" => self.sessions(opened, self.cwd(opened)),
                "tree" => self.prompts(opened),
                "screen" => fixed(&["inline", "full", "plain"]),
                "permissions" => fixed(&["read-only", "ask", "accept-edits", "auto", "all"]),
                "thinking" => fixed(&["off", "minimal", "low", "medium", "high", "xhigh", "max", "adaptive"]),
                _ => Offered::default(),
            },
        }
    }

    /// Returns the directory where the conversation works by now. Files and sessions of another directory are
    /// forgotten.
    fn cwd(&self, opened: &OpenConversation) -> PathBuf {
        let cwd = self.setup.cwd_now(&opened.agent.bus().cx());
        let mut known = self.known();
        if known.cwd != cwd {
            (known.files, known.sessions) = (Names::default(), Names::default());
            known.cwd.clone_from(&cwd);
        }
        cwd
    }

    fn files(&self, opened: &OpenConversation, cwd: &Path) -> Offered {
        let mut known = self.known();
        if known.files.is_due()
            && let Some(files) = opened.agent.bus().service::<dyn Files>()
        {
            let (completions, cwd) = (self.clone(), cwd.to_path_buf());
            tokio::task::spawn_blocking(move || {
                let offered = walk(&*files, &cwd, MAX_PATHS);
                completions.found_in(&cwd, |known| &mut known.files, offered);
            });
        }
        known.files.offered.clone()
    }

    /// The programs that a command may begin with; none where commands run on another machine or in a container.
    fn programs(&self) -> Offered {
        let is_here = self.setup.execution_place == ExecutionPlace::ThisMachine;
        let mut known = self.known();
        if is_here && known.programs.is_due() {
            let (completions, path) = (self.clone(), self.setup.program_path.clone());
            tokio::task::spawn_blocking(move || {
                let names = programs(&path.unwrap_or_default());
                let offered = Offered { names: names.into(), ..Offered::default() };
                completions.found(|known| &mut known.programs, offered);
            });
        }
        known.programs.offered.clone()
    }

    fn models(&self, opened: &OpenConversation) -> Offered {
        let mut known = self.known();
        if known.models.is_due() {
            let (completions, cx) = (self.clone(), opened.agent.bus().cx());
            tokio::spawn(async move {
                let offered = models(&cx).await;
                completions.found(|known| &mut known.models, offered);
            });
        }
        known.models.offered.clone()
    }

    fn sessions(&self, opened: &OpenConversation, cwd: PathBuf) -> Offered {
        let mut known = self.known();
        if known.sessions.is_due() {
            let (completions, sessions) = (self.clone(), opened.sessions.clone());
            tokio::spawn(async move {
                let offered = stored(&*sessions, cwd.clone()).await;
                completions.found_in(&cwd, |known| &mut known.sessions, offered);
            });
        }
        known.sessions.offered.clone()
    }

    /// The prompts of the present session: another one may be the present one by now, so they are found each time.
    fn prompts(&self, opened: &OpenConversation) -> Offered {
        let mut known = self.known();
        if known.prompts.asked.is_none_or(|asked| asked.elapsed() > CURRENT) {
            known.prompts.asked = Some(Instant::now());
            let (completions, sessions) = (self.clone(), opened.sessions.clone());
            tokio::spawn(async move {
                let found = prompts(&*sessions).await.unwrap_or_default();
                let (names, notes): (Vec<String>, Vec<String>) = found.into_iter().unzip();
                let offered = Offered { names: names.into(), notes: notes.into(), ..Offered::default() };
                completions.found(|known| &mut known.prompts, offered);
            });
        }
        known.prompts.offered.clone()
    }

    /// Takes names as [`found`](Self::found) does, for a directory that may not be the present one any more.
    fn found_in(&self, cwd: &Path, place: impl FnOnce(&mut Known) -> &mut Names, offered: Offered) {
        if self.known().cwd == cwd {
            self.found(place, offered);
        }
    }

    fn found(&self, place: impl FnOnce(&mut Known) -> &mut Names, offered: Offered) {
        *place(&mut self.known()) = Names { offered, asked: Some(Instant::now()) };
        // The screen may have ended.
        let _ = self.notes.send(HostEvent::Names);
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fixed(names: &[&str]) -> Offered {
    Offered { names: names.iter().map(ToString::to_string).collect(), ..Offered::default() }
}

fn commands(opened: &OpenConversation) -> Offered {
    let commands = opened.agent.bus().cx().items::<dyn Command>();
    Offered {
        names: commands.iter().map(|command| command.name.to_string()).collect(),
        notes: commands.iter().map(|command| command.value.help().to_owned()).collect(),
        remark: None,
    }
}

async fn stored(sessions: &dyn ConversationSessions, cwd: PathBuf) -> Offered {
    let filter = SessionFilter { cwd: Some(cwd), limit: Some(SESSIONS), unanswered: false };
    let listed = sessions.list(&filter).await.unwrap_or_default();
    let names = listed.iter().map(|info| info.id.as_str().to_owned()).collect();
    Offered { names, notes: listed.into_iter().map(|info| info.title).collect(), remark: None }
}

async fn models(cx: &Cx) -> Offered {
    let Ok(reply) = cx.emit(ModelsQuery::default()).await else { return Offered::default() };
    let note = |window: Option<u64>| window.map_or(String::new(), |tokens| format!("window {tokens} tokens"));
    Offered {
        names: reply.models.iter().map(|model| model.reference().to_string()).collect(),
        notes: reply.models.iter().map(|model| note(model.window)).collect(),
        remark: None,
    }
}

/// The programs in the directories of a `PATH`.
fn programs(path: &OsStr) -> Vec<String> {
    let entries =
        std::env::split_paths(path).filter_map(|directory| std::fs::read_dir(directory).ok()).flatten();
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        // A link to a program is one.
        let about = std::fs::metadata(entry.path()).ok()?;
        let is_program = about.is_file() && about.permissions().mode() & 0o111 != 0;
        let name = entry.file_name().into_string().ok()?;
        (is_program && !name.contains(|c: char| c.is_control() || c.is_whitespace())).then_some(name)
    };
    let names: BTreeSet<String> = entries.filter_map(name).take(MAX_PATHS).collect();
    names.into_iter().collect()
}

/// The first `most` files below a directory that no ignore file leaves out, shorter paths first.
fn walk(files: &dyn Files, cwd: &Path, most: usize) -> Offered {
    let Ok(start) = files.resolve(cwd, ".") else { return Offered::default() };
    let (mut names, mut is_cut) = (Vec::new(), false);
    let mut visit = |entry: zk_core::service::WalkEntry| {
        let name = entry.at.path.strip_prefix(&start.path).ok().and_then(Path::to_str);
        // One with a blank is put in quotes where it is chosen.
        let Some(name) = name.filter(|name| !name.is_empty() && !name.contains(char::is_control)) else {
            return ControlFlow::Continue(());
        };
        is_cut = names.len() == most;
        if is_cut {
            return ControlFlow::Break(());
        }
        names.push(name.to_owned());
        ControlFlow::Continue(())
    };
    // Files that were found before an error are offered.
    let _ = files.walk(&start, &WalkOptions::default(), &mut visit);
    names.sort_by_key(|name| (name.matches('/').count(), name.len()));
    let remark = is_cut.then(|| {
        let text = format!("only the first {most} paths are offered here; others can be typed");
        text.into()
    });
    Offered { names: names.into(), remark, ..Offered::default() }
}

#[cfg(test)]
mod tests {
    use zk_exec::WorkspaceFiles;

    use super::*;

    #[test]
    fn paths_that_are_not_offered_are_told_of() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let files = WorkspaceFiles::new([dir.path()]).unwrap();
        let all = walk(&files, dir.path(), 3);
        assert_eq!((all.names.len(), all.remark), (3, None));
        let some = walk(&files, dir.path(), 2);
        assert_eq!(some.names.len(), 2);
        let remark = some.remark.unwrap();
        assert!(remark.starts_with("only the first 2 paths are offered"), "{remark}");
    }
}
