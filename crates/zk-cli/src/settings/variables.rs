use zk_providers::{Access, VENDOR_VARIABLES, Vendors};
use zk_settings::LayerValues;

use zk_exec::ProgramEnv;

/// Returns the defaults that are listed as settings.
pub(super) fn defaults() -> LayerValues {
    let mut given = LayerValues::default();
    let from = "zk";
    given.text("thinking", from, Some("adaptive".to_owned()));
    given.text("preset", from, Some("build".to_owned()));
    given.flag("sessions", from, Some(true));
    given.flag("shorten", from, Some(true));
    given.flag("skills.enabled", from, Some(true));
    given.flag("skills.project", from, Some(true));
    given.flag("permissions.allow_all", from, Some(false));
    given.flag("permissions.audit", from, Some(true));
    given
}

/// Converts common environment variables of other programs to settings.
pub(super) fn environment(env: &ProgramEnv, vendors: &Vendors) -> LayerValues {
    let mut given = LayerValues::default();
    let mut give = |variable: &str, name: &str, what: &str| {
        given.text(&format!("providers.{name}.{what}"), variable, env.text(variable).map(str::to_owned));
    };
    for vendor in vendors.iter() {
        if let Access::Key(variables) = vendor.access
            && let Some(variable) = variables.iter().find(|variable| env.text(variable).is_some())
        {
            give(variable, vendor.name, "api_key");
        }
    }
    for row in VENDOR_VARIABLES {
        let value = env.text(row.variable).map(|value| value.trim_end_matches('/'));
        if row.unless.is_none() || value != row.unless {
            give(row.variable, row.vendor, row.setting);
        }
    }
    given.text("context", "ZK_CONTEXT", env.text("ZK_CONTEXT").map(str::to_owned));
    given.text("session_store", "ZK_SESSION_STORE", env.text("ZK_SESSION_STORE").map(str::to_owned));
    given.text("screen", "ZK_SCREEN", env.text("ZK_SCREEN").map(str::to_owned));
    given
}
