use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx, Plugin, plugin_fn};
use zk_core::model::SessionId;
use zk_core::service::{Command, CommandOutcome, OpenSession};

use super::pack::{PackSource, default_name, describe_pack, write_new};
use crate::app::AppContext;
use crate::sessions::Session;

/// Highest number in the name of a pack.
const MAX_NUMBER: u32 = 999;

/// Command `/bug`, which packs the running conversation for a report.
struct Bug {
    open: Arc<dyn OpenSession>,
    source: PackSource,
    cwd: PathBuf,
}

/// Plugin with `/bug`, for a conversation that is stored.
pub(crate) fn bug_command(app: &AppContext, session: &Session) -> Option<Arc<dyn Plugin>> {
    let open = session.open.clone()?;
    let bug: Arc<dyn Command> =
        Arc::new(Bug { open, source: PackSource::of(app), cwd: app.work.cwd.clone() });
    Some(Arc::new(plugin_fn("bug", move |scope| {
        scope.provide::<dyn Command>("bug", bug.clone())?;
        Ok::<(), BoxError>(())
    })))
}

/// Returns the path of a new pack, with a number if the default name is taken. If all names are taken, returns a taken
/// one, which the writer refuses.
fn free_path(dir: &Path, id: &SessionId) -> PathBuf {
    let usual = dir.join(default_name(id));
    let numbered = (2..=MAX_NUMBER).map(|number| dir.join(format!("zk-{id}-{number}.zkpack")));
    let mut paths = std::iter::once(usual.clone()).chain(numbered);
    // A dangling link takes the name, too.
    paths.find(|path| std::fs::symlink_metadata(path).is_err()).unwrap_or(usual)
}

#[async_trait]
impl Command for Bug {
    fn name(&self) -> &str {
        "bug"
    }

    fn help(&self) -> &str {
        "write this conversation, redacted, into a file that replays elsewhere; nothing is sent"
    }

    async fn run(&self, args: &str, _: &Cx) -> Result<CommandOutcome, BoxError> {
        let entries = self.open.entries().await?;
        if entries.is_empty() {
            return Err("there is nothing to pack yet".into());
        }
        let (id, source) = (self.open.id().clone(), self.source.clone());
        let (path, problem) = (free_path(&self.cwd, &id), args.to_owned());
        let written = tokio::task::spawn_blocking(move || {
            let pack = source.pack(&id, &entries, &problem);
            write_new(&path, &pack).map(|bytes| describe_pack(&path, bytes, &pack))
        });
        Ok(CommandOutcome::Show(written.await??.join("\n")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_pack_gets_a_number() {
        let dir = tempfile::tempdir().unwrap();
        let id = SessionId::from("s_1");
        for name in ["zk-s_1.zkpack", "zk-s_1-2.zkpack", "zk-s_1-3.zkpack"] {
            let path = free_path(dir.path(), &id);
            assert_eq!(path, dir.path().join(name));
            std::fs::write(path, "").unwrap();
        }
    }
}
