//! `zk sessions import`: transcripts of other programs as sessions.

use std::path::Path;

use serde_json::{Value, json};
use zk_transcripts::{
    FoundPlace, ImportError, PlaceRoots, StoredTranscript, TranscriptFormat, TranscriptRef, find_places,
    list_transcripts, read_transcript, store_transcript,
};
use zk_tui::Style;
use zk_tui::plain::Screen;
use zk_tui::term::print_stderr;

use crate::app::{AppContext, runtime};
use crate::args::actions::TranscriptProgram;
use crate::exit::{Exit, Failure, Outcome};
use crate::sessions::store;

/// Options of an import.
pub(super) struct ImportOptions {
    pub(super) from: Option<TranscriptProgram>,
    pub(super) dry_run: bool,
    pub(super) json: bool,
}

/// Imports a transcript, or all of a directory; without a path, lists the usual places.
pub(super) fn import(app: &AppContext, path: Option<&Path>, options: &ImportOptions) -> Outcome<Exit> {
    let format = options.from.map(|program| match program {
        TranscriptProgram::Claude => TranscriptFormat::Claude,
        TranscriptProgram::Codex => TranscriptFormat::Codex,
        TranscriptProgram::Pi => TranscriptFormat::Pi,
        TranscriptProgram::Opencode => TranscriptFormat::Opencode,
        TranscriptProgram::Zk => TranscriptFormat::Zk,
    });
    let mut screen = Screen::stdout(&app.work.machine.terminal());
    let Some(path) = path else {
        let mut places = find_places(&roots(app));
        places.retain(|place| format.is_none_or(|format| format == place.format));
        list_places(&mut screen, &places, options.json)?;
        screen.finish()?;
        return Ok(Exit::Done);
    };
    let found = list_transcripts(&app.work.cwd.join(path), format)?;
    let is_one = found.len() == 1;
    let (mut rows, mut failed, mut stored) = (Vec::new(), 0, Vec::new());
    runtime()?.block_on(async {
        for transcript in found {
            match import_one(app, &transcript, options.dry_run).await {
                Ok((row, line)) => {
                    stored.extend(row.get("session").and_then(Value::as_str).map(str::to_owned));
                    if !options.json {
                        screen.line(Style::PLAIN, &line);
                    }
                    rows.push(row);
                }
                Err(error) if is_one && !(options.json && matches!(error, ImportError::Known(_))) => return Err(Failure::from(error)),
                Err(error) => {
                    let is_known = matches!(error, ImportError::Known(_));
                    failed += usize::from(!is_known);
                    let status = if is_known { "known" } else { "failed" };
                    rows.push(json!({ "path": transcript.path.to_string_lossy(), "status": status, "error": error.to_string() }));
                    print_stderr(&format!("zk: {}: {error}", transcript.path.display()));
                }
            }
        }
        Ok(())
    })?;
    if options.json {
        print_json(&mut screen, &Value::Array(rows))?;
    } else if let ([id], false) = (stored.as_slice(), options.dry_run) {
        screen.line(Style::DIM, &format!("`zk --resume {id}` goes on with it"));
    }
    screen.finish()?;
    Ok(if failed > 0 { Exit::Failed } else { Exit::Done })
}

/// Reads a transcript and stores it; returns it as JSON and in a line.
async fn import_one(
    app: &AppContext,
    found: &TranscriptRef,
    dry_run: bool,
) -> Result<(Value, String), ImportError> {
    let own = found.clone();
    let read = tokio::task::spawn_blocking(move || read_transcript(&own)).await;
    let read = read.unwrap_or_else(|error| {
        let source = std::io::Error::other(error.to_string());
        Err(ImportError::Read { path: found.path.clone(), source })
    })?;
    let (title, cwd, own_id) = (read.heading(), read.cwd.clone(), read.own_id.clone());
    let (status, stored) = if dry_run {
        let (messages, session) = (read.messages(), read.session);
        ("would-import", StoredTranscript { session, messages, notices: read.notices })
    } else {
        let machine = &app.work.machine;
        let store = store(machine)
            .map_err(|failure| ImportError::Store(zk_core::service::StoreError::Refused(failure.message)))?;
        ("imported", store_transcript(&store, read, &machine.redactor).await?)
    };
    let StoredTranscript { session, messages, notices } = stored;
    for notice in &notices {
        print_stderr(&format!("zk: {}: {notice}", found.path.display()));
    }
    let word = if dry_run { "would import" } else { "imported" };
    let line =
        format!("{word} {session}  {messages} messages  {title}  ({}, {})", found.format, cwd.display());
    let row = json!({
        "status": status,
        "session": session,
        "messages": messages,
        "title": title,
        "cwd": cwd.to_string_lossy(),
        "format": found.format.name(),
        "own_id": own_id,
        "path": found.path.to_string_lossy(),
        "notices": notices,
    });
    Ok((row, line))
}

fn roots(app: &AppContext) -> PlaceRoots {
    let path = |name: &str| app.work.machine.env.path(name);
    PlaceRoots {
        home: path("HOME"),
        claude: path("CLAUDE_CONFIG_DIR"),
        codex: path("CODEX_HOME"),
        pi: path("PI_CODING_AGENT_DIR"),
        data: path("XDG_DATA_HOME"),
    }
}

fn list_places(screen: &mut Screen, places: &[FoundPlace], json: bool) -> Outcome<()> {
    if json {
        let row = |place: &FoundPlace| json!({ "format": place.format.name(), "path": place.path.to_string_lossy(), "transcripts": place.transcripts });
        return print_json(screen, &Value::Array(places.iter().map(row).collect()));
    }
    for FoundPlace { format, path, transcripts } in places {
        screen
            .line(Style::PLAIN, &format!("{transcripts:>5}  {:<12} {}", format.to_string(), path.display()));
    }
    let hint = match places {
        [] => {
            "no transcripts of Claude Code, codex, pi or opencode are in their usual places; `zk sessions import PATH` takes others"
        }
        _ => "`zk sessions import PATH` imports a file, or all of a directory; --dry-run shows them first",
    };
    screen.line(Style::DIM, hint);
    Ok(())
}

fn print_json(screen: &mut Screen, value: &Value) -> Outcome<()> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::failed)?;
    text.lines().for_each(|line| screen.line(Style::PLAIN, line));
    Ok(())
}
