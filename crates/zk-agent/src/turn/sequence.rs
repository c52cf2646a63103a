use std::sync::Arc;

use zk_core::events::{MessageEnd, MessagesCause, TurnBefore};
use zk_core::kernel::Cx;
use zk_core::model::{AgentError, Block, Message, StopReason, TurnId, TurnUsage, Usage};
use zk_core::service::{OpenTurn, Provider, Request, TurnCwd};

use super::attempts::Attempts;
use super::sampling::{Sampled, read_response};
use crate::run::RunState;
use crate::tools::{Batch, ask_to_go_on, run_calls};

/// Identity and context of the current turn.
pub(crate) struct Turn {
    pub(crate) id: TurnId,
    /// Number of the turn, from 1.
    pub(crate) number: u32,
    pub(crate) cx: Cx,
}

impl RunState {
    /// Performs one turn: a response, and the results of its tool calls. Returns whether the model was done.
    pub(crate) async fn turn(&mut self, number: u32) -> Result<bool, AgentError> {
        let turn = self.begin_turn(number, TurnId::fresh());
        self.refresh_tools(&turn).await?;
        let messages = self.build_messages(&turn).await?;
        let mut request = self.build_request(&turn, &messages).await?;
        let provider = self.agent.provider_of(&self.model)?;
        self.sent = messages;
        let reservation = self.reserve(&turn, &mut request).await?;
        // From here on the turn counts as begun, so that `turn:after` follows in any case.
        let before = TurnBefore {
            turn_id: turn.id.clone(),
            turn: number,
            model: self.model.reference(),
            messages: request.history.messages().len(),
            thinking: request.thinking,
        };
        if let Err(error) = turn.cx.emit(before).await {
            return self.handle_broken_answer(turn, None, Usage::default(), error.into()).await;
        }
        let model = self.model.clone();
        let (bytes, max_tokens) = (self.spending.budgets.measure_request(&request), request.max_tokens);
        let mut attempts = Attempts::new(&model, reservation);
        let mut sampled = self.request_answer(&turn, &*provider, request, &mut attempts).await;
        // No part of the answer has arrived, so that a request with fewer messages belongs to the same turn.
        if let Sampled::Broken { message: None, error: AgentError::ContextExceeded(error), .. } = &sampled {
            match self.reduced_request(&turn, error).await {
                Ok(Some(smaller)) => match attempts.begin_next() {
                    Ok(()) => {
                        let request = Request { max_tokens: smaller.max_tokens.min(max_tokens), ..smaller };
                        sampled = self.request_answer(&turn, &*provider, request, &mut attempts).await;
                    }
                    Err(error) => sampled = Sampled::Broken { message: None, usage: attempts.total(), error },
                },
                Ok(None) => {}
                Err(error) => sampled = Sampled::Broken { message: None, usage: attempts.total(), error },
            }
        }
        self.spending.estimator.record_count(bytes, &attempts.total());
        // Dropping the attempts releases the reservation, because sub-agents need the rest of the budget.
        drop(attempts);
        match sampled {
            Sampled::Whole { message, usage, spoilt } => {
                let (message, failed) = self.finish_message(&turn, message).await;
                self.handle_answer(turn, message, usage, spoilt.or(failed)).await
            }
            Sampled::Broken { message, usage, error } => {
                self.handle_broken_answer(turn, message, usage, error).await
            }
        }
    }

    /// Fixes the directory, the environment and the model of a turn.
    fn begin_turn(&mut self, number: u32, id: TurnId) -> Turn {
        self.shared.begin_turn(number, id.clone());
        let env = {
            let state = self.agent.state();
            self.cwd.clone_from(&state.cwd);
            state.env.clone()
        };
        self.apply_chosen_model();
        let cwd = Arc::new(TurnCwd(self.cwd.clone()));
        Turn { cx: self.cx.for_turn(id.shared()).with_service(env).with_service(cwd), id, number }
    }

    async fn request_answer(
        &self,
        turn: &Turn,
        provider: &dyn Provider,
        request: Request,
        attempts: &mut Attempts<'_>,
    ) -> Sampled {
        let stream = provider.stream(request, &turn.cx);
        read_response(stream, &turn.cx, &turn.id, attempts, &self.agent.aliases, &self.shared).await
    }

    /// Passes the message through handlers of `message:end`; returns it, with the error if one failed.
    async fn finish_message(&self, turn: &Turn, message: Message) -> (Arc<Message>, Option<AgentError>) {
        if !turn.cx.bus().has_listeners::<MessageEnd>() {
            return (message.shared(), None);
        }
        match turn.cx.emit(MessageEnd { turn_id: turn.id.clone(), message: message.clone() }).await {
            Ok(settled) => (settled.message.shared(), None),
            Err(_) if turn.cx.is_stopped() => (message.shared(), None),
            Err(error) => (message.shared(), Some(error.into())),
        }
    }

    /// Handles a complete response: adds it to the conversation, with the results of its calls if it has any.
    async fn handle_answer(
        &mut self,
        turn: Turn,
        message: Arc<Message>,
        usage: Usage,
        spoilt: Option<AgentError>,
    ) -> Result<bool, AgentError> {
        let usage = self.account_usage(&turn, usage);
        self.last = Some(message.clone());
        let has_calls = message.calls().next().is_some();
        let why = spoilt.as_ref().map(ToString::to_string);
        let announced = self.announce_after(&turn, &usage, Some(&message), why).await;
        let stop = message.stop.clone().unwrap_or(StopReason::EndTurn);
        let mut failure = spoilt.or(announced.err()).or_else(|| self.failure_of(stop.clone()));
        if failure.is_none() && has_calls {
            failure = self.announce_open_turn(&turn, &message, &usage).await.err();
        }
        if let Some(error) = failure {
            if self.is_store_lost(&error) {
                return Err(error);
            }
            // The calls of this answer are not run.
            self.commit(self.answer_commit(without_calls(&message), Some(usage.clone()))).await?;
            self.announce_usage(&turn, usage).await?;
            return self.make_room_after(&turn, error).await;
        }
        if !has_calls {
            self.commit(self.answer_commit(message.clone(), Some(usage.clone()))).await?;
            self.announce_usage(&turn, usage).await?;
            return self.ask_for_output(&turn.cx, &message, stop).await;
        }
        self.close_turn(turn, message, usage, None).await
    }

    /// Finishes a turn that an earlier leg of the run began: calls with a stored result keep it, and the
    /// others are run.
    pub(crate) async fn finish_open_turn(&mut self, number: u32, open: OpenTurn) -> Result<bool, AgentError> {
        let turn = self.begin_turn(number, open.turn_id.clone());
        self.refresh_tools(&turn).await?;
        let (message, usage) = (open.message.clone(), open.usage.clone());
        self.last = Some(message.clone());
        self.close_turn(turn, message, usage, Some(&open)).await
    }

    /// Runs the calls of a stored answer and adds it to the conversation with its results.
    async fn close_turn(
        &mut self,
        turn: Turn,
        message: Arc<Message>,
        usage: TurnUsage,
        open: Option<&OpenTurn>,
    ) -> Result<bool, AgentError> {
        let batch = run_calls(self.call_context(&turn.cx), &message, open).await;
        let Batch { results, bytes, failure, left_open } = batch;
        if let Some(left_open) = left_open {
            if open.is_none() {
                self.announce_usage(&turn, usage).await?;
            }
            return Err(Box::pin(self.leave_open(&turn, left_open, failure)).await);
        }
        let results = Message::user(results).identified().shared();
        self.commit(self.pair_commit(turn.id.clone(), message.clone(), results, usage.clone())).await?;
        if open.is_none() {
            self.announce_usage(&turn, usage).await?;
        }
        if let Some(error) = failure
            && !ask_to_go_on(&error, &turn.cx, &self.calls).await
        {
            return Err(if self.shared.stop.is_cancelled() { AgentError::Aborted } else { error });
        }
        let nudges = std::mem::take(&mut self.shared.queues().nudges);
        if !nudges.is_empty() {
            self.commit(self.messages_commit(nudges, MessagesCause::Harness)).await?;
        }
        let is_done = self.announce_output(&turn.cx, &message).await?;
        self.check_output_budget(&turn, bytes).await?;
        Ok(is_done)
    }

    /// Handles a response that failed or was stopped: keeps the partial message, marked as such, and counts
    /// its usage.
    async fn handle_broken_answer(
        &mut self,
        turn: Turn,
        message: Option<Message>,
        usage: Usage,
        error: AgentError,
    ) -> Result<bool, AgentError> {
        let counted = (usage != Usage::default()).then(|| self.account_usage(&turn, usage));
        let none =
            || TurnUsage { turn_id: turn.id.clone(), model: self.model.reference(), usage, cost: None };
        let usage = counted.clone().unwrap_or_else(none);
        self.announce_after(&turn, &usage, None, Some(error.to_string())).await?;
        if let Some(counted) = &counted {
            self.announce_usage(&turn, counted.clone()).await?;
        }
        // Another worker requests the answer again, so that this part of it does not join the conversation.
        let message = message.filter(|_| !self.is_leaving() && !self.is_store_lost(&error));
        let Some(message) = message.map(Message::shared) else {
            // The usage was billed, although no message joins the history.
            if let Some(counted) = counted {
                self.commit(self.usage_commit(counted)).await?;
            }
            return if self.fall_back_to_tool(&error) { Ok(false) } else { Err(error) };
        };
        self.last = Some(message.clone());
        self.commit(self.answer_commit(message, counted)).await?;
        Err(error)
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
