//! `/backend`: the agent that answers.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use zk_agent::Agent;
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::Model;
use zk_core::service::{ArgumentChoice, BUILT_IN_BACKEND, Backend, Command, CommandOutcome, visible_line};

use crate::opening::factory::ConversationFactory;

/// Status text for a backend whose tools zk does not control.
pub(crate) const OWN_PERMISSIONS: &str = "its own permissions";

/// Creates the command.
pub(crate) fn command(agent: Agent, factory: Arc<dyn ConversationFactory>) -> Arc<dyn Command> {
    Arc::new(BackendCommand { agent, factory, left: Mutex::default() })
}

/// Active backend; `None` for the built-in agent.
pub(crate) fn active_foreign_backend(agent: &Agent) -> Option<Arc<dyn Backend>> {
    let backend = agent.bus().item::<dyn Backend>(&agent.model().provider)?;
    backend.provider().is_some().then_some(backend)
}

/// Title of another backend's model, which the backend usually chooses itself.
pub(crate) fn backend_title(model: &Model) -> String {
    match model.id.as_str() {
        "default" => model.provider.clone(),
        id => format!("{} {id}", model.provider),
    }
}

struct BackendCommand {
    agent: Agent,
    factory: Arc<dyn ConversationFactory>,
    /// Model of the built-in agent before the switch to another backend.
    left: Mutex<Option<Model>>,
}

impl BackendCommand {
    fn list_backends(&self, cx: &Cx) -> String {
        let present = active_foreign_backend(&self.agent);
        let present = present.as_ref().map_or(BUILT_IN_BACKEND, |backend| backend.name());
        let items = cx.items::<dyn Backend>();
        let width = items.iter().map(|item| item.name.chars().count()).max().unwrap_or_default();
        let line = |backend: &dyn Backend| {
            let mark = if backend.name() == present { "●" } else { " " };
            let own = match backend.has_own_permissions() {
                true => format!(" · {OWN_PERMISSIONS}"),
                false => String::new(),
            };
            let walls = match backend.walls() {
                "" => String::new(),
                walls => format!(" · {walls}"),
            };
            format!("{mark} {:<width$}  {}{own}{walls}", backend.name(), visible_line(&backend.describe()))
        };
        let mut lines: Vec<String> = items.iter().map(|item| line(&*item.value)).collect();
        match items.len() {
            0 => "this program has the built-in agent alone".to_owned(),
            1 => {
                lines.push("[backends.NAME] in the settings, or an extension, adds another one".to_owned());
                lines.join("\n")
            }
            _ => lines.join("\n"),
        }
    }

    async fn switch(&self, name: &str, cx: &Cx) -> Result<String, BoxError> {
        let mut found = cx.item::<dyn Backend>(name);
        if found.is_none() {
            // A backend that an extension provides is known once the extension runs.
            self.factory.programs_ready(&self.agent).await;
            found = cx.item::<dyn Backend>(name);
        }
        let Some(backend) = found else {
            let names: Vec<String> =
                cx.items::<dyn Backend>().iter().map(|item| item.name.to_string()).collect();
            return Err(format!("there is no backend `{name}`; there are: {}", names.join(", ")).into());
        };
        let before = active_foreign_backend(&self.agent);
        let present = before.as_ref().map_or(BUILT_IN_BACKEND, |backend| backend.name());
        if present == backend.name() {
            return Ok(format!("{name} answers already"));
        }
        let now = self.agent.model();
        let model = match backend.provider() {
            Some(provider) => provider.model(&provider.default_model().unwrap_or_default()),
            None => self.built_in_model().await?,
        };
        self.agent.set_model(model).await?;
        if let Some(before) = before {
            before.stop().await;
        } else {
            *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        }
        Ok(switch_message(&*backend, &self.agent.model()))
    }

    /// Model that the built-in agent used last, or its initial one.
    async fn built_in_model(&self) -> Result<Model, BoxError> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match left {
            Some(model) => Ok(model),
            None => self.factory.own_model(&self.agent).await,
        }
    }
}

/// Message about the switch to a backend, with the limits that zk cannot enforce on it.
fn switch_message(backend: &dyn Backend, model: &Model) -> String {
    if backend.provider().is_none() {
        return format!("{} answers from the next prompt on, with {}", backend.name(), model.reference());
    }
    let own = if backend.has_own_permissions() { OWN_PERMISSIONS } else { "zk's permissions" };
    let mut text = format!("{} answers from the next prompt on: {own}", backend.name());
    for line in backend.unenforced() {
        text.push_str("\n  ");
        text.push_str(&visible_line(&line));
    }
    text
}

#[async_trait]
impl Command for BackendCommand {
    fn name(&self) -> &'static str {
        "backend"
    }

    fn help(&self) -> &'static str {
        "the agent that answers: show which there are, or go on with another one"
    }

    fn argument_hint(&self) -> Option<&str> {
        Some("[NAME]")
    }

    async fn complete(&self, _: &str, cx: &Cx) -> Vec<ArgumentChoice> {
        let items = cx.items::<dyn Backend>();
        items
            .iter()
            .map(|item| ArgumentChoice::new(&*item.name, visible_line(&item.value.describe())))
            .collect()
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        Ok(CommandOutcome::Show(match args {
            "" => self.list_backends(cx),
            name => self.switch(name, cx).await?,
        }))
    }
}
