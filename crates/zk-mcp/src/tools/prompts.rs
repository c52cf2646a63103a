//! Prompts of servers as commands: `/mcp_{server}_{prompt} value` or `name=value`.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use serde_json::{Map, Value};
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{Command, CommandOutcome};

use crate::client::{Prompted, prompt_text};
use crate::server::{RequestError, Server};
use crate::tools::sanitize::clean_text;

/// Command that sends a prompt of a server.
pub(crate) struct PromptCommand {
    server: Weak<Server>,
    name: String,
    help: String,
    /// Hint for the arguments.
    hint: Option<String>,
    prompt: Prompted,
}

impl PromptCommand {
    /// Creates the command called `name` for a prompt.
    pub(crate) fn new(server: &Arc<Server>, name: String, prompt: Prompted) -> Self {
        let about = clean_text(&prompt.description).replace('\n', " ");
        let arguments = prompt.arguments.iter().map(|(name, needed)| {
            let name = clean_text(name);
            if *needed { format!(" {name}") } else { format!(" [{name}]") }
        });
        let arguments: String = arguments.collect();
        let hint = Some(arguments.trim().to_owned()).filter(|hint| !hint.is_empty());
        let help = format!("{about} (prompt of MCP server {}{arguments})", server.name());
        Self { server: Arc::downgrade(server), name, help, hint, prompt }
    }

    /// Parses the text after the command's name: `name=value`, or values in the order of the arguments. The
    /// last argument gets the rest of the text.
    fn arguments(&self, text: &str) -> Result<Map<String, Value>, String> {
        let known = &self.prompt.arguments;
        let mut given = Map::new();
        let mut rest = text.trim();
        let mut open = known.iter().map(|(name, _)| name).peekable();
        while !rest.is_empty() {
            let word = rest.split_whitespace().next().unwrap_or_default();
            let named = word.split_once('=').filter(|(name, _)| known.iter().any(|(known, _)| known == name));
            if let Some((name, value)) = named {
                given.insert(name.to_owned(), Value::from(value));
            } else {
                while open.next_if(|name| given.contains_key(*name)).is_some() {}
                let Some(name) = open.next() else {
                    return Err(format!("/{} takes {} arguments at most", self.name, known.len()));
                };
                if open.peek().is_none() {
                    given.insert(name.clone(), Value::from(rest));
                    break;
                }
                given.insert(name.clone(), Value::from(word));
            }
            rest = rest.get(word.len()..).unwrap_or_default().trim_start();
        }
        match known.iter().find(|(name, needed)| *needed && !given.contains_key(name)) {
            Some((name, _)) => Err(format!("/{} needs a value for {}", self.name, clean_text(name))),
            None => Ok(given),
        }
    }
}

#[async_trait]
impl Command for PromptCommand {
    fn name(&self) -> &str {
        &self.name
    }

    fn help(&self) -> &str {
        &self.help
    }

    fn argument_hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let arguments = self.arguments(args)?;
        let server = self.server.upgrade().ok_or("its MCP server was ended with the conversation")?;
        let idle = server.config.request_idle;
        let prompt = server.request(cx, true, |connection| {
            let arguments = arguments.clone();
            async move { connection.prompt(&self.prompt.name, arguments, idle, cx).await }
        });
        match prompt.await {
            Ok(prompt) => Ok(CommandOutcome::Prompt(prompt_text(prompt))),
            Err(RequestError::Unavailable(error)) => Err(error.into()),
            Err(RequestError::Ended(end)) => Err(format!("MCP server {}: {end}", server.name()).into()),
        }
    }
}
