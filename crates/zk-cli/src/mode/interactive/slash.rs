use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use zk_agent::Agent;
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::{ThinkingLevel, ThinkingRequest};
use zk_core::service::{Command, CommandOutcome, Provider, SessionFilter, SessionStore, Tool};
use zk_session::SqliteStore;

use crate::commands;

/// The commands every conversation has.
pub(crate) fn all(
    agent: &Agent,
    provider: Arc<dyn Provider>,
    store: Option<SqliteStore>,
    cwd: &Path,
) -> Vec<Arc<dyn Command>> {
    let tools = Arc::new(Hand { agent: agent.clone(), provider, store, cwd: cwd.to_path_buf() });
    let make = |what| Arc::new(Slash { what, hand: tools.clone() }) as Arc<dyn Command>;
    What::ALL.map(make).into()
}

/// What the commands work with.
struct Hand {
    agent: Agent,
    provider: Arc<dyn Provider>,
    store: Option<SqliteStore>,
    cwd: PathBuf,
}

struct Slash {
    what: What,
    hand: Arc<Hand>,
}

#[derive(Clone, Copy)]
enum What {
    Help,
    Model,
    Quit,
    Sessions,
    Thinking,
    Tools,
}

impl What {
    const ALL: [Self; 6] = [Self::Help, Self::Model, Self::Quit, Self::Sessions, Self::Thinking, Self::Tools];
}

#[async_trait]
impl Command for Slash {
    fn name(&self) -> &str {
        match self.what {
            What::Help => "help",
            What::Model => "model",
            What::Quit => "quit",
            What::Sessions => "sessions",
            What::Thinking => "thinking",
            What::Tools => "tools",
        }
    }

    fn help(&self) -> &str {
        match self.what {
            What::Help => "list the commands",
            What::Model => "show the model, or go on with another: /model ID",
            What::Quit => "end the conversation",
            What::Sessions => "list the sessions of this directory",
            What::Thinking => "show how much the model reasons, or change it: /thinking LEVEL",
            What::Tools => "list the tools",
        }
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let text = match self.what {
            What::Quit => return Ok(CommandOutcome::Quit),
            What::Help => help(cx),
            What::Model => self.hand.model(args).await?,
            What::Sessions => self.hand.sessions().await?,
            What::Thinking => self.hand.thinking(args).await?,
            What::Tools => tools(cx),
        };
        Ok(CommandOutcome::Show(text))
    }
}

impl Hand {
    async fn model(&self, id: &str) -> Result<String, BoxError> {
        if !id.is_empty() {
            self.agent.set_model(self.provider.model(id)).await?;
        }
        let model = self.agent.model();
        let window = model.window.map_or(String::new(), |tokens| format!(", window {tokens} tokens"));
        Ok(format!("{}{window}", model.reference()))
    }

    async fn thinking(&self, level: &str) -> Result<String, BoxError> {
        if !level.is_empty() {
            let level: ThinkingLevel = level.parse()?;
            self.agent.set_thinking(ThinkingRequest { level, budget: None }).await?;
        }
        Ok(self.agent.thinking().level.as_str().to_owned())
    }

    async fn sessions(&self) -> Result<String, BoxError> {
        let store = self.store.as_ref().ok_or("there is no place for sessions: set HOME or ZK_HOME")?;
        let filter = SessionFilter { cwd: Some(self.cwd.clone()), limit: Some(20) };
        let lines = commands::session_lines(&store.list(&filter).await?, false);
        Ok(if lines.is_empty() { "there are none yet".to_owned() } else { lines.join("\n") })
    }
}

fn help(cx: &Cx) -> String {
    let mut lines: Vec<String> = cx
        .items::<dyn Command>()
        .iter()
        .map(|command| format!("/{:<10} {}", command.name, command.value.help()))
        .collect();
    lines.push("!command    run a command of your own; the model sees its output".to_owned());
    lines.push("!!command   the same, and the model does not see it".to_owned());
    lines.push("Ctrl-C      stop the run; at the prompt, twice ends the conversation".to_owned());
    lines.push("Ctrl-D      end the conversation".to_owned());
    lines.join("\n")
}

fn tools(cx: &Cx) -> String {
    let lines: Vec<String> = cx
        .items::<dyn Tool>()
        .iter()
        .map(|tool| {
            let description = &tool.value.spec().description;
            let first = description.split_inclusive(". ").next().unwrap_or(description);
            format!("{:<12} {}", tool.name, first.trim())
        })
        .collect();
    lines.join("\n")
}
