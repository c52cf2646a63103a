use zk_core::kernel::RegistrationKind;

use super::print;
use crate::app::{AppContext, runtime};
use crate::compose::{self, HostOptions};
use crate::exit::{Exit, Outcome};
use crate::sessions::Session;

/// Prints everything that is registered, and by whom.
pub(crate) fn hooks(app: &AppContext) -> Outcome<Exit> {
    runtime()?.block_on(async {
        let host = HostOptions {
            ui: None,
            questions: None,
            allow_all: app.settings.flag("permissions.allow_all"),
            view: zk_view::ViewDriver::new(),
        };
        let bus = compose::bus(app, &Session::default(), host)?;
        let lines: Vec<String> = bus
            .describe()
            .iter()
            .map(|one| {
                let kind = match one.kind {
                    RegistrationKind::Observer => "observer".to_owned(),
                    RegistrationKind::Handler => "handler".to_owned(),
                    RegistrationKind::Tombstone => "tombstone".to_owned(),
                    RegistrationKind::Item(kind) => last(kind),
                    RegistrationKind::Decorator(kind) => format!("decorator of {}", last(kind)),
                    RegistrationKind::Service(kind) => format!("service {}", last(kind)),
                    RegistrationKind::Watcher(kind) => format!("watcher of {}", last(kind)),
                };
                let stage = one.stage.map_or(String::new(), |stage| format!(" ({stage:?})").to_lowercase());
                format!("{kind:<16} {:<22} {}{stage}  {}", one.name, one.source, one.location)
            })
            .collect();
        bus.close().await;
        print(app, &lines)
    })
}

/// A type's name without its modules.
fn last(name: &str) -> String {
    name.rsplit("::").next().unwrap_or(name).to_lowercase()
}
