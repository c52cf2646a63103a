use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing_subscriber::filter::LevelFilter;
use zk_core::service::make_private_dir;

use crate::dirs::Dirs;
use crate::exit::{Failure, Outcome};

/// Size of a log in bytes from which on a start begins a new one; the one before is kept.
const MAX_LOG_BYTES: u64 = 8 << 20;

/// Starts the log that `LEVEL[=FILE]` asks for.
pub(crate) fn start(wanted: &str, dirs: &Dirs) -> Outcome<()> {
    let (level, file) = match wanted.split_once('=') {
        Some((level, file)) => (level, Some(PathBuf::from(file)).filter(|file| !file.as_os_str().is_empty())),
        None => (wanted, None),
    };
    let level = match level.trim().to_ascii_lowercase().as_str() {
        "error" => LevelFilter::ERROR,
        "warn" => LevelFilter::WARN,
        "info" => LevelFilter::INFO,
        "debug" => LevelFilter::DEBUG,
        "trace" => LevelFilter::TRACE,
        other => {
            let known = "error, warn, info, debug or trace, and =FILE behind it if it shall be elsewhere";
            return Err(Failure::usage(format!("--log: there is no level `{other}`; it is {known}")));
        }
    };
    let path = match file {
        Some(file) => file,
        None => own_file(dirs)?,
    };
    let log = open(&path)?;
    let subscriber = tracing_subscriber::fmt().with_max_level(level).with_writer(Mutex::new(log));
    subscriber.try_init().map_err(|error| Failure::failed(format!("--log: {error}")))
}

fn own_file(dirs: &Dirs) -> Outcome<PathBuf> {
    let nowhere = || Failure::usage("--log: there is no place for logs: set HOME or ZK_HOME, or name a file");
    let dir = dirs.logs().ok_or_else(nowhere)?;
    let cannot = |error| Failure::failed(format!("--log: cannot make {}: {error}", dir.display()));
    make_private_dir(&dir).map_err(cannot)?;
    let path = dir.join("zk.log");
    if std::fs::metadata(&path).is_ok_and(|log| log.len() > MAX_LOG_BYTES) {
        // A log that cannot be put aside goes on.
        let _ = std::fs::rename(&path, dir.join("zk.old.log"));
    }
    Ok(path)
}

fn open(path: &Path) -> Outcome<File> {
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    opened.map_err(|error| Failure::failed(format!("--log: cannot write to {}: {error}", path.display())))
}
