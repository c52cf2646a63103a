use std::sync::Arc;

use serde_json::json;
use zk_core::kernel::Cx;
use zk_core::model::{CallId, CallKind, CheckItem, ErrorKind, Phase, ProviderError, StopReason, Usage};
use zk_core::service::{BlockWriter, Request, RunTools, StreamEvent, TurnCwd};

use crate::acp::agent::{
    AcpAgent, AgentFault, CANCEL_LIMIT, OpenSession, RunningAgent, absolute, sign_in_advice, with_words,
};
use crate::acp::prompt::{handed_over, prompt, said_since};
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

    /// Returns the next event; `None` behind the last one.
    pub(crate) async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        loop {
            if let Some(event) = self.answer.next_event() {
                return Some(event);
            }
            match &self.stage {
                Stage::Over => return None,
                Stage::Beginning => match self.begin().await {
                    Ok(()) => self.answer.start(),
                    Err(error) => self.fail(error),
                },
                Stage::Reading { session, running } => {
                    let (session, running) = (session.clone(), running.clone());
                    let item = session.next().await;
                    self.take(item, &running, &session);
                }
            }
        }
    }

    async fn begin(&mut self) -> Result<(), ProviderError> {
        let Some(tools) = self.cx.service::<dyn RunTools>() else {
            let why = format!("{} answers prompts of a conversation only", self.agent.name());
            return Err(self.error(ErrorKind::Rejected, why));
        };
        for kind in STEP_KINDS {
            // Steps whose tool is not allowed are shown as calls of an unknown tool.
            let _ = tools.unlock(&step_tool(kind));
        }
        self.agent.tell_unenforced(&self.cx);
        let cwd = TurnCwd::of(&self.cx).unwrap_or_else(|| absolute(".".as_ref()));
        let place = Place { cx: self.cx.clone(), cwd };
        let key = self.key();
        let history = self.request.history.messages();
        if let Some((running, session)) =
            self.agent.present(&key).await.filter(|(_, session)| session.is_open())
        {
            let takes = &running.answer.agent_capabilities.prompt_capabilities;
            if session.undelivered(said_since(history, takes)).is_empty() {
                session.follow(place);
                self.stage = Stage::Reading { running, session };
                return Ok(());
            }
            // A steering message: the agent gets it as its next prompt.
            AcpAgent::cancel(&running, &session);
            let _ = tokio::time::timeout(CANCEL_LIMIT * 2, session.settled()).await;
            session.forget();
        }
        let open = self.agent.session(&key, &place.cwd).await.map_err(|fault| self.fault(&fault))?;
        let chosen = self.agent.choose_model(&open, &self.request.model.id).await;
        chosen.map_err(|fault| self.fault(&fault))?;
        let OpenSession { running, session, is_new } = open;
        let said = said_since(history, &running.answer.agent_capabilities.prompt_capabilities);
        let earlier = if is_new { handed_over(history) } else { None };
        session.prompt(&running.peer, prompt(session.undelivered(said.clone()), earlier), place);
        session.note_delivered(said);
        self.stage = Stage::Reading { running, session };
        Ok(())
    }

    /// Key of the conversation: its session, and the agent within it.
    fn key(&self) -> String {
        let session = self.request.session.as_deref().unwrap_or_default();
        let origin = self.cx.origin();
        if origin.depth == 0 { session.to_owned() } else { format!("{session}/{}", origin.agent) }
    }

    fn take(&mut self, item: Item, running: &Arc<RunningAgent>, session: &Arc<AcpSession>) {
        match item {
            Item::Text(delta) => self.answer.add_text(delta),
            Item::Thought(delta) => self.answer.add_thinking(delta),
            item @ (Item::Step(_) | Item::Plan(_)) => {
                let mut next = Some(item);
                while let Some(item) = next {
                    self.call(item, running, session);
                    next = session.take_call();
                }
                session.answered();
                self.end(StopReason::ToolUse);
            }
            Item::End(Ok(stop)) => {
                session.answered();
                session.forget();
                self.end(stop);
            }
            Item::End(Err(failure)) => {
                session.forget();
                let error = self.failure(failure, running);
                self.fail(error);
            }
        }
    }

    fn call(&mut self, item: Item, running: &Arc<RunningAgent>, session: &Arc<AcpSession>) {
        let id = CallId::fresh();
        let (kind, args) = match item {
            Item::Step(step) => {
                let Some(now) = session.step(&step) else { return };
                let open = OpenStep { running: running.clone(), session: session.clone(), id: step.clone() };
                self.steps.add(id.clone(), open);
                (now.kind(), now.args(&step))
            }
            Item::Plan(items) => {
                let reshaped = session.is_other_plan(&items);
                (CallKind::Plan, plan_args(&items, reshaped))
            }
            Item::Text(_) | Item::Thought(_) | Item::End(_) => return,
        };
        self.answer.add_call(id, step_tool(kind), args);
    }

    fn end(&mut self, stop: StopReason) {
        self.answer.finish(stop, Usage::default());
        self.stage = Stage::Over;
    }

    fn fail(&mut self, error: ProviderError) {
        self.answer.fail(error);
        self.stage = Stage::Over;
    }

    fn failure(&self, failure: PromptFailure, running: &RunningAgent) -> ProviderError {
        match failure {
            PromptFailure::Cancelled => self.error(ErrorKind::Aborted, "it stopped".to_owned()),
            PromptFailure::SignIn(message) => {
                let methods = &running.answer.auth_methods;
                self.fault(&AgentFault::SignIn(sign_in_advice(&message, methods)))
            }
            PromptFailure::Gone(why) => self.fault(&AgentFault::Gone(with_words(&why, &running.peer))),
            PromptFailure::Refused(why) => self.error(ErrorKind::Rejected, why),
        }
    }

    fn fault(&self, fault: &AgentFault) -> ProviderError {
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
        self.error(kind, format!("the agent cannot go on: {fault}{next}"))
    }

    fn error(&self, kind: ErrorKind, message: String) -> ProviderError {
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
