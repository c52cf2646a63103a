use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use zk_core::service::{Redactor, make_private_dir};
use zk_exec::LogFile;

use crate::exit::{Failure, Outcome};
use zk_settings::ZkDirs;

/// Starts the log that `LEVEL[=FILE]` asks for.
pub(crate) fn start(wanted: &str, dirs: &ZkDirs, redactor: Arc<Redactor>) -> Outcome<()> {
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
    let log = match file {
        Some(path) => open(&path, None, redactor)?,
        None => own_log(dirs, redactor)?,
    };
    // Other libraries log contents of messages and typed text, so their level is limited to warnings.
    let targets = Targets::new().with_default(level.min(LevelFilter::WARN)).with_target("zk", level);
    let lines = tracing_subscriber::fmt::layer().with_writer(Mutex::new(log));
    let subscriber = tracing_subscriber::registry().with(lines).with(targets);
    subscriber.try_init().map_err(|error| Failure::failed(format!("--log: {error}")))
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
