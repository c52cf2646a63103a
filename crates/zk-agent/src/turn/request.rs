use std::sync::Arc;

use zk_core::events::{
    ContextTransform, HistoryRepaired, Offer, PartKind, PartLeftOut, ProviderRequest, SystemTransform,
    ToolsChanged, ToolsOffer,
};
use zk_core::kernel::Cx;
use zk_core::model::{AgentError, ErrorKind, Message, ModelRef, Phase, ProviderError, SessionId, WireReady};
use zk_core::service::{CallPlace, ContextId, ContextWindow, Request, ToolChoice};

use super::sequence::Turn;
use super::thinking::{decayed_request, default_output_limit, output_limit};
use crate::context::{Next, Rewrites};
use crate::run::RunState;
use crate::tools::{ToolNews, is_guarded};

impl RunState {
    /// Updates the tools for this turn, and announces their changes since the last request.
    pub(crate) async fn refresh_tools(&mut self, turn: &Turn) -> Result<(), AgentError> {
        self.snapshot_tools().await?;
        let Some(news) = self.toolbox.take_news() else { return Ok(()) };
        let ToolNews { changes, left_out, breaks_prefix } = news;
        self.agent.state().prefix.note_tools();
        let changed = ToolsChanged {
            turn_id: turn.id.clone(),
            turn: turn.number,
            changes,
            breaks_prefix,
            tools: self.toolbox.offered_names(),
            left_out,
        };
        Ok(turn.cx.emit(changed).await?)
    }

    /// Takes the snapshot of the tools, and decides how structured output is requested.
    pub(crate) async fn snapshot_tools(&mut self) -> Result<(), AgentError> {
        let had_tools = !self.toolbox.specs().is_empty();
        self.ask_for_offers().await?;
        let unlocked = self.shared.unlocked().clone();
        // Decorators of tools run here, and may lock the agent's state.
        let mut memory = std::mem::take(&mut self.agent.state().tools);
        self.toolbox.refresh(&self.agent.bus, &unlocked, self.shared.offers(), &mut memory);
        self.agent.state().tools = memory;
        if !self.agent.is_unguarded && !is_guarded(&self.agent.bus) {
            self.toolbox.check_reading(&CallPlace { cx: self.cx.clone(), cwd: self.cwd.clone() })?;
        }
        let has_tools = !self.toolbox.specs().is_empty();
        // Some providers enforce a schema only in requests without tools.
        if let Some(output) =
            self.output.clone().filter(|output| output.is_native() && !output.leaves_out_tools())
            && has_tools != had_tools
        {
            output.record_native(&*self.agent.provider_of(&self.model)?, &self.model, has_tools);
            if !output.is_native() {
                self.toolbox.add_output(output);
            }
        }
        Ok(())
    }

    /// Asks the `tools:offer` handlers which tools the request offers, and records each offer that differs from
    /// the disclosure of its tool.
    async fn ask_for_offers(&self) -> Result<(), AgentError> {
        if !self.agent.bus.has_handlers::<ToolsOffer>() {
            return Ok(());
        }
        let own = self.toolbox.own_offers(&self.agent.bus);
        let asked = ToolsOffer { model: self.models.own.clone(), tools: own.clone() };
        let answered = self.cx.emit(asked).await?;
        let differs = |(name, offer): &(String, Offer)| own.get(name) != Some(offer);
        self.shared.set_offers(answered.tools.into_iter().filter(differs).collect());
        Ok(())
    }

    /// Builds the messages to send, with canonical names.
    pub(crate) async fn build_messages(&self, turn: &Turn) -> Result<Vec<Arc<Message>>, AgentError> {
        let history = self.agent.state().history.clone();
        if !turn.cx.bus().has_listeners::<ContextTransform>() {
            self.agent.state().prefix.note_rewrites(Rewrites::new(history.clone(), Vec::new()));
            return Ok(history);
        }
        let context = ContextTransform::new(turn.id.clone(), history.clone(), self.model.window);
        let context = turn.cx.emit(context).await?;
        self.agent.state().prefix.note_rewrites(Rewrites::new(history, context.rewrites().to_vec()));
        let messages = context.messages;
        let owner = turn.cx.service::<dyn ContextWindow>().zip(turn.cx.service::<ContextId>());
        if let Some(why) = owner.and_then(|(window, context)| window.take_refusal(&context)) {
            let (provider, model) = (&*self.model.provider, &*self.model.id);
            let kind = ErrorKind::ContextExceeded;
            return Err(ProviderError::new(kind, provider, model, Phase::Request, why).into());
        }
        Ok(messages)
    }

    /// Builds the request from these messages: system prompt, tools, parameters.
    pub(crate) async fn build_request(
        &mut self,
        turn: &Turn,
        messages: &[Arc<Message>],
    ) -> Result<Request, AgentError> {
        let cx = &turn.cx;
        let (mut system, mut system_by) = (self.prompt.text.clone(), None);
        if cx.bus().has_listeners::<SystemTransform>() {
            let transform = SystemTransform::new(turn.id.clone(), turn.number, system);
            let transform = cx.emit(transform).await?;
            system_by = transform.rewritten_by().map(ToString::to_string);
            system = transform.system;
        }
        let thinking = decayed_request(self.thinking, self.behavior.thinking_decay.as_ref(), turn.number);
        let own = self.models.own.reference();
        let max_tokens = self.behavior.max_tokens.unwrap_or_else(|| default_output_limit(&self.models.own));
        let parameters = cx
            .emit(ProviderRequest {
                model: own.clone(),
                thinking,
                max_tokens: output_limit(max_tokens, thinking, &self.models.own),
                tool_choice: self.output.as_ref().map_or(ToolChoice::Auto, |output| output.tool_choice()),
            })
            .await?;
        self.choose_model(&own, &parameters.model, cx).await?;
        let provider = self.agent.provider_of(&self.model)?;
        let messages = self.toolbox.in_wire_names(messages);
        let history = WireReady::normalise(&messages, &provider.rules(&self.model));
        if !history.repairs().is_empty() {
            let repairs =
                || HistoryRepaired { turn_id: turn.id.clone(), repairs: history.repairs().to_vec() };
            cx.emit_with(repairs).await?;
        }
        let leaves_out_tools = self.output.as_ref().is_some_and(|output| output.leaves_out_tools());
        let (tools, tool_sources) = match leaves_out_tools {
            true => (Arc::default(), Arc::default()),
            false => (self.toolbox.specs(), self.toolbox.sources()),
        };
        let request = Request {
            model: self.model.clone(),
            system,
            tools,
            history,
            tool_choice: self.toolbox.wire_choice(parameters.tool_choice),
            output: self.output.as_ref().and_then(|output| output.output_format()),
            thinking: parameters.thinking,
            max_tokens: parameters.max_tokens,
            cache: self.behavior.cache.unwrap_or(true),
            session: self.session.as_ref().map(SessionId::shared),
        };
        let next = Next {
            turn: &turn.id,
            request: &request,
            sections: &self.prompt.sections,
            system_by,
            tool_sources,
            is_first: turn.number == 1,
            thinking_counts: provider.thinking_breaks_prefix(&self.model),
        };
        let broken = self.agent.state().prefix.compare_request(next);
        if let Some(broken) = broken {
            cx.emit(broken).await?;
        }
        Ok(request)
    }

    /// Applies changes of model and reasoning since the last turn. A turn for a structured output keeps its
    /// model.
    pub(crate) fn apply_chosen_model(&mut self) {
        if self.output.is_some() {
            return;
        }
        let (model, thinking) = {
            let state = self.agent.state();
            (state.model.clone(), state.thinking)
        };
        let (before, reasoned) = std::mem::replace(&mut self.models.chosen, (model.reference(), thinking));
        if thinking != reasoned {
            self.thinking = thinking;
        }
        if model.reference() != before {
            self.model = model.clone();
            self.models.own = model;
        }
    }

    /// Sets the model of the turn: the one that a plugin requested, or the run's own.
    async fn choose_model(&mut self, own: &ModelRef, asked: &ModelRef, cx: &Cx) -> Result<(), AgentError> {
        let found = if asked == own { None } else { self.agent.known_model(asked) };
        if found.is_none() && asked != own && self.models.unknown.as_ref() != Some(asked) {
            self.models.unknown = Some(asked.clone());
            let (kind, source) = (PartKind::Model, "run".to_owned());
            let error = format!("no provider here knows it; {own} answers");
            cx.emit(PartLeftOut { kind, name: asked.to_string(), source, error }).await?;
        }
        self.model = found.unwrap_or_else(|| self.models.own.clone());
        Ok(())
    }
}
