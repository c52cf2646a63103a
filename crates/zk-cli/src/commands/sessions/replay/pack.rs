use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use zk_core::model::SessionId;
use zk_core::service::{BlobId, Blobs as _, Entry, Redactor};
use zk_exec::LocalStateFiles;
use zk_replay::{Pack, PackLimits, PackVersions};
use zk_serve::print::write_value;
use zk_session::FileBlobs;
use zk_tui::Style;
use zk_tui::plain::Screen;

use super::Replayed;
use super::output::{finish, output};
use crate::app::AppContext;
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::Settings;

/// Data for a pack besides the session's entries.
#[derive(Clone)]
pub(super) struct PackSource {
    settings: Settings,
    redactor: Arc<Redactor>,
    /// Directory of the sessions' large results.
    outputs: Option<PathBuf>,
}

impl PackSource {
    pub(super) fn of(app: &AppContext) -> Self {
        let machine = &app.work.machine;
        Self {
            settings: app.settings.clone(),
            redactor: machine.redactor.clone(),
            outputs: crate::sessions::outputs(machine),
        }
    }

    /// Removes the access to the outputs of this machine.
    fn without_outputs(self) -> Self {
        Self { outputs: None, ..self }
    }

    /// Packs a session, redacted.
    pub(super) fn pack(&self, id: &SessionId, entries: &[Entry], problem: &str) -> Pack {
        let versions = PackVersions {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            ..PackVersions::default()
        };
        let dir = self.outputs.as_ref().map(|outputs| outputs.join(id.as_str()).join("blobs"));
        let blobs = dir.filter(|dir| dir.is_dir());
        let blobs = blobs.map(|dir| FileBlobs::new(dir, Arc::new(LocalStateFiles::default())));
        let limits = PackLimits::default();
        let read = |name: &str| {
            let mut bytes = Vec::new();
            let reader = blobs.as_ref()?.open(&BlobId(name.to_owned()), None).ok()?;
            reader.take(limits.blob_bytes as u64 + 1).read_to_end(&mut bytes).ok()?;
            Some(bytes)
        };
        let settings = &self.settings.lines(false);
        let pack = Pack::with_blobs(id.clone(), entries, settings, versions, &self.redactor, limits, read);
        pack.about(problem, &self.redactor)
    }
}

/// Writes a new file that only this user can read.
pub(super) fn write_new(path: &Path, pack: &Pack) -> Result<usize, String> {
    let bytes = pack.to_bytes().map_err(|error| error.to_string())?;
    let cannot = |error: std::io::Error| match error.kind() {
        ErrorKind::AlreadyExists => {
            format!("{} is there already, and stays as it is; give another name", path.display())
        }
        _ => format!("cannot write {}: {error}", path.display()),
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(cannot)?;
    if let Err(error) = file.write_all(&bytes) {
        // Removes a partly written pack.
        let _ = std::fs::remove_file(path);
        return Err(cannot(error));
    }
    Ok(bytes.len())
}

/// Describes a written pack in lines.
pub(super) fn describe_pack(path: &Path, bytes: usize, pack: &Pack) -> Vec<String> {
    let mut lines = vec![format!("{} ({} KiB); nothing was sent", path.display(), bytes.div_ceil(1024))];
    lines.extend(pack.notes.contains.iter().map(|line| format!("  in it: {line}")));
    lines.extend(pack.notes.left_out.iter().map(|line| format!("  left out: {line}")));
    lines.push("read it before you send it: zk replay FILE".to_owned());
    lines
}

/// Default file name of a pack.
pub(super) fn default_name(id: &SessionId) -> PathBuf {
    PathBuf::from(format!("zk-{id}.zkpack"))
}

/// Writes the pack of a session, and prints what is in it.
pub(super) fn write(app: &AppContext, replayed: &Replayed, file: Option<&Path>, json: bool) -> Outcome<Exit> {
    let source = PackSource::of(app);
    let source = if replayed.is_stored { source } else { source.without_outputs() };
    let pack = source.pack(&replayed.id, &replayed.entries, "");
    let name = file.map_or_else(|| default_name(&replayed.id), Path::to_path_buf);
    let path = app.work.cwd.join(name);
    let bytes = write_new(&path, &pack).map_err(Failure::failed)?;
    if json {
        let line = json!({
            "file": path, "bytes": bytes, "contains": pack.notes.contains, "left_out": pack.notes.left_out,
        });
        let output = output()?;
        output.add(|out| write_value(&line, &app.work.machine.redactor, out));
        return finish(&output);
    }
    let mut screen = Screen::stdout(&app.work.machine.terminal());
    describe_pack(&path, bytes, &pack).iter().for_each(|line| screen.line(Style::PLAIN, line));
    screen.finish()?;
    Ok(Exit::Done)
}
