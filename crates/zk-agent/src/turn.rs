use std::sync::Arc;

use zk_core::events::{
    BudgetExceeded, ContextTransform, HistoryRepaired, MessageEnd, MessagesCause, ProviderRequest,
    SessionOpenTurn, SystemTransform, TurnAfter, TurnBefore, UsageUpdate,
};
use zk_core::kernel::Cx;
use zk_core::model::{
    AgentError, Block, ErrorKind, Message, ModelRef, Phase, ProviderError, StopReason, TurnId, TurnUsage,
    Usage, WireReady,
};
use zk_core::service::{Provider, Request, ToolChoice};

use crate::driver::Driver;
use crate::sampling::{Sampled, sample};
use crate::thinking::{decayed, output_limit, usual_limit};
use crate::tools::Batch;

/// How often in a row a provider may pause its answer.
const MAX_PAUSES: usize = 32;

impl Driver {
    /// One model response with its tool results. Gives whether the model was done.
    pub(crate) async fn turn(&mut self, number: u32) -> Result<bool, AgentError> {
        let turn_id = TurnId::fresh();
        self.shared.begin_turn(number, turn_id.clone());
        let cx = self.cx.for_turn(turn_id.shared());
        let provider = self.agent.provider_of(&self.model)?;
        let messages = self.context(&cx, &turn_id).await?;
        let request = self.prepare(&cx, &turn_id, number, &*provider, &messages).await?;
        self.sent = messages;
        let model = self.model.reference();
        // From here on the turn has begun: whatever happens, `turn:after` follows.
        let before = TurnBefore {
            turn_id: turn_id.clone(),
            turn: number,
            model: model.clone(),
            messages: request.history.messages().len(),
            thinking: request.thinking,
        };
        if let Err(error) = cx.emit(before).await {
            return self.broke_off(&cx, turn_id, number, None, Usage::default(), error.into()).await;
        }
        let mut sampled = self.ask(&cx, &turn_id, &model, &*provider, request).await;
        // Nothing of an answer was seen, and nothing was paid: asking for less is no second turn.
        if let Sampled::Broken { message: None, error: AgentError::ContextExceeded(error), .. } = &sampled {
            match self.with_room(&cx, &turn_id, number, &*provider, error).await {
                Ok(Some(request)) => sampled = self.ask(&cx, &turn_id, &model, &*provider, request).await,
                Ok(None) => {}
                Err(error) => sampled = Sampled::Broken { message: None, usage: Usage::default(), error },
            }
        }
        match sampled {
            Sampled::Whole { message, usage, spoilt } => {
                let (message, failed) = self.settle(&cx, &turn_id, message).await;
                self.answered(&cx, turn_id, number, message, usage, spoilt.or(failed)).await
            }
            Sampled::Broken { message, usage, error } => {
                self.broke_off(&cx, turn_id, number, message, usage, error).await
            }
        }
    }

    async fn ask(
        &self,
        cx: &Cx,
        turn_id: &TurnId,
        model: &ModelRef,
        provider: &dyn Provider,
        request: Request,
    ) -> Sampled {
        let stream = provider.stream(request, cx);
        sample(stream, cx, turn_id, model, &self.agent.aliases, &self.shared).await
    }

    /// The messages to send, in canonical names.
    pub(crate) async fn context(&self, cx: &Cx, turn_id: &TurnId) -> Result<Vec<Arc<Message>>, AgentError> {
        let messages = self.agent.state().history.clone();
        if !cx.bus().has_listeners::<ContextTransform>() {
            return Ok(messages);
        }
        let context = ContextTransform { turn_id: turn_id.clone(), messages };
        Ok(cx.emit(context).await?.messages)
    }

    /// Everything else that is settled before the request: what is sent with them, and how.
    pub(crate) async fn prepare(
        &mut self,
        cx: &Cx,
        turn_id: &TurnId,
        number: u32,
        provider: &dyn Provider,
        messages: &[Arc<Message>],
    ) -> Result<Request, AgentError> {
        let mut system = self.system.clone();
        if cx.bus().has_listeners::<SystemTransform>() {
            let transform = SystemTransform { turn_id: turn_id.clone(), turn: number, system };
            system = cx.emit(transform).await?.system;
        }
        let thinking = decayed(self.thinking, self.behavior.thinking_decay.as_ref(), number);
        let max_tokens = self.behavior.max_tokens.unwrap_or_else(|| usual_limit(&self.model));
        let parameters = cx
            .emit(ProviderRequest {
                model: self.model.reference(),
                thinking,
                max_tokens: output_limit(max_tokens, thinking, &self.model),
                tool_choice: self.output.as_ref().map_or(ToolChoice::Auto, |output| output.choice()),
            })
            .await?;
        let messages = self.toolbox.in_wire_names(messages);
        let history = WireReady::normalise(&messages, &provider.rules(&self.model));
        if !history.repairs().is_empty() {
            let repairs =
                || HistoryRepaired { turn_id: turn_id.clone(), repairs: history.repairs().to_vec() };
            cx.emit_with(repairs).await?;
        }
        Ok(Request {
            model: self.model.clone(),
            system,
            tools: self.toolbox.specs(),
            history,
            tool_choice: self.toolbox.choice_to_wire(parameters.tool_choice),
            output: self.output.as_ref().and_then(|output| output.format()),
            thinking: parameters.thinking,
            max_tokens: parameters.max_tokens,
            cache: self.behavior.cache.unwrap_or(true),
            session: self.agent.session.as_ref().map(zk_core::model::SessionId::shared),
        })
    }

    /// The message after the handlers of `message:end`, and why the run has to stop if one of them failed.
    async fn settle(
        &self,
        cx: &Cx,
        turn_id: &TurnId,
        message: Message,
    ) -> (Arc<Message>, Option<AgentError>) {
        if !cx.bus().has_listeners::<MessageEnd>() {
            return (message.shared(), None);
        }
        match cx.emit(MessageEnd { turn_id: turn_id.clone(), message: message.clone() }).await {
            Ok(settled) => (settled.message.shared(), None),
            Err(_) if cx.is_stopped() => (message.shared(), None),
            Err(error) => (message.shared(), Some(error.into())),
        }
    }

    async fn answered(
        &mut self,
        cx: &Cx,
        turn_id: TurnId,
        number: u32,
        message: Arc<Message>,
        usage: Usage,
        spoilt: Option<AgentError>,
    ) -> Result<bool, AgentError> {
        let turn = self.account(&turn_id, usage);
        self.last = Some(message.clone());
        let why = spoilt.as_ref().map(ToString::to_string);
        let announced = self.announce_after(cx, &turn, number, Some(&message), why).await;
        let stop = message.stop.clone().unwrap_or(StopReason::EndTurn);
        let mut failure = spoilt.or(announced.err()).or_else(|| self.failure(stop.clone()));
        if failure.is_none() && message.calls().next().is_some() {
            failure = self.announce_open_turn(cx, &message, &turn).await.err();
        }
        if let Some(error) = failure {
            // Nobody will answer its calls.
            let message = without_calls(&message);
            self.commit(self.answer(message, Some(turn.clone()))).await?;
            self.announce_usage(cx, turn).await?;
            return self.go_on_after(cx, &turn_id, number, error).await;
        }
        if message.calls().next().is_none() {
            self.commit(self.answer(message.clone(), Some(turn.clone()))).await?;
            self.announce_usage(cx, turn).await?;
            return self.ask_for_output(cx, &message, stop).await;
        }
        let Batch { results, bytes, failure } = self.run_calls(cx, &turn_id, &message).await;
        let results = Message::user(results).shared();
        self.commit(self.pair(turn_id.clone(), message.clone(), results, turn.clone())).await?;
        self.announce_usage(cx, turn).await?;
        if let Some(error) = failure {
            return Err(error);
        }
        let nudges = std::mem::take(&mut self.shared.queues().nudges);
        if !nudges.is_empty() {
            self.commit(self.turns(nudges, MessagesCause::Harness)).await?;
        }
        let is_done = self.announce_output(cx, &message).await?;
        self.check_output_budget(cx, number, turn_id, bytes).await?;
        Ok(is_done)
    }

    /// The response failed or was stopped: what had arrived is kept, marked as such, and what it cost is counted.
    async fn broke_off(
        &mut self,
        cx: &Cx,
        turn_id: TurnId,
        number: u32,
        message: Option<Message>,
        usage: Usage,
        error: AgentError,
    ) -> Result<bool, AgentError> {
        let counted = (usage != Usage::default()).then(|| self.account(&turn_id, usage));
        let none = || TurnUsage { turn_id, model: self.model.reference(), usage, cost: None };
        let message = message.map(Message::shared);
        let turn = counted.clone().unwrap_or_else(none);
        self.announce_after(cx, &turn, number, None, Some(error.to_string())).await?;
        if let Some(counted) = &counted {
            self.announce_usage(cx, counted.clone()).await?;
        }
        if message.is_none() && self.leave_to_the_tool(&error)? {
            return Ok(false);
        }
        if let Some(message) = message {
            self.last = Some(message.clone());
            self.commit(self.answer(message, counted)).await?;
        }
        Err(error)
    }

    fn account(&self, turn_id: &TurnId, usage: Usage) -> TurnUsage {
        let cost = self.model.cost(&usage);
        let turn = TurnUsage { turn_id: turn_id.clone(), model: self.model.reference(), usage, cost };
        self.shared.stats().add_turn(turn.clone());
        turn
    }

    async fn announce_after(
        &self,
        cx: &Cx,
        turn: &TurnUsage,
        number: u32,
        message: Option<&Arc<Message>>,
        error: Option<String>,
    ) -> Result<(), AgentError> {
        let after = TurnAfter {
            turn_id: turn.turn_id.clone(),
            turn: number,
            usage: turn.usage,
            cost: turn.cost,
            message: message.cloned(),
            error,
            tool_counts: Arc::new(self.shared.counts().clone()),
        };
        Ok(cx.emit(after).await?)
    }

    /// Has an answer with calls kept before any of them runs.
    async fn announce_open_turn(
        &self,
        cx: &Cx,
        message: &Arc<Message>,
        turn: &TurnUsage,
    ) -> Result<(), AgentError> {
        let open = || SessionOpenTurn {
            run_id: self.shared.id.clone(),
            turn_id: turn.turn_id.clone(),
            message: message.clone(),
            usage: turn.clone(),
        };
        Ok(cx.emit_with(open).await?)
    }

    async fn announce_usage(&self, cx: &Cx, turn: TurnUsage) -> Result<(), AgentError> {
        let (total, cost) = {
            let stats = self.shared.stats();
            (stats.usage, stats.cost)
        };
        Ok(cx.emit(UsageUpdate { turn, total, cost }).await?)
    }

    async fn check_output_budget(
        &self,
        cx: &Cx,
        turn: u32,
        turn_id: TurnId,
        bytes: usize,
    ) -> Result<(), AgentError> {
        let Some(budget) = self.behavior.tool_output_budget.filter(|budget| bytes > *budget) else {
            return Ok(());
        };
        let text = format!(
            "The tool results of this turn were {bytes} bytes, over the budget of {budget}. \
             Write down what matters in them before calling more tools."
        );
        let message = Message::injected(text, "tool-output-budget").shared();
        self.commit(self.turns(vec![message], MessagesCause::Harness)).await?;
        Ok(cx.emit(BudgetExceeded { turn, turn_id, bytes, budget }).await?)
    }

    /// Whether a response that the provider paused may be gone on with: not for ever.
    pub(crate) fn go_on(&self) -> Result<(), AgentError> {
        let state = self.agent.state();
        let is_pause = |message: &&Arc<Message>| message.stop.as_ref().is_some_and(StopReason::is_pause);
        if state.history.iter().rev().take_while(is_pause).count() <= MAX_PAUSES {
            return Ok(());
        }
        let message = format!("the provider paused {} times in a row without an end", MAX_PAUSES + 1);
        let (provider, model) = (&*self.model.provider, &*self.model.id);
        let mut error = ProviderError::new(ErrorKind::Malformed, provider, model, Phase::Stream, message);
        error.hint = Some("Say `continue` to let it go on, or ask for less at once".to_owned());
        Err(error.into())
    }

    /// Why a run cannot go on from a response that ended like this, if it cannot.
    fn failure(&self, stop: StopReason) -> Option<AgentError> {
        let (kind, message, hint) = match stop {
            StopReason::EndTurn
            | StopReason::ToolUse
            | StopReason::MaxTokens
            | StopReason::StopSequence(_)
            | StopReason::PauseTurn
            | StopReason::Compaction
            | StopReason::Other(_) => return None,
            StopReason::Refusal(why) => (
                ErrorKind::Refused,
                why.unwrap_or_else(|| "the model refused to answer".to_owned()),
                "Ask differently, or use another model",
            ),
            StopReason::ContextExceeded => (
                ErrorKind::ContextExceeded,
                "the context window is full".to_owned(),
                "Start a new session, or use a model with a larger window",
            ),
            StopReason::Aborted | StopReason::Error => (
                ErrorKind::Malformed,
                format!("the provider calls a response complete that is not: it ended with `{stop}`"),
                "That is a bug in the provider; run it again, or use another one",
            ),
        };
        let model = &self.model;
        let mut error = ProviderError::new(kind, &*model.provider, &*model.id, Phase::Stream, message);
        error.hint = Some(hint.to_owned());
        Some(error.into())
    }
}

fn without_calls(message: &Arc<Message>) -> Arc<Message> {
    if message.calls().next().is_none() {
        return message.clone();
    }
    let mut message = Message::clone(message);
    message.content.retain(|block| !matches!(block, Block::ToolCall(_)));
    message.shared()
}
