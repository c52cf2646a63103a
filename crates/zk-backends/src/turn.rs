use std::sync::Arc;

use serde_json::json;
use zk_core::kernel::Cx;
use zk_core::model::{CallId, CallKind, CheckItem, ErrorKind, Phase, ProviderError, StopReason, Usage};
use zk_core::service::{BlockWriter, Request, RunTools, StreamEvent, TurnCwd};

use crate::acp::agent::{
    AcpAgent, AgentFault, CANCEL_LIMIT, OpenSession, RunningAgent, absolute_path, sign_in_advice,
    with_stderr_tail,
};
use crate::acp::prompt::{blocks_since_answer, earlier_conversation, prompt_blocks};
use crate::acp::session::{AcpSession, Item, Place, PromptFailure};
use crate::acp::step::{STEP_KINDS, step_tool};
use crate::steps::{OpenStep, OpenSteps};

/// One response of an agent, up to its next tool calls or the end of its turn. Dropping it earlier stops the
/// agent.
pub(crate) struct Turn {
    agent: Arc<AcpAgent>,
    steps: Arc<OpenSteps>,
    request: Request,
    cx: Cx,
    stage: Stage,
    answer: BlockWriter,
}

enum Stage {
    Beginning,
    Reading { running: Arc<RunningAgent>, session: Arc<AcpSession> },
    Over,
}

impl Turn {
    pub(crate) fn new(agent: Arc<AcpAgent>, steps: Arc<OpenSteps>, request: Request, cx: Cx) -> Self {
        let answer = BlockWriter::new(Some(request.model.reference()));
        Self { agent, steps, request, cx, stage: Stage::Beginning, answer }
    }

    /// Returns the next event; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        loop {
            if let Some(event) = self.answer.next_event() {
                return Some(event);
            }
            match &self.stage {
                Stage::Over => return None,
                Stage::Beginning => match self.begin_prompt().await {
                    Ok(()) => self.answer.start(),
                    Err(error) => self.fail_turn(error),
                },
                Stage::Reading { session, running } => {
                    let (session, running) = (session.clone(), running.clone());
                    let item = session.next().await;
                    self.handle_item(item, &running, &session);
                }
            }
        }
    }

    async fn begin_prompt(&mut self) -> Result<(), ProviderError> {
        let Some(tools) = self.cx.service::<dyn RunTools>() else {
            let why = format!("{} answers prompts of a conversation only", self.agent.name());
            return Err(self.provider_error(ErrorKind::Rejected, why));
        };
        for kind in STEP_KINDS {
            // Steps whose tool is not allowed are shown as calls of an unknown tool.
            let _ = tools.unlock(&step_tool(kind));
        }
        self.agent.show_limits_once(&self.cx);
        let cwd = TurnCwd::of(&self.cx).unwrap_or_else(|| absolute_path(".".as_ref()));
        let place = Place { cx: self.cx.clone(), cwd };
        let key = self.key();
        let history = self.request.history.messages();
        if let Some((running, session)) =
            self.agent.find_session(&key).await.filter(|(_, session)| session.has_open_prompt())
        {
            let takes = &running.answer.agent_capabilities.prompt_capabilities;
            if session.without_delivered(blocks_since_answer(history, takes)).is_empty() {
                session.set_place(place);
                self.stage = Stage::Reading { running, session };
                return Ok(());
            }
            // New messages steer the agent: its prompt is cancelled, and they are the next prompt.
            AcpAgent::cancel(&running, &session);
            let _ = tokio::time::timeout(CANCEL_LIMIT * 2, session.wait_for_prompt_end()).await;
            session.discard_prompt();
        }
        let open =
            self.agent.open_session(&key, &place.cwd).await.map_err(|fault| self.agent_error(&fault))?;
        let chosen = self.agent.choose_model(&open, &self.request.model.id).await;
        chosen.map_err(|fault| self.agent_error(&fault))?;
        let OpenSession { running, session, is_new } = open;
        let said = blocks_since_answer(history, &running.answer.agent_capabilities.prompt_capabilities);
        let earlier = if is_new { earlier_conversation(history) } else { None };
        session.prompt(&running.peer, prompt_blocks(session.without_delivered(said.clone()), earlier), place);
        session.store_delivered(said);
        self.stage = Stage::Reading { running, session };
        Ok(())
    }

    /// Key of the conversation: the session id, followed by the agent's name for a sub-agent.
    fn key(&self) -> String {
        let session = self.request.session.as_deref().unwrap_or_default();
        let origin = self.cx.origin();
        if origin.depth == 0 { session.to_owned() } else { format!("{session}/{}", origin.agent) }
    }

    fn handle_item(&mut self, item: Item, running: &Arc<RunningAgent>, session: &Arc<AcpSession>) {
        match item {
            Item::Text(delta) => self.answer.add_text(delta),
            Item::Thought(delta) => self.answer.add_thinking(delta),
            item @ (Item::Step(_) | Item::Plan(_)) => {
                let mut next = Some(item);
                while let Some(item) = next {
                    self.add_step_call(item, running, session);
                    next = session.take_step_or_plan();
                }
                session.clear_delivered();
                self.end_turn(StopReason::ToolUse);
            }
            Item::End(Ok(stop)) => {
                session.clear_delivered();
                session.discard_prompt();
                self.end_turn(stop);
            }
            Item::End(Err(failure)) => {
                session.discard_prompt();
                let error = self.prompt_error(failure, running);
                self.fail_turn(error);
            }
        }
    }

    fn add_step_call(&mut self, item: Item, running: &Arc<RunningAgent>, session: &Arc<AcpSession>) {
        let id = CallId::fresh();
        let (kind, args) = match item {
            Item::Step(step) => {
                let Some(now) = session.current_step(&step) else { return };
                let open = OpenStep { running: running.clone(), session: session.clone(), id: step.clone() };
                self.steps.add(id.clone(), open);
                (now.kind(), now.args(&step))
            }
            Item::Plan(items) => {
                let reshaped = session.has_changed_items(&items);
                (CallKind::Plan, plan_args(&items, reshaped))
            }
            Item::Text(_) | Item::Thought(_) | Item::End(_) => return,
        };
        self.answer.add_call(id, step_tool(kind), args);
    }

    fn end_turn(&mut self, stop: StopReason) {
        self.answer.finish(stop, Usage::default());
        self.stage = Stage::Over;
    }

    fn fail_turn(&mut self, error: ProviderError) {
        self.answer.fail(error);
        self.stage = Stage::Over;
    }

    fn prompt_error(&self, failure: PromptFailure, running: &RunningAgent) -> ProviderError {
        match failure {
            PromptFailure::Cancelled => self.provider_error(ErrorKind::Aborted, "it stopped".to_owned()),
            PromptFailure::SignIn(message) => {
                let methods = &running.answer.auth_methods;
                self.agent_error(&AgentFault::SignIn(sign_in_advice(&message, methods)))
            }
            PromptFailure::Gone(why) => {
                self.agent_error(&AgentFault::Gone(with_stderr_tail(&why, &running.peer)))
            }
            PromptFailure::Refused(why) => self.provider_error(ErrorKind::Rejected, why),
        }
    }

    fn agent_error(&self, fault: &AgentFault) -> ProviderError {
        let kind = match fault {
            AgentFault::Gone(_) => ErrorKind::Transport,
            AgentFault::SignIn(_) => ErrorKind::Auth,
            AgentFault::Protocol(_) => ErrorKind::Malformed,
        };
        let next = match fault {
            AgentFault::SignIn(_) => String::new(),
            AgentFault::Gone(_) | AgentFault::Protocol(_) => {
                let name = self.agent.name();
                format!(". The next prompt starts {name} again; /backend goes on with another agent")
            }
        };
        self.provider_error(kind, format!("the agent cannot go on: {fault}{next}"))
    }

    fn provider_error(&self, kind: ErrorKind, message: String) -> ProviderError {
        ProviderError::new(kind, self.agent.name(), &*self.request.model.id, Phase::Stream, message)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Stage::Reading { running, session } = &self.stage {
            AcpAgent::cancel(running, session);
        }
    }
}

fn plan_args(items: &[CheckItem], reshaped: bool) -> serde_json::Value {
    json!({ "items": items, "reshaped": reshaped })
}
