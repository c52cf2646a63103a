//! Containment by the settings: the requested context and mode, and the sandboxes of this program.

use zk_chat::walls::{Containment, ContainmentError, ContainmentRequest, Sandboxes};
use zk_exec::settings::NetworkSetting;
use zk_exec::{Environment, SandboxExec};
use zk_permission::Mode;

use crate::app::Workplace;
use crate::exit::{Failure, Outcome};
use crate::sandbox;
use crate::settings::{Layer, Settings};

/// Sandboxes that the settings describe.
pub(crate) struct ConfiguredSandboxes<'a>(pub(crate) &'a Workplace, pub(crate) &'a Settings);

impl ConfiguredSandboxes<'_> {
    fn environment(&self) -> Environment {
        Environment::filtered(self.0.machine.env.without_secrets())
    }
}

impl Sandboxes for ConfiguredSandboxes<'_> {
    type Error = Failure;

    fn start(&self) -> Outcome<SandboxExec> {
        sandbox::start(self.0, self.1, self.environment())
    }

    fn start_for_reads(&self) -> Outcome<SandboxExec> {
        sandbox::start_for_reads(self.0, self.1, self.environment())
    }

    fn start_or_degrade(&self) -> Outcome<(SandboxExec, Option<String>)> {
        sandbox::start_or_degrade(self.0, self.1, self.environment())
    }
}

/// Selects the containment by the settings, and tests the sandbox.
pub(crate) fn select(work: &Workplace, settings: &Settings, allow_all: bool) -> Outcome<Containment> {
    let request = ContainmentRequest {
        context: settings.context_text(),
        elsewhere: settings.remote_context_text(),
        mode: named_mode(settings, allow_all)?,
        has_network: settings.sandbox.network == NetworkSetting::All,
    };
    Containment::select(request, &ConfiguredSandboxes(work, settings)).map_err(|error| match error {
        ContainmentError::Sandbox(failure) => failure,
        ContainmentError::AutoWithNetwork => Failure::usage(error.to_string()),
        ContainmentError::AutoElsewhere { .. } => Failure::usage(format!("{error}: choose --run-in sandbox")),
    })
}

/// Returns the configured permission mode, if any.
pub(crate) fn named_mode(settings: &Settings, allow_all: bool) -> Outcome<Option<Mode>> {
    let named = settings.permissions.mode;
    let layer = |key| settings.origin(key).map_or(Layer::Default, |origin| origin.layer);
    let (of_mode, of_flag) = (layer("permissions.mode"), layer("permissions.allow_all"));
    Ok(match named {
        _ if allow_all && of_mode <= of_flag => Some(Mode::All),
        // A setting of higher rank forbids running everything.
        Some(Mode::All) if !allow_all && of_flag > of_mode => Some(Mode::Ask),
        named => named,
    })
}

/// Returns the widest mode that the machine's administrator allows.
pub(crate) fn widest_mode(settings: &Settings) -> Mode {
    let is_managed = |key| settings.origin(key).is_some_and(|origin| origin.layer == Layer::Managed);
    match settings.permissions.mode.filter(|_| is_managed("permissions.mode")) {
        Some(mode) => mode,
        None if is_managed("permissions.allow_all") && !settings.permissions.allow_all => Mode::Auto,
        None => Mode::All,
    }
}
