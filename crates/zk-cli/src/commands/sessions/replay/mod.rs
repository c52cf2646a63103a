//! `zk replay`: prints or reruns a session of the store or of a pack.

mod bug;
mod drive;
mod output;
mod pack;

use std::path::Path;

use zk_core::model::SessionId;
use zk_core::service::{Entry, HostFiles, HostRead, NewSession, SessionStore};
use zk_replay::{MAX_PACK_BYTES, Pack, Recording};
use zk_session::{MemoryStore, read_matching};
use zk_tui::term::print_stderr;
use zk_view::sanitise;

use crate::app::{AppContext, runtime};
use crate::args::replay::{ReplayArgs, ReplayOutput};
use crate::exit::{Exit, Failure, Outcome};
use crate::sessions::{require_id, store, store_failure};

pub(crate) use bug::bug_command;

/// Session that is replayed.
pub(super) struct Replayed {
    pub(super) id: SessionId,
    pub(super) entries: Vec<Entry>,
    /// Whether the session is in the store of this machine, with its outputs; a pack has only the names of outputs on
    /// its writer's machine.
    pub(super) is_stored: bool,
}

pub(crate) fn replay(app: &AppContext, args: &ReplayArgs) -> Outcome<Exit> {
    runtime()?.block_on(async {
        let name = require_id(&args.session, "`zk replay`")?;
        let replayed = read(app, name).await?;
        if args.pack {
            return pack::write(app, &replayed, args.file.as_deref(), args.json);
        }
        if let Some(from) = &args.provider_from {
            let answers = match from.trim() {
                "" => None,
                from => Some(Recording::of(&read(app, from).await?.entries)),
            };
            return drive::print_differences(app, &replayed.entries, answers, args.json).await;
        }
        match args.output {
            ReplayOutput::Text if args.json => output::print_events(app, &replayed.entries),
            ReplayOutput::Text => output::print_lines(app, &replayed).await,
            ReplayOutput::StreamJson => output::print_events(app, &replayed.entries),
            ReplayOutput::ViewJson => output::print_patches(app, &replayed.entries),
        }
    })
}

/// Reads a pack if there is such a file, or else a session of the store.
async fn read(app: &AppContext, name: &str) -> Outcome<Replayed> {
    let path = app.work.cwd.join(name);
    if path.is_file()
        || name.contains('/')
        || Path::new(name).extension().is_some_and(|kind| kind == "zkpack")
    {
        return read_pack(app, &path);
    }
    let snapshot = read_matching(&store(&app.work.machine)?, name).await.map_err(store_failure)?;
    for notice in &snapshot.notices {
        print_stderr(&format!("zk: {notice}"));
    }
    Ok(Replayed { id: snapshot.info.id, entries: snapshot.entries, is_stored: true })
}

fn read_pack(app: &AppContext, path: &Path) -> Outcome<Replayed> {
    let cannot = |why: String| Failure::usage(format!("cannot replay {}: {why}", path.display()));
    let read = app.work.machine.host_files.read(path, &HostRead::whole(MAX_PACK_BYTES));
    let read = read.map_err(|error| cannot(error.to_string()))?;
    let pack = Pack::from_bytes(&read.bytes).map_err(|error| cannot(error.to_string()))?;
    let problem = pack.problem.as_ref().map(|problem| format!("; it is about: {}", sanitise(problem)));
    print_stderr(&format!(
        "zk: a pack of zk {} on {}{}",
        sanitise(&pack.versions.program),
        sanitise(&pack.versions.platform),
        problem.unwrap_or_default()
    ));
    Ok(Replayed { id: pack.session, entries: pack.entries, is_stored: false })
}

/// Copies the session into a store in memory, with its ids and times, for functions that read from a store.
async fn in_memory(replayed: &Replayed) -> Outcome<MemoryStore> {
    let store = MemoryStore::new();
    let new = NewSession { id: Some(replayed.id.clone()), cwd: "/".into(), parent: None };
    store.restore(new, replayed.entries.clone()).await.map_err(store_failure)?;
    Ok(store)
}
