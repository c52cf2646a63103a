//! Hooks of prompts and of beginning sessions.

use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::events::{
    AgentBeforeStart, BeforeStart, Input, InputReply, SessionLoaded, SessionStart, SessionSwitch,
};
use zk_core::kernel::{Answer, Cx, Handler, HookOptions, Scope};
use zk_core::model::Message;
use zk_core::service::RunControl;

use super::super::event::HookEvent;
use super::super::reply::Verdict;
use super::super::runner::Runner;
use super::super::session::Began;

pub(super) fn register(scope: &Scope, runner: &Arc<Runner>) {
    let prompts = Arc::new(Prompts(runner.clone()));
    let events = [HookEvent::SessionStart, HookEvent::UserPromptSubmit];
    let at = HookOptions { time_limit: runner.time_limit(&events), ..HookOptions::default() };
    if runner.set.hooks.iter().any(|hook| events.contains(&hook.event)) {
        scope.handle_at::<Input, _>(at, prompts.clone());
        scope.handle_at::<AgentBeforeStart, _>(at, prompts);
    }
    let session = runner.clone();
    scope.on_sync(move |loaded: &SessionLoaded, _: &Cx| {
        let mut state = session.session.state();
        state.id.clone_from(&loaded.session_id);
        if state.began == Some(Began::Startup) && !loaded.entries.is_empty() {
            state.began = Some(Began::Resume);
        }
    });
    let session = runner.clone();
    scope.on_sync(move |start: &SessionStart, _: &Cx| {
        session.session.state().id.clone_from(&start.session_id);
    });
    let at =
        HookOptions { time_limit: runner.time_limit(&[HookEvent::SessionEnd]), ..HookOptions::default() };
    scope.handle_at::<SessionSwitch, _>(at, Arc::new(Prompts(runner.clone())));
}

struct Prompts(Arc<Runner>);

impl Prompts {
    /// Runs the `SessionStart` hooks, once per conversation.
    async fn run_session_start(&self, cx: &Cx) {
        let began = {
            let mut state = self.0.session.state();
            state.is_begun = true;
            state.began.take()
        };
        let Some(source) = began.map(Began::name) else { return };
        let chosen = self.0.for_word(HookEvent::SessionStart, source);
        let answered = self.0.run(chosen, cx, |_| json!({"source": source})).await;
        self.0.report(&answered);
        for reply in answered.into_iter().filter_map(|(_, answer)| answer.ok()) {
            self.0.session.add_context(reply.context);
            if let (Some(reason), Some(run)) = (reply.stop, cx.service::<dyn RunControl>()) {
                run.abort(&format!("a hook stopped the run: {reason}"));
            }
        }
    }
}

impl Handler<Input> for Prompts {
    async fn call(&self, input: &Input, cx: &Cx) -> Answer<Input> {
        self.run_session_start(cx).await;
        let chosen = self.0.for_any(HookEvent::UserPromptSubmit);
        let answered = self.0.run(chosen, cx, |_| json!({"prompt": input.text})).await;
        let mut refused = None;
        let mut context = Vec::new();
        for (_, answer) in answered {
            let reason = match answer {
                Err(error) => Some(error.to_string()),
                Ok(reply) => {
                    context.extend(reply.context);
                    match reply.verdict {
                        Verdict::Block(reason) | Verdict::Ask(reason) => Some(reason),
                        Verdict::None | Verdict::Allow => reply.stop,
                    }
                }
            };
            refused = refused.or(reason);
        }
        if let Some(reason) = refused {
            (self.0.tell)(&format!("UserPromptSubmit operation blocked by hook: {reason}"));
            return Ok(Some(InputReply::Handled));
        }
        let run = cx.service::<dyn RunControl>();
        match run.filter(|run| run.state().turn > 0) {
            // The prompt steers a running run, which takes the context along with the text.
            Some(run) if !context.is_empty() => {
                let told = run.steer(Message::injected(format_context(&context), "hooks"));
                if told.is_err() {
                    context.into_iter().for_each(|context| self.0.session.add_context(Some(context)));
                }
            }
            Some(_) | None => {
                context.into_iter().for_each(|context| self.0.session.add_context(Some(context)));
            }
        }
        Ok(None)
    }
}

impl Handler<AgentBeforeStart> for Prompts {
    async fn call(&self, _: &AgentBeforeStart, cx: &Cx) -> Answer<AgentBeforeStart> {
        // A run that continues without a prompt has no input event.
        self.run_session_start(cx).await;
        let context = std::mem::take(&mut self.0.session.state().context);
        if context.is_empty() {
            return Ok(None);
        }
        let messages = vec![Message::injected(format_context(&context), "hooks")];
        Ok(Some(BeforeStart { messages, system: None }))
    }
}

/// Formats texts of hooks for the model.
fn format_context(context: &[String]) -> String {
    format!("Context from hooks of the user:\n{}", context.join("\n"))
}

impl Handler<SessionSwitch> for Prompts {
    async fn call(&self, switch: &SessionSwitch, cx: &Cx) -> Answer<SessionSwitch> {
        let (began, reason) =
            if switch.entries.is_empty() { (Began::Clear, "clear") } else { (Began::Resume, "resume") };
        run_session_end(&self.0, reason, cx).await;
        let mut state = self.0.session.state();
        state.id.clone_from(&switch.to);
        (state.began, state.is_begun) = (Some(began), false);
        state.context.clear();
        Ok(None)
    }
}

/// Runs the `SessionEnd` hooks, if the conversation had begun.
pub(super) async fn run_session_end(runner: &Runner, reason: &str, cx: &Cx) {
    if !std::mem::take(&mut runner.session.state().is_begun) {
        return;
    }
    let chosen = runner.for_word(HookEvent::SessionEnd, reason);
    let answered = runner.run(chosen, cx, |_| -> Value { json!({"reason": reason}) }).await;
    runner.report(&answered);
}
