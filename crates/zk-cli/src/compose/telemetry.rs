use std::sync::{Arc, OnceLock};

use zk_core::kernel::Plugin;
use zk_otel::{EventLog, OtelConfig, OtelPlugin, Telemetry};
use zk_providers::Http;

use crate::app::AppContext;

/// Traces, metrics and logs of all conversations in this process.
#[derive(Clone, Default)]
pub(crate) struct Observed {
    telemetry: Arc<OnceLock<Option<Telemetry>>>,
    /// Whether events of agents are logged.
    pub(crate) has_log: bool,
}

/// Returns the requested plugins for telemetry and the log.
pub(crate) fn plugins(app: &AppContext) -> impl Iterator<Item = Arc<dyn Plugin>> {
    let Observed { telemetry, has_log } = &app.shared.observed;
    let telemetry = telemetry.get_or_init(|| start(app)).as_ref();
    let traces = telemetry.map(|telemetry| Arc::new(OtelPlugin::new(telemetry)) as Arc<dyn Plugin>);
    traces.into_iter().chain(has_log.then(|| Arc::new(EventLog) as Arc<dyn Plugin>))
}

/// Starts the exporter, if the settings or the variables request it.
fn start(app: &AppContext) -> Option<Telemetry> {
    let machine = &app.work.machine;
    let variable = |name: &str| machine.env.text(name).map(ToOwned::to_owned);
    let notices = machine.notices.clone();
    let told = notices.clone();
    let started = OtelConfig::read(&app.settings.otel, variable).and_then(|config| {
        let Some(config) = config else { return Ok(None) };
        Telemetry::start(config, Http::new(), move |notice| told.show(&format!("warning: {notice}")))
            .map(Some)
    });
    started.unwrap_or_else(|error| {
        notices.show(&format!("warning: OpenTelemetry is off: {error}"));
        None
    })
}
