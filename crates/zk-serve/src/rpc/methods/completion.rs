use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use zk_core::service::{Conversation as _, FileKind, Files, WalkEntry, WalkOptions};

use crate::rpc::client::Client;
use crate::rpc::message::RpcError;
use crate::rpc::wire::conversation::{
    Choice, Choices, CommandRow, Commands, CompleteKind, CompleteParams, ConversationParams,
};

/// Most choices of a completion.
const MAX_CHOICES: usize = 100;

/// Maximum number of files that a completion visits.
const MAX_WALKED: usize = 100_000;

pub(super) async fn commands(client: &Arc<Client>, params: ConversationParams) -> Result<Commands, RpcError> {
    let shared = client.server.conversation(&params.conversation)?;
    let all = shared.hosted()?.commands().await.into_iter();
    let row = |command: zk_chat::ListedCommand| CommandRow {
        name: command.name,
        help: command.help,
        argument_hint: command.argument_hint,
    };
    Ok(Commands { commands: all.map(row).collect() })
}

pub(super) async fn complete(client: &Arc<Client>, params: CompleteParams) -> Result<Choices, RpcError> {
    let shared = client.server.conversation(&params.conversation)?;
    let hosted = shared.hosted()?;
    let mut choices: Vec<Choice> = match params.kind {
        CompleteKind::Command => {
            let begin = params.text.trim_start_matches('/');
            let all = hosted.commands().await.into_iter();
            let fitting = all.filter(|command| command.name.starts_with(begin));
            fitting.map(|command| Choice { value: command.name, note: command.help }).collect()
        }
        CompleteKind::Argument => {
            let found = hosted.complete(&params.text).await.into_iter();
            found.map(|choice| Choice { value: choice.value, note: choice.note }).collect()
        }
        CompleteKind::File => {
            let (agent, cwd) = (hosted.agent(), hosted.conversation().state().cwd);
            let Some(files) = agent.bus().service::<dyn Files>() else { return Ok(Choices::default()) };
            let paths = tokio::task::spawn_blocking(move || matching_paths(&*files, &cwd, &params.text));
            let paths = paths.await.map_err(RpcError::failed)?;
            paths.into_iter().map(|value| Choice { value, note: String::new() }).collect()
        }
    };
    choices.truncate(MAX_CHOICES);
    Ok(Choices { choices })
}

/// Returns the paths below a directory that contain `part`: first those that begin with it, then shorter
/// ones.
fn matching_paths(files: &dyn Files, cwd: &Path, part: &str) -> Vec<String> {
    let Ok(start) = files.resolve(cwd, ".") else { return Vec::new() };
    let wanted = part.trim_start_matches('@').to_lowercase();
    let (mut found, mut walked) = (BTreeSet::new(), 0);
    let mut visit = |entry: WalkEntry| {
        walked += 1;
        if walked > MAX_WALKED {
            return ControlFlow::Break(());
        }
        let name = entry.at.path.strip_prefix(&start.path).ok().and_then(Path::to_str);
        let Some(name) = name.filter(|name| !name.is_empty() && !name.contains(char::is_control)) else {
            return ControlFlow::Continue(());
        };
        if name.to_lowercase().contains(&wanted) {
            let is_directory = entry.kind == FileKind::Directory;
            found.insert(if is_directory { format!("{name}/") } else { name.to_owned() });
        }
        ControlFlow::Continue(())
    };
    // Files that were found before an error are offered.
    let _ = files.walk(&start, &WalkOptions::default(), &mut visit);
    let mut found: Vec<String> = found.into_iter().collect();
    found.sort_by_cached_key(|name| (!name.to_lowercase().starts_with(&wanted), name.len(), name.clone()));
    found.truncate(MAX_CHOICES);
    found
}
