use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::service::{Redactor, make_private_dir};
use zk_exec::LogFile;
use zk_otel::LogLevel;

use crate::exit::{Failure, Outcome};
use zk_settings::ZkDirs;

/// Starts the log that `LEVEL[=FILE]` asks for.
pub(crate) fn start(wanted: &str, dirs: &ZkDirs, redactor: Arc<Redactor>) -> Outcome<()> {
    let (level, file) = match wanted.split_once('=') {
        Some((level, file)) => (level, Some(PathBuf::from(file)).filter(|file| !file.as_os_str().is_empty())),
        None => (wanted, None),
    };
    let level: LogLevel = level.parse().map_err(|error| {
        Failure::usage(format!("--log: {error}, and =FILE behind it if it shall be elsewhere"))
    })?;
    let log = match file {
        Some(path) => open(&path, None, redactor)?,
        None => own_log(dirs, redactor)?,
    };
    level.write_to(log).map_err(|error| Failure::failed(format!("--log: {error}")))
}

fn own_log(dirs: &ZkDirs, redactor: Arc<Redactor>) -> Outcome<LogFile> {
    let nowhere = || Failure::usage("--log: there is no place for logs: set HOME or ZK_HOME, or name a file");
    let dir = dirs.logs().ok_or_else(nowhere)?;
    let cannot = |error| Failure::failed(format!("--log: cannot make {}: {error}", dir.display()));
    make_private_dir(&dir).map_err(cannot)?;
    open(&dir.join("zk.log"), Some(dir.join("zk.old.log")), redactor)
}

fn open(path: &Path, before: Option<PathBuf>, redactor: Arc<Redactor>) -> Outcome<LogFile> {
    LogFile::open(path.to_path_buf(), before, redactor)
        .map_err(|error| Failure::failed(format!("--log: cannot write to {}: {error}", path.display())))
}
