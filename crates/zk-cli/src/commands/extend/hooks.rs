use std::sync::Arc;

use zk_core::kernel::RegistrationKind;
use zk_core::service::visible_line;
use zk_hooks::CommandHook;

use super::print_words as print;
use crate::app::{AppContext, Machine, runtime};
use crate::compose::{self, HostOptions};
use crate::exit::{Exit, Outcome};
use crate::sessions::Session;
use crate::settings::Settings;

/// Prints all registrations on the bus, each with its plugin.
pub(crate) fn registry(app: &AppContext) -> Outcome<Exit> {
    runtime()?.block_on(async {
        let bus = compose::bus(app, &Session::default(), HostOptions::unattended(&app.settings)).await?;
        let lines: Vec<String> = bus
            .describe()
            .iter()
            .map(|one| {
                let kind = match one.kind {
                    RegistrationKind::Observer => "observer".to_owned(),
                    RegistrationKind::Handler => "handler".to_owned(),
                    RegistrationKind::Tombstone => "tombstone".to_owned(),
                    RegistrationKind::Item(kind) => short_type_name(kind),
                    RegistrationKind::Decorator(kind) => format!("decorator of {}", short_type_name(kind)),
                    RegistrationKind::Service(kind) => format!("service {}", short_type_name(kind)),
                    RegistrationKind::Watcher(kind) => format!("watcher of {}", short_type_name(kind)),
                };
                let stage = one.stage.map_or(String::new(), |stage| format!(" ({stage:?})").to_lowercase());
                format!("{kind:<16} {:<22} {}{stage}  {}", one.name, one.source, one.location)
            })
            .collect();
        bus.close().await;
        print(&app.work.machine, &lines)
    })
}

/// Prints the hook commands: those in use, then those of project files that are not trusted.
pub(crate) fn command_hooks(machine: &Machine, settings: &Settings) -> Outcome<Exit> {
    let row = |hook: &Arc<CommandHook>, state: &str| {
        let CommandHook { event, matcher, command, timeout, source, unusable, .. } = &**hook;
        let what = visible_line(command);
        let about =
            format!("{event:<18} {:<16} {:>4} s", visible_line(&matcher.to_string()), timeout.as_secs());
        let place = visible_line(&source.place);
        let unusable =
            unusable.as_ref().map_or(String::new(), |why| format!("; never runs: {}", visible_line(why)));
        format!("{about}  {what}  ({place}, {state}{unusable})")
    };
    let mut lines: Vec<String> = settings.hooks().hooks.iter().map(|hook| row(hook, "counts")).collect();
    let untrusted = settings.untrusted_hooks().flat_map(|set| &set.hooks);
    lines.extend(
        untrusted.map(|hook| row(hook, "not trusted, so it does not run; `zk trust` shows the file")),
    );
    if lines.is_empty() {
        lines.push("no command is a hook: `[[hooks.PreToolUse]]` in settings.toml adds one".to_owned());
    }
    print(machine, &lines)
}

/// Returns the name of a type without its module path.
fn short_type_name(name: &str) -> String {
    name.rsplit("::").next().unwrap_or(name).to_lowercase()
}
