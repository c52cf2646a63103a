use std::path::Path;

use super::findings::{Finding, failure, fine, warning};
use crate::app::Machine;

/// Need for a program: required or optional.
#[derive(Clone, Copy)]
pub(super) enum Requirement {
    Needed(&'static str),
    Expected(&'static str),
}

pub(super) const PROGRAMS: [(&str, Requirement); 2] =
    [("bash", Requirement::Needed("the shell tool")), ("git", Requirement::Expected("most projects use it"))];

pub(super) fn program_found(machine: &Machine, name: &str, used: Requirement) -> Finding {
    let path = machine.env.get("PATH").map(std::ffi::OsStr::to_owned).unwrap_or_default();
    let found = std::env::split_paths(&path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|path| is_executable(path));
    match (found, used) {
        (Some(path), _) => fine(format!("{name}: {}", path.display())),
        (None, Requirement::Needed(what)) => {
            failure(format!("{name}: not in PATH; {what} needs it: install it"))
        }
        (None, Requirement::Expected(what)) => warning(format!("{name}: not in PATH; {what}")),
    }
}

pub(super) fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
