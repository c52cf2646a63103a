//! Extensions of the program: their configuration, the places where they run, and their logs.

use std::sync::Arc;

use zk_core::kernel::{BoxError, Bus, Plugin, plugin_fn};
use zk_core::service::{Exec, visible_line};
use zk_exec::{Environment, LocalStateFiles};
use zk_extensions::{Extension, ExtensionConfig, ExtensionHandle, ExtensionLogs, Fingerprint};

use crate::app::Workplace;
use crate::sandbox;
use crate::settings::Settings;

/// Reason why an extension of a project is not started.
const NO_SANDBOX: &str =
    "the sandbox that extensions of a project need does not work here; `zk doctor` says what is missing";

/// Returns the plugins of the configured and trusted extensions. The person's run with `own` on this machine,
/// the project's in the sandbox.
pub(crate) fn plugins(work: &Workplace, settings: &Settings, own: &Arc<dyn Exec>) -> Vec<Arc<dyn Plugin>> {
    let all = settings.extensions().into_iter().filter(|extension| extension.enabled);
    let (mut contained, mut handles) = (None, Vec::new());
    let mut plugins: Vec<Arc<dyn Plugin>> = all
        .filter_map(|extension| {
            let exec = match extension.origin.is_project {
                false => Some(own.clone()),
                true => contained.get_or_insert_with(|| sandbox_of(work, settings)).clone(),
            };
            let guards = extension.guards;
            let built = build(work, settings, extension);
            let built = match exec {
                Some(exec) => built.exec(exec),
                // An extension that guards calls is installed but never started, so that it refuses the
                // calls.
                None if guards => built.exec(own.clone()).check_starts(|_| Err(NO_SANDBOX.to_owned())),
                None => return None,
            };
            handles.push(built.handle());
            Some(Arc::new(built) as Arc<dyn Plugin>)
        })
        .collect();
    if !handles.is_empty() {
        let starting = Arc::new(Starting(handles));
        plugins.push(Arc::new(plugin_fn("extensions", move |scope| {
            scope.provide_service(starting.clone());
            Ok::<(), BoxError>(())
        })));
    }
    plugins
}

/// Service that holds the starting extensions of a conversation.
struct Starting(Vec<ExtensionHandle>);

/// Waits until each extension is running or has failed.
pub(crate) async fn wait_for_extensions(bus: &Bus) {
    let Some(starting) = bus.service::<Starting>() else { return };
    // They start in parallel, and each reports its own failure.
    for extension in &starting.0 {
        let _ = extension.ready().await;
    }
}

/// Sandbox of a project's extensions; `None` if it cannot be set up, so that they do not run.
pub(crate) fn sandbox_of(work: &Workplace, settings: &Settings) -> Option<Arc<dyn Exec>> {
    match sandbox::start(work, settings, Environment::filtered(work.machine.env.without_secrets())) {
        Ok(exec) => Some(Arc::new(exec)),
        Err(failure) => {
            let why = format!("warning: extensions of the project are not started: {}", failure.message);
            work.machine.notices.show(&why);
            None
        }
    }
}

/// Creates an extension with the program's file services.
pub(crate) fn build(work: &Workplace, settings: &Settings, extension: ExtensionConfig) -> Extension {
    for secret in extension.env.values() {
        work.machine.redactor.learn(secret);
    }
    let approved = settings.approved_extensions().remove(&extension.name);
    let (project, files) = (work.project.clone(), work.machine.host_files.clone());
    let path = work.machine.env.get("PATH").map(ToOwned::to_owned);
    let check = move |extension: &ExtensionConfig| match &approved {
        Some(approved) if extension.origin.is_project => {
            let now = Fingerprint::of(extension, &project, path.as_deref(), &files);
            let now = now.map_err(|error| error.to_string())?.approval(extension.definition());
            let changed = "it changed since it was approved; read it, then `zk trust add` and start anew";
            if now == *approved { Ok(()) } else { Err(changed.to_owned()) }
        }
        Some(_) | None => Ok(()),
    };
    let notices = work.machine.notices.clone();
    // The names of configured backends stay reserved even if the backend does not start.
    let reserved = settings.known_providers().names().into_iter().chain(settings.backends.keys().cloned());
    let built = Extension::new(extension.clone(), &work.project)
        .cwd(&work.cwd)
        .host("zk", env!("CARGO_PKG_VERSION"))
        .reserve_backend_names(reserved)
        .check_starts(check)
        .on_notice(move |text| notices.show(&visible_line(text)));
    match logs(work) {
        Some(logs) => built.on_log(move |bytes| logs.append(&extension, bytes)),
        None => built,
    }
}

/// Logs of extensions; `None` without a directory for state.
pub(crate) fn logs(work: &Workplace) -> Option<ExtensionLogs> {
    let files = Arc::new(LocalStateFiles::new(work.machine.host_files.clone()));
    let dir = work.machine.dirs.extensions()?;
    Some(ExtensionLogs::new(dir, &work.project, work.machine.redactor.clone(), files))
}
