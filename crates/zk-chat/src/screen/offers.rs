//! Lists of completions: names to choose from.

pub(super) mod tree;

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_agent::Agent;
use zk_core::model::{Message, Model, Role, SessionId};
use zk_core::service::{
    ArgumentChoice, Command, Entry, EntryKind, FileKind, Files, SessionFilter, SessionInfo, WalkOptions,
    visible_line,
};
use zk_tui::Offered;

use super::command_uses::CommandUses;
use super::completions::MAX_PATHS;
use super::host_messages::OpenConversation;
use crate::commands::session_lines::age;
use crate::opening::factory::ConversationFactory;
use crate::opening::sessions::ConversationSessions;

/// Maximum number of offered sessions.
const SESSIONS: usize = 100;

/// Maximum number of lines of a preview.
const PREVIEW_LINES: usize = 8;
const PREVIEW_BYTES: u64 = 4096;

/// Number of the last entries of a session that are read for its preview.
const PREVIEW_ENTRIES: usize = 40;

/// Completions that are always the same.
pub(super) fn fixed(names: &[&str]) -> Offered {
    Offered { names: names.iter().map(ToString::to_string).collect(), ..Offered::default() }
}

/// Completions that a command provides.
pub(super) fn choices_offered(choices: Vec<ArgumentChoice>) -> Offered {
    let (names, notes): (Vec<String>, Vec<String>) =
        choices.into_iter().map(|choice| (choice.value, choice.note)).unzip();
    Offered { names: names.into(), notes: notes.into(), ..Offered::default() }
}

/// Commands of a conversation, most used first.
pub(super) fn commands(opened: &OpenConversation, uses: &CommandUses) -> Offered {
    let mut commands = opened.agent.bus().cx().items::<dyn Command>();
    uses.sort(&mut commands, |command| &command.name);
    let hint = |hint: Option<&str>| hint.unwrap_or_default().to_owned();
    Offered {
        names: commands.iter().map(|command| command.name.to_string()).collect(),
        notes: commands.iter().map(|command| command.value.help().to_owned()).collect(),
        hints: commands.iter().map(|command| hint(command.value.argument_hint())).collect(),
        ..Offered::default()
    }
}

/// The stored sessions of a directory, newest first.
pub(super) async fn stored_sessions(sessions: &dyn ConversationSessions, cwd: PathBuf) -> Offered {
    let filter = SessionFilter { cwd: Some(cwd), limit: Some(SESSIONS), unanswered: false };
    let listed = sessions.list(&filter).await.unwrap_or_default();
    let title = |info: &SessionInfo| match info.title.trim() {
        "" => "(no prompt)".to_owned(),
        title => title.to_owned(),
    };
    Offered {
        names: listed.iter().map(|info| info.id.as_str().to_owned()).collect(),
        labels: listed.iter().map(title).collect(),
        notes: listed.iter().map(session_facts).collect(),
        ..Offered::default()
    }
}

/// Age, size and state of a session.
fn session_facts(info: &SessionInfo) -> String {
    let mut facts = format!("{} · {} messages", age(info.updated), info.messages);
    if let Some(branch) = &info.branch {
        facts.push_str(&format!(" · {}", visible_line(branch)));
    }
    if let Some(lock) = &info.lock {
        facts.push_str(if lock.pid == std::process::id() { " · this one" } else { " · open elsewhere" });
    } else if info.interrupted {
        facts.push_str(" · interrupted");
    }
    if info.unreadable.is_some() {
        facts.push_str(" · cannot be read whole");
    }
    facts
}

/// Preview of a session: its last messages.
pub(super) async fn session_preview(sessions: &dyn ConversationSessions, id: &str) -> Offered {
    let entries = sessions.last_entries(&SessionId::from(id), PREVIEW_ENTRIES).await.unwrap_or_default();
    let mut lines: Vec<String> = entries.iter().filter_map(first_line_of_message).collect();
    lines.drain(..lines.len().saturating_sub(PREVIEW_LINES));
    Offered { names: lines.into(), ..Offered::default() }
}

/// First line of a message, if it has text.
fn first_line_of_message(entry: &Entry) -> Option<String> {
    let EntryKind::Message { message, .. } = &entry.kind else { return None };
    let message: &Message = message;
    let mark = match message.role {
        Role::User if message.injected_by.is_none() => "› ",
        Role::User => return None,
        Role::Assistant => "",
    };
    let text = message.text();
    let line = text.split_whitespace().take(60).collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then(|| format!("{mark}{line}"))
}

/// The first lines of a file, or the entries of a directory.
pub(super) fn file_preview(files: &dyn Files, cwd: &Path, path: &str) -> Offered {
    let Ok(at) = files.resolve(cwd, path) else { return Offered::default() };
    let of = |lines: Vec<String>| Offered { names: lines.into(), ..Offered::default() };
    match files.stat(&at) {
        Ok(stat) if stat.kind == FileKind::File => {}
        Ok(_) | Err(_) => return Offered::default(),
    }
    let mut bytes = Vec::new();
    let read = files.open(&at, Some(0..PREVIEW_BYTES)).map(|mut file| file.read_to_end(&mut bytes));
    let Ok(Ok(_)) = read else { return Offered::default() };
    if bytes.contains(&0) {
        return of(vec!["(no text)".to_owned()]);
    }
    let text = String::from_utf8_lossy(&bytes);
    of(text.lines().take(PREVIEW_LINES).map(|line| line.replace('\t', "    ")).collect())
}

/// Models of the conversation's providers, then of others with keys; the present one first.
pub(super) fn models(
    own: Vec<Model>,
    others: Vec<Model>,
    agent: &Agent,
    factory: &dyn ConversationFactory,
) -> Offered {
    let current = agent.model();
    let mut seen = HashSet::new();
    let all = std::iter::once(current.clone()).chain(own).chain(others);
    let all: Vec<Model> = all.filter(|model| seen.insert(model.reference().to_string())).collect();
    let note = |model: &Model| {
        let mut parts = Vec::new();
        if model.reference() == current.reference() {
            parts.push("in use".to_owned());
        }
        parts.extend(factory.purpose(model));
        // A narrow screen leaves out the last parts.
        parts.extend(model.prices.as_ref().map(|prices| {
            let rates = prices.rates;
            format!("${} in ${} out per M", rates.input, rates.output)
        }));
        parts.extend(model.window.map(short_tokens));
        parts.extend((!model.capabilities.vision).then(|| "no images".to_owned()));
        parts.join(" · ")
    };
    Offered {
        names: all.iter().map(|model| model.reference().to_string()).collect(),
        notes: all.iter().map(note).collect(),
        levels: all.iter().map(|model| Arc::from(factory.thinking_levels(model))).collect(),
        level: Some(agent.thinking().level.as_str().into()),
        ..Offered::default()
    }
}

fn short_tokens(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}k", count / 1_000),
        _ => format!("{:.1}M", count as f64 / 1e6).replace(".0M", "M"),
    }
}

/// The programs in the directories of a `PATH`.
pub(super) fn programs(path: &OsStr) -> Vec<String> {
    let entries =
        std::env::split_paths(path).filter_map(|directory| std::fs::read_dir(directory).ok()).flatten();
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        // A link to a program counts as a program.
        let about = std::fs::metadata(entry.path()).ok()?;
        let is_program = about.is_file() && about.permissions().mode() & 0o111 != 0;
        let name = entry.file_name().into_string().ok()?;
        (is_program && !name.contains(|c: char| c.is_control() || c.is_whitespace())).then_some(name)
    };
    let names: BTreeSet<String> = entries.filter_map(name).take(MAX_PATHS).collect();
    names.into_iter().collect()
}

/// First `most` files below a directory that are not ignored, with their directories, shorter paths first.
pub(super) fn find_files(files: &dyn Files, cwd: &Path, most: usize) -> Offered {
    let Ok(start) = files.resolve(cwd, ".") else { return Offered::default() };
    let (mut names, mut directories, mut is_cut) = (Vec::new(), BTreeSet::new(), false);
    let mut visit = |entry: zk_core::service::WalkEntry| {
        let name = entry.at.path.strip_prefix(&start.path).ok().and_then(Path::to_str);
        // A path with a space is quoted when it is inserted.
        let Some(name) = name.filter(|name| !name.is_empty() && !name.contains(char::is_control)) else {
            return ControlFlow::Continue(());
        };
        // Files inside `.git` are not offered.
        if name.split('/').any(|part| part == ".git") {
            return ControlFlow::Continue(());
        }
        if entry.kind == FileKind::Directory {
            directories.insert(format!("{name}/"));
            return ControlFlow::Continue(());
        }
        is_cut = names.len() == most;
        if is_cut {
            return ControlFlow::Break(());
        }
        names.push(name.to_owned());
        ControlFlow::Continue(())
    };
    // Files found before an error are offered.
    let _ = files.walk(&start, &WalkOptions::default(), &mut visit);
    for name in &names {
        for (at, _) in name.match_indices('/') {
            directories.extend(name.get(..=at).map(str::to_owned));
        }
    }
    names.extend(directories);
    names.sort_by_cached_key(|name| {
        let name = name.trim_end_matches('/');
        (name.matches('/').count(), name.len(), name.to_owned())
    });
    names.dedup();
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
    fn directories_are_offered_and_nothing_in_git_directories() {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [("src/deep/a.rs", "fn a() {}\n\tlet x;\n"), (".git/config", ""), ("b.md", "")] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let files = WorkspaceFiles::new([dir.path()]).unwrap();
        let names = find_files(&files, dir.path(), 100).names;
        assert_eq!(names[..], ["src/", "b.md", "src/deep/", "src/deep/a.rs"]);
        let preview = file_preview(&files, dir.path(), "src/deep/a.rs").names;
        assert_eq!(preview[..], ["fn a() {}", "    let x;"]);
        assert!(file_preview(&files, dir.path(), "src/").names.is_empty());
        assert!(file_preview(&files, dir.path(), "../../etc/passwd").names.is_empty());
    }

    #[test]
    fn omitted_paths_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let files = WorkspaceFiles::new([dir.path()]).unwrap();
        let all = find_files(&files, dir.path(), 3);
        assert_eq!((all.names.len(), all.remark), (3, None));
        let some = find_files(&files, dir.path(), 2);
        assert_eq!(some.names.len(), 2);
        let remark = some.remark.unwrap();
        assert!(remark.starts_with("only the first 2 paths are offered"), "{remark}");
    }
}
