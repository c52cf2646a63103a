use std::sync::Arc;
use std::time::Duration;

use zk_core::service::{Backend, visible_line};
use zk_exec::Environment;

use super::findings::{Finding, fine, warning};
use crate::app::AppContext;
use crate::compose;

/// Time limit for an agent's start, in which a package runner may have to download it.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Starts each backend of the settings, and ends it again.
pub(super) async fn check_backends(app: &AppContext) -> Vec<Finding> {
    let children = Environment::filtered(app.work.machine.env.without_secrets());
    let plain = Arc::new(compose::process_exec(&app.settings, children));
    let mut findings = Vec::new();
    for backend in compose::backends::all(&app.work, &app.settings, plain.clone()) {
        let name = visible_line(backend.name());
        let walls = if backend.walls().is_empty() { "without a sandbox" } else { "in the sandbox" };
        let started = tokio::time::timeout(START_LIMIT, backend.probe(&app.work.cwd)).await;
        findings.push(match started {
            Ok(Ok(agent)) => fine(format!("backend {name}: {} starts {walls}", visible_line(&agent))),
            Ok(Err(fault)) => warning(format!("backend {name}: {}", visible_line(&fault.to_string()))),
            Err(_) => {
                backend.stop().await;
                let seconds = START_LIMIT.as_secs();
                warning(format!("backend {name}: it did not start within {seconds} s"))
            }
        });
    }
    plain.close().await;
    findings
}
