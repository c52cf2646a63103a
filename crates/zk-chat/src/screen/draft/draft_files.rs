use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::process::{Pid, test_kill_process};
use zk_core::service::{HostFiles, HostRead, make_private_dir};
use zk_tui::{DraftFiles, LostDraft};

use super::editor::{MAX_DRAFT_BYTES, write_private};
use crate::opening::setup::ChatSetup;

/// Draft files in a directory, named by process id.
struct LocalDraftFiles {
    dir: PathBuf,
    /// File of this process.
    file: PathBuf,
    /// Working directory that the draft belongs to.
    cwd: String,
    host_files: Arc<dyn HostFiles>,
}

impl std::fmt::Debug for LocalDraftFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalDraftFiles").field("file", &self.file).finish_non_exhaustive()
    }
}

/// Store of draft files; `None` without a directory.
pub(crate) fn draft_files(setup: &ChatSetup) -> Option<Box<dyn DraftFiles>> {
    let dir = setup.state_dir.as_ref()?.join("drafts");
    let file = dir.join(std::process::id().to_string());
    Some(Box::new(LocalDraftFiles {
        dir,
        file,
        cwd: setup.cwd.display().to_string(),
        host_files: setup.host_files.clone(),
    }))
}

impl DraftFiles for LocalDraftFiles {
    fn take_lost(&self) -> Option<LostDraft> {
        let mut found: Vec<LostDraft> = Vec::new();
        for entry in std::fs::read_dir(&self.dir).ok()?.filter_map(Result::ok) {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            let Some(pid) = pid.filter(|pid| test_kill_process(*pid).is_err()) else { continue };
            let read = self.host_files.read(&entry.path(), &HostRead::whole(MAX_DRAFT_BYTES));
            let text = read.ok().and_then(|file| String::from_utf8(file.bytes).ok()).unwrap_or_default();
            if let Some(("", draft)) = text.strip_prefix(&self.cwd).and_then(|rest| rest.split_once('\n')) {
                let changed = entry.metadata().and_then(|about| about.modified()).ok();
                let age = changed.and_then(|changed| SystemTime::now().duration_since(changed).ok());
                found.push(LostDraft { text: draft.to_owned(), age });
                delete(&self.dir.join(pid.as_raw_nonzero().to_string()));
            }
        }
        found.retain(|draft| !draft.text.trim().is_empty());
        let age = found.iter().filter_map(|draft| draft.age).min();
        let texts: Vec<String> = found.into_iter().map(|draft| draft.text).collect();
        (!texts.is_empty()).then(|| LostDraft { text: texts.join("\n"), age })
    }

    fn store(&self, text: &str) {
        if text.is_empty() {
            return delete(&self.file);
        }
        let text = format!("{}\n{text}", self.cwd);
        let _ = make_private_dir(&self.dir).and_then(|()| write_private(&self.file, &text));
    }
}

fn delete(file: &Path) {
    // Most processes store no draft.
    let _ = std::fs::remove_file(file);
}
