use std::ops::ControlFlow;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use zk_core::service::{EntryVisitor, SessionFilter, SessionInfo, SessionStore, Unreadable, visible_line};
use zk_session::{SessionCopy, open_matching, scan_matching};
use zk_tui::Style;
use zk_tui::plain::Screen;
use zk_tui::plain::lines::shorten;
use zk_tui::term::print_stderr;

use super::show_session;
use crate::app::{AppContext, runtime};
use crate::args::actions::SessionsAction;
use crate::exit::{Exit, Failure, Outcome};
use crate::sessions::{given, place, refused, store};

pub(crate) fn sessions(app: &AppContext, action: SessionsAction) -> Outcome<Exit> {
    let store = store(app)?;
    let plain = |lines: Vec<String>| lines.into_iter().map(|line| (Style::PLAIN, line)).collect::<Vec<_>>();
    let lines: Vec<(Style, String)> = runtime()?.block_on(async {
        match action {
            SessionsAction::List { all, json } => {
                let cwd = (!all).then(|| app.cwd.clone());
                let mut listed = store
                    .list(&SessionFilter { cwd, limit: None, unanswered: true })
                    .await
                    .map_err(refused)?;
                // A prompt whose run was cut off is not lost, and a file that cannot be read is said; one that is being
                // answered is not a session yet.
                listed.retain(|info| info.answered || info.interrupted || info.unreadable.is_some());
                if json {
                    let rows = Value::Array(listed.iter().map(row).collect());
                    let text = serde_json::to_string_pretty(&rows).map_err(Failure::failed)?;
                    return Ok(plain(text.lines().map(str::to_owned).collect()));
                }
                let mut lines = session_lines(&listed, all);
                if lines.is_empty() {
                    let place = if all { "anywhere".to_owned() } else { format!("of {}", app.cwd.display()) };
                    lines.push(format!("there are no sessions {place}"));
                }
                Ok(plain(lines))
            }
            SessionsAction::Show { id } => show_session::show(app, &id).await.map(|()| Vec::new()),
            SessionsAction::Copy { id } => {
                let id = given(&id, "`zk sessions copy`")?;
                let nothing = || -> EntryVisitor { Box::new(|_, _| ControlFlow::Break(())) };
                let found = scan_matching(&store, id, nothing).await.map_err(refused)?.info;
                let copied = place(app).copy(&found.id, found.cwd, None).await?;
                let SessionCopy { id: copy, notices } = copied;
                for notice in &notices {
                    print_stderr(&format!("zk: {notice}"));
                }
                Ok(plain(vec![format!("copied as {copy}; `zk --resume {copy}` goes on with it")]))
            }
            SessionsAction::Rm { id } => {
                // Opening finds the one session the beginning of an id means, and nobody else can have it.
                let open = open_matching(&store, given(&id, "`zk sessions rm`")?).await.map_err(refused)?;
                let id = open.id().clone();
                open.close().await.map_err(refused)?;
                drop(open);
                store.delete(&id).await.map_err(refused)?;
                if let Some(outputs) = place(app).outputs_of(&id) {
                    // Most sessions have none.
                    let _ = std::fs::remove_dir_all(outputs);
                }
                Ok(plain(vec![format!("removed {id}")]))
            }
        }
    })?;
    let mut screen = Screen::stdout(&app.env.terminal());
    lines.iter().for_each(|(style, line)| screen.line(*style, line));
    screen.finish()?;
    Ok(Exit::Done)
}

/// A session as JSON; what is not known or not so is left out or false.
fn row(session: &SessionInfo) -> Value {
    let mut row = json!({
        "id": session.id,
        "cwd": session.cwd.to_string_lossy(),
        "created_ms": time_ms(session.created),
        "updated_ms": time_ms(session.updated),
        "title": session.title,
        "messages": session.messages,
        "answered": session.answered,
        "interrupted": session.interrupted,
    });
    let mut add = |key: &str, value: Option<Value>| {
        if let (Some(fields), Some(value)) = (row.as_object_mut(), value) {
            fields.insert(key.to_owned(), value);
        }
    };
    add("parent", session.parent.as_ref().map(|parent| json!(parent)));
    add("open_in_process", session.lock.as_ref().map(|lock| json!(lock.pid)));
    let unreadable = session.unreadable.as_ref();
    match unreadable {
        Some(Unreadable::Damaged(why)) => add("damaged", Some(json!(why))),
        _ => add("unreadable", unreadable.map(|why| json!(why.to_string()))),
    }
    row
}

/// Milliseconds since 1970.
fn time_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Sessions in a line each.
pub(crate) fn session_lines(sessions: &[SessionInfo], with_directory: bool) -> Vec<String> {
    sessions
        .iter()
        .map(|session| {
            let mut line =
                format!("{}  {:<9} {:>4} messages  ", session.id, age(session.updated), session.messages);
            match &session.unreadable {
                Some(why) => line.push_str(&why.to_string()),
                None => line.push_str(&shorten(&session.title.replace('\n', " "))),
            }
            if session.interrupted {
                line.push_str(if session.answered {
                    "  (interrupted)"
                } else {
                    "  (interrupted, no answer)"
                });
            }
            if let Some(remark) = parent_remark(session) {
                line.push_str(&format!("  {remark}"));
            }
            if let Some(lock) = &session.lock {
                line.push_str(&format!("  (open in process {})", lock.pid));
            }
            if with_directory {
                line.push_str(&format!("  {}", visible_line(&session.cwd.display().to_string())));
            }
            line
        })
        .collect()
}

/// Which session this one comes from, if one is known.
pub(super) fn parent_remark(session: &SessionInfo) -> Option<String> {
    session.parent.as_ref().map(|parent| format!("(from {})", visible_line(parent.as_str())))
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
