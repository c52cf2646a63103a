//! Counts of how often a person used each command, by which a list is sorted.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zk_core::service::{HostRead, make_private_dir};

use super::draft::editor::write_private;
use crate::opening::setup::ChatSetup;

/// Name of the file in the state directory.
const FILE: &str = "command-uses";

/// Size limit of the file, in bytes.
const MAX_USES_BYTES: usize = 64 << 10;

/// Commands for new users, most useful first: the default order.
const FIRST_DAY: [&str; 14] = [
    "model",
    "init",
    "review",
    "new",
    "resume",
    "compact",
    "context",
    "status",
    "cost",
    "permissions",
    "tree",
    "btw",
    "config",
    "help",
];

/// Counts of used commands by name. Clones share the counts.
#[derive(Clone, Default)]
pub(crate) struct CommandUses(Arc<Mutex<Uses>>);

#[derive(Default)]
struct Uses {
    counts: HashMap<String, u64>,
    /// File of the counts; `None` if they are not stored.
    file: Option<PathBuf>,
}

impl CommandUses {
    /// Reads the stored counts.
    pub(crate) fn read(setup: &ChatSetup) -> Self {
        let file = setup.state_dir.as_ref().map(|dir| dir.join(FILE));
        let read = file.as_ref().and_then(|file| {
            let read = setup.host_files.read(file, &HostRead::whole(MAX_USES_BYTES)).ok()?;
            String::from_utf8(read.bytes).ok()
        });
        let counts = read.map(|text| parse(&text)).unwrap_or_default();
        Self(Arc::new(Mutex::new(Uses { counts, file })))
    }

    /// Counts the command at the beginning of a line, if any.
    pub(crate) fn count_command(&self, line: &str) {
        let Some(name) = line.strip_prefix('/').and_then(|rest| rest.split_whitespace().next()) else {
            return;
        };
        let is_name = |c: char| c.is_alphanumeric() || "-_:.".contains(c);
        if !name.chars().all(is_name) {
            return;
        }
        let mut uses = self.lock();
        *uses.counts.entry(name.to_owned()).or_default() += 1;
        let Some((dir, file)) = uses.file.as_ref().and_then(|file| Some((file.parent()?, file))) else {
            return;
        };
        // A failed write only affects the order of a list, so it is not reported.
        let _ = make_private_dir(dir).and_then(|()| write_private(file, &print(&uses.counts)));
    }

    /// Sorts commands: most used first, then [`FIRST_DAY`], then by name.
    pub(crate) fn sort<T>(&self, commands: &mut [T], name: impl Fn(&T) -> &str) {
        let uses = self.lock();
        let key = |command: &T| {
            let name = name(command);
            let used = uses.counts.get(name).copied().unwrap_or_default();
            let first = FIRST_DAY.iter().position(|known| *known == name).unwrap_or(FIRST_DAY.len());
            (std::cmp::Reverse(used), first, name.to_owned())
        };
        commands.sort_by_cached_key(key);
    }

    fn lock(&self) -> MutexGuard<'_, Uses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parses lines of the form `COUNT NAME`; skips others.
fn parse(text: &str) -> HashMap<String, u64> {
    let line = |line: &str| {
        let (count, name) = line.split_once(' ')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

fn print(counts: &HashMap<String, u64>) -> String {
    let mut lines: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}\n")).collect();
    lines.sort_unstable();
    lines.concat()
}

#[cfg(test)]
mod tests {
    use zk_exec::LocalHostFiles;

    use super::*;

    fn sorted(uses: &CommandUses) -> Vec<&'static str> {
        let mut names = ["agents", "help", "init", "model", "tools"];
        uses.sort(&mut names, |name| name);
        names.into()
    }

    #[test]
    fn commands_that_a_person_uses_come_first_in_later_conversations_too() {
        let dir = tempfile::tempdir().unwrap();
        let mut setup = ChatSetup::new(dir.path().to_path_buf(), Arc::new(LocalHostFiles::default()));
        setup.state_dir = Some(dir.path().join("state"));
        let uses = CommandUses::read(&setup);
        assert_eq!(sorted(&uses), ["model", "init", "help", "agents", "tools"]);
        uses.count_command("/tools");
        uses.count_command("/tools");
        uses.count_command("/help me");
        uses.count_command("/etc/hosts is wrong");
        uses.count_command("no command");
        assert_eq!(sorted(&CommandUses::read(&setup)), ["tools", "help", "model", "init", "agents"]);
        std::fs::write(dir.path().join("state/command-uses"), "garbage\n-3 x\n\u{7}").unwrap();
        assert_eq!(sorted(&CommandUses::read(&setup)), ["model", "init", "help", "agents", "tools"]);
    }
}
