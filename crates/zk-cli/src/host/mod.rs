//! This process and its machine: environment, directories, signals, the end.

pub(crate) mod exit;
pub(crate) mod hardening;
#[cfg(feature = "otel")]
pub(crate) mod log;
pub(crate) mod signals;

use zk_exec::ProgramEnv;
use zk_settings::ZkDirs;

/// Reads the environment of this program.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub(crate) fn program_env() -> ProgramEnv {
    std::env::vars_os().collect()
}

/// Returns the directories of zk's files.
pub(crate) fn zk_dirs(env: &ProgramEnv) -> ZkDirs {
    ZkDirs::new(|name| env.get(name).map(ToOwned::to_owned))
}
