use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx, Plugin, plugin_fn};
use zk_core::service::{Command, CommandOutcome, OpenSession};

use super::pack::{PackSource, described, usual_name, write_new};
use crate::app::AppContext;
use crate::sessions::Session;

/// `/bug`: the running conversation as a pack.
struct Bug {
    open: Arc<dyn OpenSession>,
    source: PackSource,
    cwd: std::path::PathBuf,
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
        let (path, problem) = (self.cwd.join(usual_name(&id)), args.to_owned());
        let written = tokio::task::spawn_blocking(move || {
            let pack = source.pack(&id, &entries, &problem);
            write_new(&path, &pack).map(|bytes| described(&path, bytes, &pack))
        });
        Ok(CommandOutcome::Show(written.await??.join("\n")))
    }
}
