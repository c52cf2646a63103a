use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use zk_core::model::{Approved, Concurrency, Display, Effects, SessionId, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, Tool, ToolCx, visible_line};

use crate::fact::REMEMBER;
use crate::shared::Shared;
use crate::{FactOrigin, FactScope, NewFact, Saved};

/// Maximum number of characters of a text in a line about a call.
const MAX_SUMMARY_CHARS: usize = 80;

/// Keeps a fact for later sessions.
#[derive(Debug)]
pub(crate) struct Remember {
    spec: Arc<ToolSpec>,
    shared: Arc<Shared>,
}

/// Arguments of a call.
#[derive(Debug, Deserialize)]
pub(crate) struct RememberArgs {
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) scope: RememberScope,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RememberScope {
    #[default]
    Project,
    Everywhere,
}

impl RememberArgs {
    /// Converts the arguments to the fact that the call asks to keep.
    pub(crate) fn fact(self, shared: &Shared, session: Option<&SessionId>) -> NewFact {
        let scope = match self.scope {
            RememberScope::Project => FactScope::Project(shared.project.clone()),
            RememberScope::Everywhere => FactScope::Everywhere,
        };
        NewFact {
            text: self.text,
            scope,
            origin: FactOrigin::Model,
            session: session.map(ToString::to_string),
        }
    }
}

impl Remember {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let text = json!({
            "type": "string", "minLength": 1,
            "description": "The fact, in one or two sentences that are understood without this conversation. No secrets."
        });
        let scope = json!({
            "type": "string", "enum": ["project", "everywhere"],
            "description": "project unless it is about the user and holds in every project"
        });
        let spec = ToolSpec::new(
            REMEMBER,
            "Keep a fact for later sessions. Only lasting facts that the user told or confirmed, such as preferences, \
             decisions and how the project is built; not what the files say.",
            json!({
                "type": "object", "properties": { "text": text, "scope": scope }, "required": ["text"],
                "additionalProperties": false
            }),
        );
        Self { spec, shared }
    }

    /// Path of the memory's file, which a call changes.
    fn path(&self) -> PathBuf {
        self.shared.store.path().to_owned()
    }
}

#[async_trait]
impl Tool for Remember {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let args: RememberArgs = call.parse()?;
        let session = cx.cx.service::<SessionId>();
        let fact = args.fact(&self.shared, session.as_deref());
        let text = visible_line(&fact.text);
        let saved = self.shared.blocking(move |store| store.keep(&fact)).await;
        match saved {
            Ok(Saved::New(id)) => {
                let display = Display::Line { text: format!("{id}: {text}") };
                Ok(ToolOutput::text(format!("Kept as {id}.")).with_display(display))
            }
            Ok(Saved::Known(id)) => Ok(ToolOutput::text(format!("It is kept already, as {id}."))),
            Err(error) => Err(ToolError::failed(error.to_string())),
        }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Exclusive
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::writes([self.path()])
    }

    fn title(&self) -> String {
        "Remember".to_owned()
    }

    fn summary(&self, args: &Value) -> String {
        let text = args.get("text").and_then(Value::as_str).unwrap_or_default();
        let line = visible_line(&text.split_whitespace().collect::<Vec<_>>().join(" "));
        let cut: String = line.chars().take(MAX_SUMMARY_CHARS).collect();
        let more = if cut.len() < line.len() { "…" } else { "" };
        format!("remember: {cut}{more}")
    }
}
