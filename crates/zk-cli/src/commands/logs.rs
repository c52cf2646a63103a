use std::path::PathBuf;
use std::time::SystemTime;

use super::{print, size};
use crate::app::Machine;
use crate::exit::{Exit, Failure, Outcome};

/// Log of zk or of a program that zk started.
struct LogFile {
    path: PathBuf,
    bytes: u64,
    changed: SystemTime,
}

/// Lists zk's logs, the last written first, or prints the one whose name contains `name`.
pub(crate) fn logs(machine: &Machine, name: Option<&str>) -> Outcome<Exit> {
    let dirs = &machine.dirs;
    let places = [dirs.logs(), dirs.mcp().map(|dir| dir.join("logs")), dirs.extensions(), dirs.audit()];
    let mut files: Vec<LogFile> = places.into_iter().flatten().flat_map(files_in).collect();
    files.sort_by(|one, other| other.changed.cmp(&one.changed).then_with(|| one.path.cmp(&other.path)));
    let Some(name) = name else {
        if files.is_empty() {
            let place = dirs.logs().unwrap_or_default();
            return print(machine, &[format!("no logs yet; `--log info` writes one to {}", place.display())]);
        }
        let lines: Vec<String> =
            files.iter().map(|file| format!("{:>10}  {}", size(file.bytes), file.path.display())).collect();
        return print(machine, &lines);
    };
    let found = files.iter().find(|file| file.path.to_string_lossy().contains(name));
    let Some(LogFile { path, .. }) = found else {
        return Err(Failure::usage(format!("there is no log `{name}`; `zk logs` lists them")));
    };
    let text = std::fs::read(path)
        .map_err(|error| Failure::failed(format!("cannot read {}: {error}", path.display())))?;
    let lines: Vec<String> = String::from_utf8_lossy(&text).lines().map(str::to_owned).collect();
    print(machine, &lines)
}

fn files_in(dir: PathBuf) -> Vec<LogFile> {
    // A missing directory counts as empty.
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| {
        let meta = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let changed = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Some(LogFile { path: entry.path(), bytes: meta.len(), changed })
    });
    files.collect()
}
