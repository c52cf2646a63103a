//! This process and its machine: environment, directories, signals and exit codes.

pub(crate) mod exit;
pub(crate) mod hardening;
#[cfg(feature = "otel")]
pub(crate) mod log;
pub(crate) mod signals;
pub(crate) mod worker_program;

use std::ffi::OsString;

use zk_exec::ProgramEnv;
use zk_settings::ZkDirs;

/// Reads the environment of this program.
pub(crate) fn program_env() -> ProgramEnv {
    whole_env().into_iter().collect()
}

/// Reads the environment of this program with its secrets, for the person's own shell.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub(crate) fn whole_env() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// Returns the directories of zk's files.
pub(crate) fn zk_dirs(env: &ProgramEnv) -> ZkDirs {
    ZkDirs::new(|name| env.get(name).map(ToOwned::to_owned))
}
