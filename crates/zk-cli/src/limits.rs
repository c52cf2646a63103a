//! `[limits]`: what one command may use.

use std::time::Duration;

use zk_exec::Limits;
use zk_tools::ToolsOptions;

use crate::settings::Settings;

/// Memory, processes and output.
pub(crate) fn of_commands(settings: &Settings) -> Limits {
    let bytes = |key| settings.count(key).map(|mebibytes| u64::from(mebibytes) << 20);
    Limits {
        memory: bytes("limits.memory_mb"),
        processes: settings.count("limits.processes"),
        output: bytes("limits.output_mb"),
    }
}

/// Limits the time of the tools' commands to what is allowed.
pub(crate) fn of_time(settings: &Settings, tools: ToolsOptions) -> ToolsOptions {
    let Some(most) = settings.count("limits.seconds") else { return tools };
    let most = Duration::from_secs(most.into());
    let shell_timeout = tools.shell_timeout.min(most);
    ToolsOptions { shell_timeout, shell_timeout_max: most, job_timeout_max: Some(most), ..tools }
}
