use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use zk_core::kernel::Cx;
use zk_core::model::{Model, ProviderError, Role, ToolProtocol, ToolSpec, WireReady, WireRules};
use zk_core::service::{EventStream, OutputFormat, Provider, Request, RunTools, ToolChoice};

use crate::deferred::{DeferredAnswer, call_tool, wrapped_calls};
use crate::inline::{
    CallExtractor, CallFormat, EXTRACT_CALLS, FencedCalls, InlineAnswer, as_text, call_info, describe,
    union_schema,
};
use crate::lookup::{LOAD_TOOLS, list_tools};
use crate::rewrite::{RewriteAnswer, rewritten};
use crate::settings::ProtocolSettings;

/// Decorator of a provider: sends requests in the protocol of their model, and returns answers as calls of the real
/// tools.
pub(crate) struct ProtocolProvider {
    pub(crate) inner: Arc<dyn Provider>,
    pub(crate) settings: Arc<ProtocolSettings>,
    /// Nonce in the info string of calls that are written as text.
    pub(crate) mark: Arc<str>,
}

impl ProtocolProvider {
    /// Converts the request to the protocol of its model; also returns the rewriter of its answer.
    fn convert(&self, request: Request, cx: &Cx) -> (Request, Option<Box<dyn RewriteAnswer>>) {
        match self.settings.protocol_of(&request.model) {
            ToolProtocol::Api => (request, None),
            ToolProtocol::Deferred => self.with_deferred_tools(request, cx),
            ToolProtocol::Lookup => (with_tool_list(request, cx), None),
            ToolProtocol::Inline => {
                let (request, answer) = self.with_inline_tools(request, cx);
                (request, Some(Box::new(answer)))
            }
        }
    }

    fn with_deferred_tools(&self, request: Request, cx: &Cx) -> (Request, Option<Box<dyn RewriteAnswer>>) {
        let renamed = renamed_core(&self.settings, cx);
        let is_core = |tool: &Arc<ToolSpec>| {
            self.settings.sends_full_schema(&tool.name)
                || renamed.contains(&tool.name)
                || request.tool_choice == ToolChoice::Tool(tool.name.clone())
        };
        let (mut core, others): (Vec<_>, Vec<_>) = request.tools.iter().cloned().partition(is_core);
        let offered: BTreeSet<String> = core.iter().map(|tool| tool.name.clone()).collect();
        // Calls of other tools are shown as the model made them, as long as there are any others.
        if others.is_empty() {
            return (request, None);
        }
        core.push(call_tool(&others));
        let history = wrapped_calls(&request.history, &offered);
        (Request { tools: core.into(), history, ..request }, Some(Box::<DeferredAnswer>::default()))
    }

    fn with_inline_tools(&self, mut request: Request, cx: &Cx) -> (Request, InlineAnswer) {
        let tools = std::mem::take(&mut request.tools);
        let choice = std::mem::take(&mut request.tool_choice);
        let choice = match choice {
            ToolChoice::Auto if is_repeating(&request.history) => ending_choice(&tools),
            other => other,
        };
        // The prompt does not depend on the tool choice, so that it stays the same.
        let usual = match tools.is_empty() {
            true => None,
            false => self.constraint_of_answer(&request.model, &tools, &ToolChoice::Auto),
        };
        let described_format = if usual.is_some() { CallFormat::Constrained } else { CallFormat::Fenced };
        let schema = match choice {
            _ if request.output.is_some() || tools.is_empty() => None,
            ToolChoice::Auto => usual,
            ToolChoice::None | ToolChoice::Required | ToolChoice::Tool(_) => {
                self.constraint_of_answer(&request.model, &tools, &choice)
            }
        };
        let format = if schema.is_some() { CallFormat::Constrained } else { CallFormat::Fenced };
        let info = call_info(&self.mark);
        if !tools.is_empty() {
            let described = describe(&tools, described_format, &info);
            request.system = match request.system.trim().is_empty() {
                true => described.into(),
                false => format!("{}\n\n{described}", request.system.trim_end()).into(),
            };
        }
        if let Some(schema) = schema {
            request.output = Some(OutputFormat { name: Arc::from("reply"), schema: Arc::new(schema) });
        }
        request.history = as_text(&request.history, format, &info, &self.inner.rules(&request.model));
        let registered = cx.item::<dyn CallExtractor>(EXTRACT_CALLS);
        let extractor = registered.unwrap_or_else(|| Arc::new(FencedCalls::new(&self.mark)));
        (request, InlineAnswer::new(extractor, format))
    }

    /// Returns the schema to which the answer is constrained, if the server supports that.
    fn constraint_of_answer(
        &self,
        model: &Model,
        tools: &[Arc<ToolSpec>],
        choice: &ToolChoice,
    ) -> Option<Value> {
        if !self.settings.constrained {
            return None;
        }
        let schema = match choice {
            ToolChoice::Tool(name) => union_schema(tools.iter().filter(|tool| tool.name == *name), false),
            ToolChoice::Required => union_schema(tools.iter(), false),
            ToolChoice::Auto => union_schema(tools.iter(), true),
            ToolChoice::None => union_schema([].iter(), true),
        };
        self.inner.native_output(model, &schema, false).then_some(schema)
    }
}

/// Number of identical calls in a row after which a model under a schema constraint is made to end its run: small
/// models get stuck in repetitions, and a message does not stop them.
const MAX_IDENTICAL_CALLS: usize = 3;

/// Whether the last answers are one and the same call.
fn is_repeating(history: &WireReady) -> bool {
    let answers = history.messages().iter().rev().filter(|message| message.role == Role::Assistant);
    let mut calls = answers.map(|message| {
        let mut calls = message.calls();
        calls.next().filter(|_| calls.next().is_none()).map(|call| (&call.name, &call.args))
    });
    let Some(Some(last)) = calls.next() else { return false };
    calls.take(MAX_IDENTICAL_CALLS - 1).filter(|call| *call == Some(last)).count() == MAX_IDENTICAL_CALLS - 1
}

/// Returns the choice that ends a run: the structured output, if there is one, or an answer.
fn ending_choice(tools: &[Arc<ToolSpec>]) -> ToolChoice {
    let output = tools.iter().find(|tool| tool.name.starts_with("__"));
    output.map_or(ToolChoice::None, |tool| ToolChoice::Tool(tool.name.clone()))
}

/// Returns the names under which the model sees core tools that have aliases.
fn renamed_core(settings: &ProtocolSettings, cx: &Cx) -> BTreeSet<String> {
    let tools = cx.service::<dyn RunTools>().map(|run| run.tools()).unwrap_or_default();
    let core = tools.into_iter().filter(|tool| settings.sends_full_schema(&tool.name));
    core.map(|tool| tool.spec.name.clone()).collect()
}

/// Returns the request with the list of tools that can be loaded.
fn with_tool_list(request: Request, cx: &Cx) -> Request {
    let Some(run) = cx.service::<dyn RunTools>() else { return request };
    let tools = request.tools.iter().map(|tool| match tool.name.as_str() {
        LOAD_TOOLS => list_tools(tool, &run.tools()),
        _ => tool.clone(),
    });
    Request { tools: tools.collect(), ..request }
}

#[async_trait]
impl Provider for ProtocolProvider {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn inner(&self) -> Option<&dyn Provider> {
        Some(&*self.inner)
    }

    fn model(&self, id: &str) -> Model {
        self.inner.model(id)
    }

    fn rules(&self, model: &Model) -> WireRules {
        self.inner.rules(model)
    }

    fn native_output(&self, model: &Model, schema: &Value, with_tools: bool) -> bool {
        // With inline tools, the one schema of an answer is that of the calls.
        let is_taken = with_tools && self.settings.protocol_of(model) == ToolProtocol::Inline;
        !is_taken && self.inner.native_output(model, schema, with_tools)
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        let (request, rewriter) = self.convert(request, cx);
        let answer = self.inner.stream(request, cx);
        match rewriter {
            Some(rewriter) => rewritten(answer, rewriter),
            None => answer,
        }
    }

    async fn count_tokens(&self, request: Request, cx: &Cx) -> Result<Option<u64>, ProviderError> {
        let (request, _) = self.convert(request, cx);
        self.inner.count_tokens(request, cx).await
    }
}
