use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zk_core::kernel::{Bus, Scope};

use super::shared::Shared;
use crate::abilities::{
    ExtensionBackend, ExtensionCommand, ExtensionContext, ExtensionRenderer, ExtensionSection, ExtensionTool,
    askable, observe,
};
use crate::protocol::{LeftOut, Registrations, RemovedRegistrations};

/// Most registrations of one extension.
const MAX_REGISTRATIONS: usize = 500;
/// Most characters of a name.
const MAX_NAME_CHARS: usize = 128;

/// Something that an extension registered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Registration {
    /// Kind: `tool`, `command`, `ask`, `tell`, `section`, `context`, `renderer` or `backend`.
    pub kind: &'static str,
    /// Name, unique within the kind.
    pub name: String,
}

/// Registrations of one extension, each in a scope of its own.
#[derive(Default)]
pub(crate) struct Registry {
    entries: Mutex<BTreeMap<Registration, Entry>>,
}

struct Entry {
    scope: Scope,
    /// Definition, to notice that another one takes its place.
    definition: String,
}

/// Action that makes a registration in a scope; the error says why it is refused.
type Register<'a> = Box<dyn FnOnce(&Scope) -> Result<(), String> + Send + 'a>;

/// Registration that is to be made.
struct Wanted<'a> {
    of: Registration,
    definition: String,
    register: Register<'a>,
}

impl Registry {
    /// Returns all registrations.
    pub(crate) fn list(&self) -> Vec<Registration> {
        self.entries().keys().cloned().collect()
    }

    /// Makes registrations and returns the refused ones. Event handlers are kept across restarts of the
    /// program. With `replaces_all`, all other registrations that are missing in the new list are removed.
    pub(crate) async fn apply(
        &self,
        shared: &Arc<Shared>,
        bus: &Bus,
        registrations: Registrations,
        replaces_all: bool,
    ) -> Vec<LeftOut> {
        let wanted = requested_registrations(shared, registrations);
        let mut left_out = Vec::new();
        if replaces_all {
            let kept: BTreeSet<&Registration> = wanted.iter().map(|one| &one.of).collect();
            let gone: Vec<Registration> = self
                .entries()
                .keys()
                .filter(|one| one.kind != "ask" && !kept.contains(one))
                .cloned()
                .collect();
            self.remove(&gone).await;
        }
        for one in wanted {
            let refused = self.register(shared, bus, one).await;
            left_out.extend(refused);
        }
        left_out
    }

    async fn register(&self, shared: &Shared, bus: &Bus, wanted: Wanted<'_>) -> Option<LeftOut> {
        let Wanted { of, definition, register } = wanted;
        let refuse =
            |reason: String| Some(LeftOut { kind: of.kind.to_owned(), name: of.name.clone(), reason });
        if of.name.is_empty()
            || of.name.chars().count() > MAX_NAME_CHARS
            || of.name.chars().any(char::is_control)
        {
            return refuse(format!(
                "a name has 1 to {MAX_NAME_CHARS} characters, none of them a control character"
            ));
        }
        let before = {
            let mut entries = self.entries();
            if entries.get(&of).is_some_and(|entry| entry.definition == definition) {
                return None;
            }
            if entries.len() >= MAX_REGISTRATIONS {
                return refuse(format!("an extension has at most {MAX_REGISTRATIONS} registrations"));
            }
            // A guard stays until its replacement is registered.
            if of.kind == "ask" { None } else { entries.remove(&of) }
        };
        if let Some(before) = before {
            before.scope.close().await;
        }
        let scope = bus.scope(shared.config.source());
        match register(&scope) {
            Ok(()) => {
                let replaced = self.entries().insert(of, Entry { scope, definition });
                if let Some(replaced) = replaced {
                    replaced.scope.close().await;
                }
                None
            }
            Err(reason) => {
                scope.close().await;
                refuse(reason)
            }
        }
    }

    /// Removes registrations; missing ones are ignored.
    pub(crate) async fn remove(&self, gone: &[Registration]) {
        for one in gone {
            let entry = self.entries().remove(one);
            if let Some(entry) = entry {
                entry.scope.close().await;
            }
        }
    }

    /// Removes the registrations that an extension names.
    pub(crate) async fn unregister(&self, removed: RemovedRegistrations) {
        let RemovedRegistrations { tools, commands, tells, sections, contexts, renderers, backends } =
            removed;
        let lists = [
            ("tool", tools),
            ("command", commands),
            ("tell", tells),
            ("section", sections),
            ("context", contexts),
            ("renderer", renderers),
            ("backend", backends),
        ];
        let gone = lists
            .into_iter()
            .flat_map(|(kind, names)| names.into_iter().map(move |name| Registration { kind, name }));
        self.remove(&gone.collect::<Vec<_>>()).await;
    }

    /// Removes everything.
    pub(crate) async fn clear(&self) {
        let entries = std::mem::take(&mut *self.entries());
        for entry in entries.into_values() {
            entry.scope.close().await;
        }
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<Registration, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Converts the message of an extension to registrations to make.
fn requested_registrations<'a>(shared: &'a Arc<Shared>, registrations: Registrations) -> Vec<Wanted<'a>> {
    let Registrations { tools, commands, asks, tells, sections, contexts, renderers, backends } =
        registrations;
    let mut wanted: Vec<Wanted<'a>> = Vec::new();
    // Guards are registered before all else.
    for ask in asks {
        let (name, definition) = (ask.event.clone(), format!("{ask:?}"));
        wanted.push(wanted_item("ask", name, definition, move |scope| {
            let event = askable(&ask.event).ok_or("no extension can answer this event")?;
            if shared.config.origin.is_project && !event.by_projects {
                return Err("an extension of a project cannot answer in the place of the person".to_owned());
            }
            shared.add_asked_event(event.name);
            (event.register)(scope, shared.clone(), ask.stage.into());
            Ok(())
        }));
    }
    for tool in tools {
        let (name, definition) = (tool.name.clone(), format!("{tool:?}"));
        wanted.push(wanted_item("tool", name, definition, move |scope| {
            ExtensionTool::provide(scope, shared, tool)
        }));
    }
    for command in commands {
        let (name, definition) = (command.name.clone(), format!("{command:?}"));
        wanted.push(wanted_item("command", name, definition, move |scope| {
            ExtensionCommand::provide(scope, shared, command)
        }));
    }
    for name in tells {
        wanted.push(wanted_item("tell", name.clone(), String::new(), move |scope| {
            observe(scope, shared, name);
            Ok(())
        }));
    }
    for section in sections {
        let (name, definition) = (section.id.clone(), format!("{section:?}"));
        wanted.push(wanted_item("section", name, definition, move |scope| {
            ExtensionSection::provide(scope, shared, section)
        }));
    }
    for context in contexts {
        let (name, definition) = (context.name.clone(), format!("{context:?}"));
        wanted.push(wanted_item("context", name, definition, move |scope| {
            ExtensionContext::provide(scope, shared, context)
        }));
    }
    for renderer in renderers {
        let (name, definition) = (renderer.name.clone(), format!("{renderer:?}"));
        wanted.push(wanted_item("renderer", name, definition, move |scope| {
            ExtensionRenderer::provide(scope, renderer)
        }));
    }
    for backend in backends {
        let (name, definition) = (backend.name.clone(), format!("{backend:?}"));
        wanted.push(wanted_item("backend", name, definition, move |scope| {
            ExtensionBackend::provide(scope, shared, backend)
        }));
    }
    wanted
}

fn wanted_item<'a>(
    kind: &'static str,
    name: String,
    definition: String,
    register: impl FnOnce(&Scope) -> Result<(), String> + Send + 'a,
) -> Wanted<'a> {
    Wanted { of: Registration { kind, name }, definition, register: Box::new(register) }
}
