use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;
use zk_core::events::{Ruling, ToolGate};
use zk_core::kernel::{Answer, BoxError, Cx, Handler, HookOptions, Plugin, Scope, Stage};
use zk_core::service::CallGuard;

use super::ANSWER_TIMEOUT;

/// Call that a function is asked about.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AskedCall {
    /// Canonical name of the tool.
    pub tool: String,
    /// Final arguments of the call.
    pub args: Value,
    /// Summary of what the call will do, in one line.
    pub summary: String,
}

type Asking = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Gate that asks a function instead of a person.
struct Callback {
    ask: Arc<dyn Fn(AskedCall) -> Asking + Send + Sync>,
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callback").finish_non_exhaustive()
    }
}

/// Creates a gate that runs a call if `ask` says yes. Calls that only read run without being asked about.
///
/// It applies to its agent and all descendants. A panic, or no answer within ten minutes, is a no. For modes, rules
/// and choices that are remembered there is the [`PermissionGate`](crate::PermissionGate).
///
/// ```
/// use zk_core::kernel::Bus;
/// use zk_permission::allow_if;
///
/// let bus = Bus::new();
/// bus.install(&allow_if(|call| async move { call.tool == "write_file" })).unwrap();
/// ```
pub fn allow_if<F>(ask: impl Fn(AskedCall) -> F + Send + Sync + 'static) -> impl Plugin + fmt::Debug
where
    F: Future<Output = bool> + Send + 'static,
{
    Callback { ask: Arc::new(move |call| Box::pin(ask(call))) }
}

impl Plugin for Callback {
    fn name(&self) -> &'static str {
        "allow-if"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let last = HookOptions { time_limit: Some(ANSWER_TIMEOUT), ..HookOptions::from(Stage::Late) };
        scope.handle_at::<ToolGate, _>(last, Arc::new(Self { ask: self.ask.clone() }));
        scope.provide_service(Arc::new(CallGuard));
        Ok(())
    }
}

impl Handler<ToolGate> for Callback {
    async fn call(&self, gate: &ToolGate, _: &Cx) -> Answer<ToolGate> {
        let undecided = gate.tool.as_ref().filter(|_| !gate.is_decided() && !gate.effects.is_read_only());
        let Some(tool) = undecided else { return Ok(None) };
        let tool_name = gate.call.name.to_string();
        let summary = catch_unwind(AssertUnwindSafe(|| tool.summary(&gate.args)));
        let summary = summary.unwrap_or_else(|_| tool_name.clone());
        let call = AskedCall { tool: tool_name, args: gate.args.clone(), summary };
        let is_allowed = (self.ask)(call).await;
        Ok((!is_allowed).then(|| Ruling::refuse("it was not allowed to run")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zk_core::events::{CallRef, Decision};
    use zk_core::kernel::Bus;
    use zk_core::model::{Approved, Effects, ToolError, ToolOutput, ToolSpec};
    use zk_core::service::{CallPlace, Tool, ToolCx};

    use super::*;

    #[derive(Debug)]
    struct Writes(Arc<ToolSpec>);

    #[async_trait::async_trait]
    impl Tool for Writes {
        fn spec(&self) -> &Arc<ToolSpec> {
            &self.0
        }

        async fn call(&self, _: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
            Ok(ToolOutput::text("done"))
        }

        fn effects(&self, args: &Value, _: &CallPlace) -> Effects {
            if args["reads"] == true { Effects::none() } else { Effects::Unknown }
        }
    }

    #[tokio::test]
    async fn a_call_that_does_more_than_read_runs_if_the_function_says_yes() {
        let bus = Bus::new();
        bus.install(&allow_if(|call| async move {
            assert_ne!(call.args["path"], "panic");
            call.args["path"] == "a"
        }))
        .unwrap();
        assert!(bus.service::<CallGuard>().is_some());
        for (args, runs) in [
            (json!({ "path": "a" }), Some(true)),
            (json!({ "path": "b" }), Some(false)),
            (json!({ "path": "b", "reads": true }), Some(true)),
            (json!({ "path": "panic" }), None),
        ] {
            let (turn_id, call_id) = ("t_1".into(), "call_1".into());
            let call = CallRef { turn_id, call_id, name: "write".into(), display_name: "write".into() };
            let place = CallPlace { cx: bus.cx(), cwd: ".".into() };
            let tool = Arc::new(Writes(ToolSpec::new("write", "Writes.", json!({ "type": "object" }))));
            let gate = bus.cx().emit(ToolGate::new(Arc::new(call), args.clone(), Some(tool), place)).await;
            let decided = gate.ok().map(|gate| !matches!(gate.decision, Some(Decision::Refuse { .. })));
            assert_eq!(decided, runs, "{args}");
        }
    }
}
