//! `/cd` and `/add-dir`: the working directory, and additional ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{
    Command, CommandOutcome, Conversation, FileKind, Files, PathError, TurnCwd, visible_line,
};
use zk_skills::Skills;

use crate::opening::factory::ConversationFactory;

/// The command `/cd`; `advice` is for directories that tools may not work in.
pub(crate) fn command(advice: &'static str) -> Arc<dyn Command> {
    Arc::new(DirectoryCommand(advice))
}

struct DirectoryCommand(&'static str);

#[async_trait]
impl Command for DirectoryCommand {
    fn name(&self) -> &'static str {
        "cd"
    }

    fn help(&self) -> &'static str {
        "show the directory that tools work in, or go on in another one: /cd DIR"
    }

    fn argument_hint(&self) -> Option<&str> {
        Some("[DIR]")
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let conversation = cx.service::<dyn Conversation>().ok_or("there is no conversation to move")?;
        let now = conversation.state().cwd;
        if args.is_empty() {
            return Ok(CommandOutcome::Show(now.display().to_string()));
        }
        let dir = change_directory(args, &*conversation, cx, self.0).await?;
        let mut text = format!("tools and commands work in {} from the next turn on", dir.display());
        let skills = new_skills(&cx.with_service(Arc::new(TurnCwd(dir)))).await;
        if !skills.is_empty() {
            text.push_str(&format!("\nskills there: {}", visible_line(&skills.join(", "))));
        }
        Ok(CommandOutcome::Show(text))
    }
}

/// The command `/add-dir`, which adds a working directory.
pub(crate) fn add_command(factory: Arc<dyn ConversationFactory>) -> Arc<dyn Command> {
    Arc::new(AddDirectoryCommand(factory))
}

struct AddDirectoryCommand(Arc<dyn ConversationFactory>);

#[async_trait]
impl Command for AddDirectoryCommand {
    fn name(&self) -> &'static str {
        "add-dir"
    }

    fn help(&self) -> &'static str {
        "show the directories that tools work in, or add one: /add-dir DIR"
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        if args.is_empty() {
            let files = cx.service::<dyn Files>().ok_or("this conversation has no files")?;
            let roots: Vec<String> = files.roots().iter().map(|root| root.display().to_string()).collect();
            return Ok(CommandOutcome::Show(roots.join("\n")));
        }
        let (factory, wanted) = (self.0.clone(), unquoted(args).to_owned());
        let added = tokio::task::spawn_blocking(move || factory.add_directory(Path::new(&wanted))).await??;
        let text =
            format!("tools and commands work in {} as well", visible_line(&added.display().to_string()));
        self.0.setup().notices.show(&text);
        Ok(CommandOutcome::Reload)
    }
}

/// A path without the quotes around it.
fn unquoted(path: &str) -> &str {
    let inside = |quote| path.strip_prefix(quote)?.strip_suffix(quote);
    inside('"').or_else(|| inside('\'')).unwrap_or(path)
}

/// Changes the working directory and returns its path; `advice` is for a directory that tools may not work
/// in.
pub(crate) async fn change_directory(
    wanted: &str,
    conversation: &dyn Conversation,
    cx: &Cx,
    advice: &str,
) -> Result<PathBuf, BoxError> {
    let now = conversation.state().cwd;
    let files = cx.service::<dyn Files>().ok_or("this conversation has no files")?;
    let wanted = wanted.to_owned();
    let found = tokio::task::spawn_blocking(move || resolve_directory(&*files, &now, &wanted)).await?;
    let dir = found.map_err(|error| match error {
        PathError::Outside { .. } => format!("{error}; {advice}"),
        error => error.to_string(),
    })?;
    conversation.set_cwd(dir.clone());
    Ok(dir)
}

/// Searches the working directory of `cx` for skills; returns the names of new ones. Does nothing during a
/// run.
async fn new_skills(cx: &Cx) -> Vec<String> {
    let Some(skills) = cx.service::<Skills>() else { return Vec::new() };
    let before = skills.found();
    // A failure is reported by the bus.
    let Ok(now) = skills.refresh(cx).await else { return Vec::new() };
    let is_new = |name: &str| before.as_ref().is_none_or(|before| before.get(name).is_none());
    let names = now.skills.iter().map(|skill| skill.name()).filter(|name| is_new(name));
    names.map(str::to_owned).collect()
}

/// Resolves `wanted` against the directory `now`, if tools may work there.
fn resolve_directory(files: &dyn Files, now: &Path, wanted: &str) -> Result<PathBuf, PathError> {
    let at = files.resolve(now, wanted)?;
    if files.stat(&at)?.kind != FileKind::Directory {
        let (path, what) = (wanted.to_owned(), "something else".into());
        return Err(PathError::Kind { path, what, wanted: "a directory".into() });
    }
    Ok(at.path)
}
