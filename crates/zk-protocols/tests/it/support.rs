use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_agent::{Agent, AgentBuilder, RunOutcome};
use zk_core::model::{Approved, Block, Effects, Message, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, Tool, ToolCx};
use zk_protocols::{ProtocolSettings, ProtocolsPlugin, ToolProtocol};
use zk_testkit::{Recorder, Script, ScriptedProvider};

pub(crate) struct Rig {
    pub(crate) agent: Agent,
    pub(crate) provider: ScriptedProvider,
    pub(crate) recorder: Recorder,
}

/// An agent with the tools `read_file` (core), `echo` and `fetch_page`, and a model in this protocol.
pub(crate) fn rig(protocol: ToolProtocol, script: Script) -> Rig {
    rig_on(protocol, ScriptedProvider::new(script), |builder| builder)
}

pub(crate) fn rig_on(
    protocol: ToolProtocol,
    provider: ScriptedProvider,
    change: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> Rig {
    let recorder = Recorder::new();
    let settings = ProtocolSettings { protocol: Some(protocol), ..ProtocolSettings::default() };
    let builder = Agent::builder(Arc::new(provider.clone()))
        .system("You help.")
        .tool(reader("read_file", "path"))
        .tool(reader("echo", "text"))
        .tool(reader("fetch_page", "url"))
        .plugin(recorder.clone())
        .plugin(ProtocolsPlugin::new(settings).with_mark("3f9a"))
        .unguarded();
    Rig { agent: change(builder).build().unwrap(), provider, recorder }
}

impl Rig {
    pub(crate) async fn run(&self, prompt: &str) -> RunOutcome {
        self.agent.run(prompt).unwrap().wait().await
    }

    /// Text of the messages of the `number`th request, from 1.
    pub(crate) fn sent(&self, number: usize) -> Vec<String> {
        self.provider.asked()[number - 1].messages.iter().map(|message| message.text()).collect()
    }

    /// Whether no request had a tool, a call or a result.
    pub(crate) fn sent_text_only(&self) -> bool {
        let is_text = |block: &Block| matches!(block, Block::Text(_) | Block::Thinking(_));
        let all_text = |message: &Arc<Message>| message.content.iter().all(is_text);
        self.provider
            .asked()
            .iter()
            .all(|asked| asked.tools.is_empty() && asked.messages.iter().all(all_text))
    }

    /// Text that reached the screen.
    pub(crate) fn screen(&self) -> String {
        let texts = self.recorder.named("stream:text");
        texts.iter().map(|event| event["delta"].as_str().unwrap()).collect()
    }

    /// Calls and results of the history.
    pub(crate) fn calls(&self) -> Vec<String> {
        calls(&self.agent.history())
    }
}

/// Calls and results of a history.
pub(crate) fn calls(history: &[Arc<Message>]) -> Vec<String> {
    let blocks = history.iter().flat_map(|message| message.content.clone());
    let line = |block: Block| match block {
        Block::ToolCall(call) => Some(format!("{}({})", call.name, call.args)),
        Block::ToolResult(result) => {
            Some(format!("{}{}", if result.is_error { "!" } else { "=" }, result.content.to_text()))
        }
        _ => None,
    };
    blocks.filter_map(line).collect()
}

/// A tool that returns its name and its one argument.
pub(crate) fn reader(name: &str, argument: &'static str) -> Arc<dyn Tool> {
    let schema = json!({
        "type": "object",
        "properties": {
            argument: {"type": "string", "maxLength": 40},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        },
        "required": [argument],
    });
    Arc::new(Reader {
        spec: ToolSpec::new(name, format!("Gives the {argument} back. At once."), schema),
        argument,
    })
}

struct Reader {
    spec: Arc<ToolSpec>,
    argument: &'static str,
}

#[async_trait]
impl Tool for Reader {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::reads(["."])
    }

    async fn call(&self, call: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        let value = call.args()[self.argument].as_str().unwrap_or_default().to_owned();
        Ok(ToolOutput::text(format!("{} {value}", self.spec.name)))
    }
}
