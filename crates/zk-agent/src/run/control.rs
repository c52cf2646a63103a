use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Instant;

use async_trait::async_trait;
use futures_util::future::{Either, select};
use futures_util::{FutureExt, StreamExt};
use zk_core::events::{Offer, PartKind, PartLeftOut, SideCallEnd, SteerKind};
use zk_core::kernel::{Cx, Source};
use zk_core::model::{
    AgentError, ErrorKind, Message, Model, Phase, ProviderError, RunId, ThinkingRequest, TurnId, TurnUsage,
    Usage, WireReady,
};
use zk_core::service::{
    CallPlace, ContextId, EventStream, PartFallback, PartModel, PartModels, Request, RunControl, RunEnded,
    RunState, RunTool, RunTools, SideAnswer, SideCall, StreamEvent, Tool, ToolChoice, UnknownTool,
    part_fallback,
};

use super::shared::RunShared;
use crate::ToolSet;
use crate::agent::AgentInner;
use crate::budget::{BudgetChain, Reservation, reserve_side_call};
use crate::turn::Attempts;
use crate::turn::output_limit;
use crate::turn::{Draft, unfinished_error};

/// Default output limit of a side call in tokens.
const SIDE_CALL_TOKENS: u32 = 1_024;

/// Services that a run provides to its handlers and tools.
pub(crate) struct Control {
    agent: Arc<AgentInner>,
    shared: Arc<RunShared>,
    model: Model,
    tools: ToolSet,
    budgets: BudgetChain,
    me: Weak<Self>,
}

impl Control {
    pub(crate) fn new(
        agent: Arc<AgentInner>,
        shared: Arc<RunShared>,
        model: Model,
        tools: ToolSet,
        budgets: BudgetChain,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self { agent, shared, model, tools, budgets, me: me.clone() })
    }

    /// Returns the context of the run with the services of the run.
    pub(crate) fn run_cx(self: Arc<Self>, context: ContextId) -> Cx {
        let cx = self.agent.bus.cx().for_run(self.shared.id.shared(), self.shared.stop.clone());
        cx.with_service::<dyn RunControl>(self.clone())
            .with_service::<dyn RunTools>(self)
            .with_service(Arc::new(context))
    }

    /// Returns the context of a side call, whose stop token is a child of the run's.
    fn side_call_cx(&self, turn: &TurnId) -> Cx {
        let stop = self.shared.stop.child_token();
        let cx = self.agent.bus.cx().for_run(self.shared.id.shared(), stop).for_turn(turn.shared());
        match self.me.upgrade() {
            Some(me) => cx.with_service::<dyn RunControl>(me),
            None => cx,
        }
    }

    /// Adds a side call's usage to the statistics, and announces it, if the provider counted any.
    async fn account_side_call(
        &self,
        (source, purpose, part): (&Source, String, Option<String>),
        turn: &TurnUsage,
        cx: &Cx,
    ) {
        if turn.usage == Usage::default() {
            return;
        }
        self.shared.stats().add_side_call(purpose.clone(), turn.clone());
        // The bus reports a failing observer; the answer of the side call stays valid.
        let _ = cx.emit(SideCallEnd { source: source.to_string(), purpose, part, usage: turn.clone() }).await;
    }
}

#[async_trait]
impl RunControl for Control {
    fn run_id(&self) -> RunId {
        self.shared.id.clone()
    }

    fn state(&self) -> RunState {
        let (turn, _) = self.shared.present_turn();
        let queues = self.shared.queues();
        RunState {
            turn,
            stopping: self.shared.stop.is_cancelled(),
            steering: queues.steer.len(),
            follow_ups: queues.follow_up.len(),
        }
    }

    fn steer(&self, message: Message) -> Result<(), RunEnded> {
        self.shared.queue(SteerKind::Steer, message)
    }

    fn follow_up(&self, message: Message) -> Result<(), RunEnded> {
        self.shared.queue(SteerKind::FollowUp, message)
    }

    fn next_prompt(&self, message: Message) {
        self.agent.state().next_prompt.push(message);
    }

    fn abort(&self, reason: &str) {
        self.shared.abort(Some(reason));
    }

    fn lose_session(&self) {
        self.shared.mark_fenced();
    }

    async fn side_call(&self, call: SideCall) -> Result<SideAnswer, AgentError> {
        let turn_id = self.shared.present_turn().1.unwrap_or_else(TurnId::fresh);
        let cx = self.side_call_cx(&turn_id);
        let (name, source) = (call.purpose.clone(), call.source.to_string());
        let answer = self.ask_for_part(call, &cx, turn_id).await;
        if let Err(error) = &answer
            && !matches!(error, AgentError::Aborted)
        {
            let (kind, error) = (PartKind::SideCall, error.to_string());
            // The error itself goes to the caller of the side call.
            let _ = cx.emit(PartLeftOut { kind, name, source, error }).await;
        }
        answer
    }
}

impl Control {
    /// Returns the context and directory in which tools declare their effects.
    fn place(&self) -> CallPlace {
        CallPlace { cx: self.agent.bus.cx(), cwd: ".".into() }
    }

    /// Sends a side call to the model of its part. A failure of that model is reported only if the part is
    /// left out, or the run's model fails too.
    async fn ask_for_part(&self, call: SideCall, cx: &Cx, turn_id: TurnId) -> Result<SideAnswer, AgentError> {
        if call.messages.is_empty() {
            let purpose = &call.purpose;
            return Err(AgentError::Usage(format!("the side call `{purpose}` has no message; give it one")));
        }
        let asked_for = call.part.clone();
        let begun = asked_for.as_deref().map(|part| self.agent.side_calls.optional.begin(part));
        let _in_progress = begun.transpose().map_err(AgentError::Usage)?;
        let part = asked_for.as_deref().filter(|_| call.model.is_none());
        let models = part.and_then(|part| Some((part, cx.service::<dyn PartModels>()?)));
        let Some((part, models)) = models else { return self.send_side_call(call, cx, turn_id).await };
        let model = match models.choose(part, cx).await {
            PartModel::OfRun => return self.send_side_call(call, cx, turn_id).await,
            PartModel::LeftOut(why) => return Err(AgentError::Usage(why)),
            PartModel::Own(model) => *model,
        };
        // A skipped attempt during the back-off is no new failure of the part's model.
        if let Some(error) = self.agent.side_calls.backoff.last_error_in_wait(&model.reference().to_string())
        {
            return match part_fallback(part) {
                PartFallback::RunModel => self.send_side_call(call, cx, turn_id).await,
                PartFallback::LeaveOut => Err(backoff_error(&error)),
            };
        }
        let own = SideCall { model: Some(model.clone()), ..call.clone() };
        let error = match self.send_side_call(own, cx, turn_id.clone()).await {
            Err(error) if concerns_model(&error) => error,
            answer => return answer,
        };
        match models.replace(part, &model, &error, cx).await {
            PartModel::OfRun => self.send_side_call(call, cx, turn_id).await,
            PartModel::Own(other) => {
                let call = SideCall { model: Some(*other), ..call };
                self.send_side_call(call, cx, turn_id).await
            }
            PartModel::LeftOut(_) => Err(error),
        }
    }

    async fn send_side_call(
        &self,
        call: SideCall,
        cx: &Cx,
        turn_id: TurnId,
    ) -> Result<SideAnswer, AgentError> {
        let SideCall { source, purpose, system, messages, part, model, max_tokens, limit, output } = call;
        let model = model.unwrap_or_else(|| self.model.clone());
        let name = model.reference().to_string();
        // Work of parts waits while its provider's back-off lasts; a request of a person does not.
        if let Some(error) =
            part.as_ref().and_then(|_| self.agent.side_calls.backoff.last_error_in_wait(&name))
        {
            return Err(backoff_error(&error));
        }
        let provider = self.agent.provider_of(&model)?;
        let messages: Vec<_> = messages.into_iter().map(Message::shared).collect();
        let thinking = ThinkingRequest::default();
        let output = output.filter(|output| provider.native_output(&model, &output.schema, false));
        let mut request = Request {
            history: WireReady::normalise(&messages, &provider.rules(&model)),
            system: system.into(),
            tools: Arc::from([]),
            tool_choice: ToolChoice::Auto,
            output,
            thinking,
            max_tokens: output_limit(max_tokens.unwrap_or(SIDE_CALL_TOKENS), thinking, &model),
            cache: false,
            session: None,
            model: model.clone(),
        };
        let reservation = reserve_side_call(&self.budgets, &mut request)?;
        let mut reading = AnswerReader::new(&model, reservation);
        let begun = Instant::now();
        let ended = {
            // The provider is called within the guarded future, so that its panic is caught.
            let asked = AssertUnwindSafe(async { reading.read(provider.stream(request, cx)).await });
            let read = pin!(asked.catch_unwind());
            let over = pin!(async {
                let stopped = pin!(cx.stop_token().cancelled());
                match select(stopped, pin!(tokio::time::sleep(limit))).await {
                    Either::Left(_) => AgentError::Aborted,
                    Either::Right(_) => {
                        let message = format!("no answer to the side call `{purpose}` within {limit:?}");
                        let (provider, id) = (&*model.provider, &*model.id);
                        let error =
                            ProviderError::new(ErrorKind::Stalled, provider, id, Phase::Stream, message);
                        ProviderError { elapsed: begun.elapsed(), ..error }.into()
                    }
                }
            });
            match select(read, over).await {
                Either::Left((ended, _)) => ended.unwrap_or_else(|_| Err(panic_error(&model).into())),
                Either::Right((error, _)) => Err(error),
            }
        };
        let total = reading.attempts.total();
        let usage = TurnUsage { turn_id, model: model.reference(), usage: total, cost: model.cost(&total) };
        self.account_side_call((&source, purpose, part), &usage, cx).await;
        self.agent.record_answer(&name, ended.as_ref().err());
        ended.map(|text| SideAnswer { text, usage })
    }
}

impl RunTools for Control {
    fn tools(&self) -> Vec<RunTool> {
        let unlocked = self.shared.unlocked().clone();
        let items = self.agent.bus.items::<dyn Tool>().into_iter();
        let place = self.place();
        items
            .filter(|item| self.tools.offers(&item.name, &*item.value, &place))
            .filter_map(|item| {
                let spec = self.agent.aliases.spec(&item.name, item.value.spec());
                let is_lazy = match self.shared.offer(&item.name, spec.disclosure) {
                    Offer::Always => false,
                    Offer::Lazy => true,
                    Offer::Never => return None,
                };
                let unlocked = !is_lazy || unlocked.contains(&*item.name);
                Some(RunTool { name: item.name, spec, is_lazy, unlocked })
            })
            .collect()
    }

    fn unlock(&self, name: &str) -> Result<(), UnknownTool> {
        let tool = self.agent.bus.item::<dyn Tool>(name);
        let tool = tool.filter(|tool| self.tools.offers(name, &**tool, &self.place()));
        let Some(tool) = tool else { return Err(UnknownTool { name: name.to_owned() }) };
        match self.shared.offer(name, tool.spec().disclosure) {
            Offer::Never => return Err(UnknownTool { name: name.to_owned() }),
            Offer::Always => {}
            Offer::Lazy => {
                self.shared.unlocked().insert(name.to_owned());
            }
        }
        Ok(())
    }

    fn counts(&self) -> Arc<BTreeMap<String, u32>> {
        Arc::new(self.shared.counts().clone())
    }

    fn count(&self, name: &str) {
        self.shared.count_call(name);
    }
}

/// Whether another model may succeed where a request failed with this error.
pub(crate) fn concerns_model(error: &AgentError) -> bool {
    match error {
        // A usage error may be a provider that is not registered, or an unknown price under a budget.
        AgentError::ContextExceeded(_) | AgentError::Provider(_) | AgentError::Usage(_) => true,
        AgentError::Aborted
        | AgentError::Hook(_)
        | AgentError::TurnLimit { .. }
        | AgentError::Budget { .. }
        | AgentError::Parked { .. }
        | AgentError::AwaitsTime { .. }
        | AgentError::HandedOver
        | AgentError::AwaitsChildren { .. }
        | AgentError::Fenced
        | AgentError::StoreFailed { .. }
        | AgentError::Stuck { .. }
        | AgentError::Unguarded { .. }
        | AgentError::Output(_) => false,
    }
}

/// Creates the error for a request that a part makes during the back-off after `failure`.
fn backoff_error(failure: &str) -> AgentError {
    AgentError::Usage(format!("not asked so soon after a failure: {failure}"))
}

/// Creates the error for a provider that panicked.
fn panic_error(model: &Model) -> ProviderError {
    let message = "the provider panicked";
    let error =
        ProviderError::new(ErrorKind::Malformed, &*model.provider, &*model.id, Phase::Stream, message);
    let hint = "That is a bug in the provider; run it again, or use another one";
    ProviderError { hint: Some(hint.to_owned()), ..error }
}

/// Answer to a side call that is being read, with its usage.
struct AnswerReader<'a> {
    draft: Draft,
    attempts: Attempts<'a>,
}

impl<'a> AnswerReader<'a> {
    fn new(model: &'a Model, reservation: Option<Reservation>) -> Self {
        Self { draft: Draft::default(), attempts: Attempts::new(model, reservation) }
    }

    /// Reads the stream to its end and returns the text.
    async fn read(&mut self, mut stream: EventStream) -> Result<String, AgentError> {
        while let Some(event) = stream.next().await {
            match event? {
                StreamEvent::Text { block, delta } => self.draft.add_text(block, &delta),
                StreamEvent::Block { block, content } => self.draft.finish(block, content),
                StreamEvent::Usage(usage) => self.attempts.set_usage(usage),
                StreamEvent::Retry(_) => {
                    self.draft = Draft::default();
                    self.attempts.begin_next()?;
                }
                StreamEvent::Done { stop, usage } => {
                    self.attempts.set_usage(usage);
                    let model = self.attempts.model().reference();
                    return Ok(std::mem::take(&mut self.draft).into_message(&model, stop).text());
                }
                StreamEvent::Start { .. }
                | StreamEvent::Thinking { .. }
                | StreamEvent::ToolCall { .. }
                | StreamEvent::ToolArgs { .. }
                | StreamEvent::Report(_) => {}
            }
        }
        Err(unfinished_error(&self.attempts.model().reference()).into())
    }
}
