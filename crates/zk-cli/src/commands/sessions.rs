use std::time::SystemTime;

use zk_core::model::{Block, Message, Role};
use zk_core::service::{SessionFilter, SessionInfo, SessionStore, StoreError};
use zk_session::{load_history, open_matching};

use super::print;
use crate::app::{AppContext, runtime};
use crate::args::cli::SessionsAction;
use crate::exit::{Exit, Failure, Outcome};
use crate::mode::summary::shorten;
use crate::sessions::store;

pub(crate) fn sessions(app: &AppContext, action: SessionsAction) -> Outcome<Exit> {
    let store = store(app)?;
    let lines = runtime()?.block_on(async {
        match action {
            SessionsAction::List { all } => {
                let cwd = (!all).then(|| app.cwd.clone());
                let listed = store.list(&SessionFilter { cwd, limit: None }).await?;
                let mut lines = session_lines(&listed, all);
                if lines.is_empty() {
                    let place = if all { "anywhere".to_owned() } else { format!("of {}", app.cwd.display()) };
                    lines.push(format!("there are no sessions {place}"));
                }
                Ok(lines)
            }
            SessionsAction::Show { id } => {
                let open = open_matching(&store, &id).await?;
                let loaded = load_history(&open.entries().await?);
                Ok(loaded.messages.iter().flat_map(|message| message_lines(message)).collect())
            }
            SessionsAction::Rm { id } => {
                // Opening finds the one session the beginning of an id means, and nobody else can have it.
                let open = open_matching(&store, &id).await?;
                let id = open.id().clone();
                open.close().await?;
                drop(open);
                store.delete(&id).await?;
                if let Some(outputs) = app.dirs.outputs(&id) {
                    // Most sessions have none.
                    let _ = std::fs::remove_dir_all(outputs);
                }
                Ok(vec![format!("removed {id}")])
            }
        }
    });
    let lines = lines.map_err(|error: StoreError| match error {
        StoreError::NotFound { .. } => Failure::usage(error.to_string()),
        StoreError::InUse { .. }
        | StoreError::Damaged { .. }
        | StoreError::TooNew { .. }
        | StoreError::Io { .. }
        | StoreError::Failed(_) => Failure::failed(error),
    })?;
    print(app, &lines)
}

/// Sessions in a line each.
pub(crate) fn session_lines(sessions: &[SessionInfo], with_directory: bool) -> Vec<String> {
    sessions
        .iter()
        .map(|session| {
            let mut line =
                format!("{}  {:<9} {:>4} messages  ", session.id, age(session.updated), session.messages);
            match &session.damaged {
                Some(why) => line.push_str(&format!("damaged: {why}")),
                None => line.push_str(&shorten(&session.title.replace('\n', " "))),
            }
            if let Some(lock) = &session.lock {
                line.push_str(&format!("  (open in process {})", lock.pid));
            }
            if with_directory {
                line.push_str(&format!("  {}", session.cwd.display()));
            }
            line
        })
        .collect()
}

fn age(time: SystemTime) -> String {
    let seconds = SystemTime::now().duration_since(time).map_or(0, |age| age.as_secs());
    match seconds {
        0..60 => "just now".to_owned(),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86400),
    }
}

fn message_lines(message: &Message) -> Vec<String> {
    let mut lines = Vec::new();
    for block in &message.content {
        match block {
            Block::Text(text) => {
                let sign = if message.role == Role::User { "› " } else { "" };
                lines.push(format!("{sign}{}", text.text.trim_end()));
            }
            Block::ToolCall(call) => lines.push(shorten(&format!("● {} {}", call.name, call.args))),
            Block::ToolResult(result) => {
                let text = result.content.to_text();
                let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
                let sign = if result.is_error { "✗" } else { "✓" };
                lines.push(shorten(&format!("  {sign} {first}")));
            }
            Block::Compaction(compaction) => lines.push(format!("(summary) {}", compaction.summary)),
            Block::Image(image) => lines.push(format!("({})", image.media_type)),
            Block::Document(document) => lines.push(format!("({})", document.media_type)),
            Block::Provider(block) => lines.push(shorten(&format!("◦ {}", block.text))),
            Block::Thinking(_) => {}
        }
    }
    lines
}
