use std::path::{Path, PathBuf};

use zk_exec::{Environment, Network, SandboxExec, SandboxPolicy, Supervision};

use crate::app::AppContext;
use crate::exit::{Failure, Outcome};

/// The sandbox that the settings describe, set up and ready.
pub(crate) fn start(app: &AppContext, environment: Environment) -> Outcome<SandboxExec> {
    let exec = SandboxExec::new(&policy(app), environment, Supervision::of_this_program());
    let exec = exec.map_err(|error| Failure::usage(error.to_string()))?;
    exec.start().map_err(|error| Failure::failed(error.to_string()))?;
    Ok(exec)
}

/// What commands may reach: the project's directory, and what `[sandbox]` adds.
fn policy(app: &AppContext) -> SandboxPolicy {
    let mut policy = SandboxPolicy::new(&app.cwd);
    let home = app.env.path("HOME");
    if let Some(home) = &home {
        policy = policy.home(home);
    }
    if let Some(state) = &app.dirs.state {
        policy = policy.state(state);
    }
    if let Some(config) = &app.dirs.config {
        policy = policy.hidden(config);
    }
    let own = app.settings.table(&["sandbox"]).unwrap_or_default();
    for path in paths(&own, "writable", home.as_deref()) {
        policy = policy.writable(path);
    }
    for path in paths(&own, "hidden", home.as_deref()) {
        policy = policy.hidden(path);
    }
    if let Some(processes) = app.settings.count("sandbox.processes") {
        policy = policy.processes(processes);
    }
    policy.network(match app.settings.text("sandbox.network") {
        Some("loopback") => Network::Loopback,
        Some("all") => Network::All,
        Some(_) | None => Network::None,
    })
}

fn paths(table: &toml::Table, name: &str, home: Option<&Path>) -> Vec<PathBuf> {
    let listed = table.get(name).and_then(toml::Value::as_array).into_iter().flatten();
    let path = |path: &str| match path.strip_prefix("~/") {
        Some(rest) => Some(home?.join(rest)),
        None => Some(PathBuf::from(path)),
    };
    listed.filter_map(|value| path(value.as_str()?)).collect()
}
