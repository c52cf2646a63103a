use serde_json::{Value, json};
use zk_chat::age;
use zk_core::service::visible_line;
use zk_session::{SearchFilter, SearchHit, SearchResults, SessionHits, SqliteStore, TextKind};
use zk_tui::Style;

use super::super::list::time_ms;
use super::{Printed, warn};
use crate::app::AppContext;
use crate::args::session_care::SearchArgs;
use crate::exit::{Exit, Outcome};

/// Searches the sessions and prints what was found, the newest first.
pub(super) async fn search(app: &AppContext, store: &SqliteStore, args: &SearchArgs) -> Outcome<Printed> {
    let directory = args.project.clone().map(|dir| app.work.cwd.join(dir));
    let project = (!args.all).then(|| directory.unwrap_or_else(|| app.work.cwd.clone()));
    let filter = SearchFilter {
        project: project.clone(),
        tool: args.tool.clone(),
        model: args.model.clone(),
        since: args.since,
        until: args.until,
        limit: Some(args.limit),
    };
    let words = join_words(&args.words);
    let found = store.search(&words, &filter).await?;
    warn(&found.notices);
    if args.json {
        return Ok(super::json(&as_json(&words, &found)));
    }
    let mut lines = Vec::new();
    for session in &found.sessions {
        lines.extend(session_lines(session, args.all));
    }
    if found.sessions.is_empty() {
        lines.push((
            Style::PLAIN,
            match project {
                Some(dir) => format!(
                    "no session of {} has that in it; `--all` searches every directory",
                    dir.display()
                ),
                None => "no session has that in it".to_owned(),
            },
        ));
    }
    if found.has_more {
        let more = "there are older ones; `--limit`, `--until` or more words lead to them";
        lines.push((Style::DIM, more.to_owned()));
    }
    Ok((lines, Exit::Done))
}

/// Joins search words as typed; an argument with spaces was quoted, so it stays a phrase.
fn join_words(words: &[String]) -> String {
    let quoted = |word: &String| {
        let is_phrase = word.trim().contains(char::is_whitespace) && !word.contains('"');
        if is_phrase { format!("\"{}\"", word.trim()) } else { word.clone() }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn session_lines(session: &SessionHits, with_directory: bool) -> Vec<(Style, String)> {
    let directory = if with_directory { format!("  {}", session.cwd.display()) } else { String::new() };
    let title = visible_line(&session.title);
    let head = format!("{}  {}  {title}{}", session.id, age(session.updated), visible_line(&directory));
    let mut lines = vec![(Style::BOLD, head)];
    lines.extend(
        session.hits.iter().map(|hit| (Style::PLAIN, format!("  {}: {}", hit_place(hit), hit.excerpt()))),
    );
    lines.push((Style::DIM, format!("  zk --resume {}", session.id)));
    lines
}

fn hit_place(hit: &SearchHit) -> String {
    let tool = hit.tool.as_deref().map(visible_line).unwrap_or_default();
    match hit.kind {
        TextKind::Title => "title".to_owned(),
        TextKind::Call if !tool.is_empty() => format!("entry {}, call of {tool}", hit.entry),
        TextKind::Result if !tool.is_empty() => format!("entry {}, result of {tool}", hit.entry),
        kind => format!("entry {}, {}", hit.entry, kind.name()),
    }
}

fn as_json(words: &str, found: &SearchResults) -> Value {
    let hit = |hit: &SearchHit| {
        let parts: Vec<Value> =
            hit.snippet.iter().map(|part| json!({ "text": part.text, "match": part.is_match })).collect();
        json!({
            "entry": hit.entry, "time_ms": time_ms(hit.time), "kind": hit.kind.name(), "tool": hit.tool,
            "model": hit.model, "snippet": parts,
        })
    };
    let session = |session: &SessionHits| {
        json!({
            "id": session.id, "title": session.title, "cwd": session.cwd.to_string_lossy(),
            "updated_ms": time_ms(session.updated), "resume": format!("zk --resume {}", session.id),
            "hits": session.hits.iter().map(hit).collect::<Vec<_>>(),
        })
    };
    json!({
        "words": words,
        "sessions": found.sessions.iter().map(session).collect::<Vec<_>>(),
        "has_more": found.has_more,
    })
}
