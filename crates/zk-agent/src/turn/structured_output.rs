use zk_core::events::{MessagesCause, OutputReady};
use zk_core::kernel::Cx;
use zk_core::model::{AgentError, ErrorKind, Message, StopReason};

use crate::run::RunState;
use crate::turn::{OUTPUT_TOOL, OutputTool};

impl RunState {
    /// Announces the structured output, if a call of the batch gave it. Returns whether one did, which ends
    /// the run.
    pub(crate) async fn announce_output(&self, cx: &Cx, message: &Message) -> Result<bool, AgentError> {
        let Some(tool) = &self.output else { return Ok(false) };
        if let Some(output) = tool.take_news() {
            cx.emit(OutputReady { output, schema: tool.schema().clone() }).await?;
            return Ok(true);
        }
        let tried = message.calls().any(|call| call.name == OUTPUT_TOOL);
        if tried && !cx.is_stopped() && tool.note_failed_call() {
            return Err(AgentError::Output(
                "none of the outputs the model gave follows the schema; they are in the history".into(),
            ));
        }
        Ok(false)
    }

    /// Decides at the end of the model's answer whether the run is done. If structured output is missing,
    /// requests it: without tools, if the provider enforces the schema only then, or else by forcing a call
    /// of the output tool.
    pub(crate) async fn ask_for_output(
        &self,
        cx: &Cx,
        message: &Message,
        stop: StopReason,
    ) -> Result<bool, AgentError> {
        if stop.is_pause() {
            return self.check_pauses().map(|()| false);
        }
        if let Some(output) = self.output.as_ref().filter(|output| output.is_native()) {
            return self.take_output(cx, output, message, stop).await;
        }
        let Some(output) = self.output.as_ref().filter(|output| output.value().is_none()) else {
            return Ok(true);
        };
        if output.try_without_tools(&*self.agent.provider_of(&self.model)?, &self.model) {
            self.agent.state().prefix.note_tools();
            let schema = output.answer_schema();
            let text = format!("Give the final answer now: JSON alone, that follows this schema: {schema}");
            let message = Message::injected(text, "output").shared();
            self.commit(self.messages_commit(vec![message], MessagesCause::Harness)).await?;
            return Ok(false);
        }
        self.ask_for_call(output, "").await
    }

    /// Forces a call of the output tool in the next request, with `why` in the message. Returns true if no
    /// attempt is left.
    async fn ask_for_call(&self, output: &OutputTool, why: &str) -> Result<bool, AgentError> {
        let due = output.force_call();
        if due {
            let name = self.agent.aliases.wire(OUTPUT_TOOL);
            let message =
                Message::injected(format!("{why}Give the final answer by calling `{name}`."), "output");
            self.commit(self.messages_commit(vec![message.shared()], MessagesCause::Harness)).await?;
        }
        Ok(!due)
    }

    /// Takes the answer as the output, or requests it again if it is invalid.
    async fn take_output(
        &self,
        cx: &Cx,
        output: &OutputTool,
        message: &Message,
        stop: StopReason,
    ) -> Result<bool, AgentError> {
        let why = match output.take_answer(message) {
            Ok(()) => {
                if !output.is_native() {
                    self.agent.state().prefix.note_tools();
                }
                return self.announce_output(cx, message).await;
            }
            Err(_) if stop == StopReason::MaxTokens => "it was cut at the output limit".to_owned(),
            Err(why) => why,
        };
        if output.note_rejection() {
            return match output.value() {
                // The output exists already, and a later steering message requires no new one.
                Some(_) => Ok(true),
                None => Err(AgentError::Output(format!(
                    "none of the answers follows the schema; they are in the history. Of the last one: {why}"
                ))),
            };
        }
        let why = format!("The answer does not follow the schema: {why}. ");
        if output.leaves_out_tools() {
            // The server ignores the output format, but may support tools.
            output.stop_native();
            self.agent.state().prefix.note_tools();
            return self.ask_for_call(output, &why).await;
        }
        let text = format!("{why}Give the whole answer again.");
        let message = Message::injected(text, "output").shared();
        self.commit(self.messages_commit(vec![message], MessagesCause::Harness)).await?;
        Ok(false)
    }

    /// Falls back to the output tool after an error, because a provider may reject a schema that it claims to
    /// support, such as one too large to compile. Returns whether it fell back.
    pub(crate) fn fall_back_to_tool(&mut self, error: &AgentError) -> bool {
        let is_rejected = matches!(error, AgentError::Provider(error) if error.kind == ErrorKind::Rejected);
        let Some(output) = self.output.clone().filter(|output| is_rejected && output.is_native()) else {
            return false;
        };
        output.stop_native();
        self.agent.state().prefix.note_tools();
        self.toolbox.add_output(output);
        true
    }
}
