use std::time::SystemTime;

use zk_core::model::{Block, Message, Role};
use zk_core::service::{Audience, SessionFilter, SessionInfo, SessionStore};
use zk_session::{Loaded, PluginEntry, load_history, open_matching, read_matching};

use super::print;
use crate::app::{AppContext, runtime};
use crate::args::cli::SessionsAction;
use crate::exit::{Exit, Outcome};
use crate::mode::summary::shorten;
use crate::sessions::{given, refused, store};
use crate::term::print_stderr;

pub(crate) fn sessions(app: &AppContext, action: SessionsAction) -> Outcome<Exit> {
    let store = store(app)?;
    let lines: Vec<String> = runtime()?.block_on(async {
        match action {
            SessionsAction::List { all } => {
                let cwd = (!all).then(|| app.cwd.clone());
                let mut listed = store
                    .list(&SessionFilter { cwd, limit: None, unanswered: true })
                    .await
                    .map_err(refused)?;
                // A prompt whose run was cut off is not lost; one that is being answered is not a session yet.
                listed.retain(|info| info.answered || info.interrupted);
                let mut lines = session_lines(&listed, all);
                if lines.is_empty() {
                    let place = if all { "anywhere".to_owned() } else { format!("of {}", app.cwd.display()) };
                    lines.push(format!("there are no sessions {place}"));
                }
                Ok(lines)
            }
            SessionsAction::Show { id } => {
                let snapshot =
                    read_matching(&store, given(&id, "`zk sessions show`")?).await.map_err(refused)?;
                for notice in &snapshot.notices {
                    print_stderr(&format!("zk: {notice}"));
                }
                let loaded = load_history(&snapshot.entries);
                let mut lines = conversation_lines(&loaded);
                let info = &snapshot.info;
                if let Some(lock) = &info.lock {
                    lines.push(format!("(open in process {})", lock.pid));
                } else if info.interrupted {
                    lines.push("(interrupted)".to_owned());
                }
                Ok(lines)
            }
            SessionsAction::Rm { id } => {
                // Opening finds the one session the beginning of an id means, and nobody else can have it.
                let open = open_matching(&store, given(&id, "`zk sessions rm`")?).await.map_err(refused)?;
                let id = open.id().clone();
                open.close().await.map_err(refused)?;
                drop(open);
                store.delete(&id).await.map_err(refused)?;
                if let Some(outputs) = app.dirs.outputs(&id) {
                    // Most sessions have none.
                    let _ = std::fs::remove_dir_all(outputs);
                }
                Ok(vec![format!("removed {id}")])
            }
        }
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
            if session.interrupted {
                line.push_str(if session.answered {
                    "  (interrupted)"
                } else {
                    "  (interrupted, no answer)"
                });
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

/// A conversation in lines, with what plugins keep in it for the person.
fn conversation_lines(loaded: &Loaded) -> Vec<String> {
    let for_person = |PluginEntry { after, entry }| match entry.audience {
        Audience::Person => Some((after, entry)),
        // What the model gets is a message of the conversation.
        Audience::Hidden | Audience::Model => None,
    };
    let mut custom = loaded.custom.iter().cloned().filter_map(for_person).peekable();
    let mut lines = Vec::new();
    for at in 0..=loaded.messages.len() {
        while let Some((_, entry)) = custom.next_if(|(after, _)| *after <= at) {
            lines.push(format!("◦ {}: {}", entry.source, entry.text().trim_end()));
        }
        lines.extend(loaded.messages.get(at).into_iter().flat_map(|message| message_lines(message)));
    }
    lines
}

/// A message in lines: what was said, each call, and the first line of each result.
pub(crate) fn message_lines(message: &Message) -> Vec<String> {
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
