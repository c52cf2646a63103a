use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zk_core::events::{Ruling, ToolGate};
use zk_core::kernel::{Answer, BoxError, Cx, Handler, HookOptions, Plugin, Reach, Scope, Stage};
use zk_core::service::{Question, Tool, Ui, UiAnswer};

/// How long a person is waited for.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// Decides which calls may run: of this agent and of all its sub-agents.
///
/// Calls that are read-only always may. The others may if everything is allowed, or if the person at the
/// terminal says so. Where nobody can be asked they are refused, and the refusal says how to allow them.
#[derive(Clone, Debug)]
pub struct Permission {
    mode: PermissionMode,
}

/// What may run without being asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PermissionMode {
    /// Calls that are read-only.
    #[default]
    ReadOnly,
    /// Every call.
    All,
}

impl Permission {
    /// The policy of this mode.
    #[must_use]
    pub fn new(mode: PermissionMode) -> Self {
        Self { mode }
    }
}

impl Plugin for Permission {
    fn name(&self) -> &str {
        "permission"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        if self.mode == PermissionMode::ReadOnly {
            let at = HookOptions {
                stage: Stage::Early,
                reach: Reach::Descendants,
                time_limit: Some(PATIENCE),
            };
            scope.handle_at::<ToolGate, _>(at, Arc::new(Gate::default()));
        }
        Ok(())
    }
}

#[derive(Default)]
struct Gate {
    /// Tools the person allowed for as long as this process lives.
    always: Mutex<BTreeSet<String>>,
    /// One question at a time: calls that are gated together wait for each other.
    asking: tokio::sync::Mutex<()>,
}

impl Gate {
    fn is_allowed(&self, tool: &str) -> bool {
        self.always.lock().unwrap_or_else(PoisonError::into_inner).contains(tool)
    }

    fn allow(&self, tool: &str) {
        self.always.lock().unwrap_or_else(PoisonError::into_inner).insert(tool.to_owned());
    }
}

impl Handler<ToolGate> for Gate {
    async fn call(&self, gate: &ToolGate, cx: &Cx) -> Answer<ToolGate> {
        let name = &gate.call.name;
        // What is no registered tool cannot do anything; the loop answers such calls itself.
        let Some(tool) = cx.item::<dyn Tool>(name) else { return Ok(None) };
        if gate.is_decided() || tool.read_only(&gate.args) || self.is_allowed(name) {
            return Ok(None);
        }
        let person = cx.get::<dyn Ui>().filter(|ui| ui.is_interactive());
        let Some(person) = person else {
            return Ok(Some(Ruling::Refuse(format!(
                "`{}` is not read-only, and nobody is here to allow it. \
                 Start zk with --allow-all to run every tool, or on a terminal to be asked.",
                gate.call.display_name
            ))));
        };
        let _turn = self.asking.lock().await;
        if self.is_allowed(name) {
            return Ok(None);
        }
        let answer = person
            .ask(Question::Approve {
                agent: cx.origin().agent.to_string(),
                depth: cx.origin().depth,
                tool: name.clone(),
                summary: tool.summary(&gate.args),
                args: gate.args.clone(),
            })
            .await;
        Ok(match answer {
            UiAnswer::Yes => None,
            UiAnswer::Always => {
                self.allow(name);
                None
            }
            UiAnswer::No { message: None } => Some(Ruling::refuse("the user denied this call")),
            UiAnswer::No { message: Some(word) } => {
                Some(Ruling::Refuse(format!("the user denied this call and said: {word}")))
            }
            UiAnswer::Absent => Some(Ruling::refuse(
                "nobody answered the question whether this call may run; it was not the user who denied it",
            )),
            UiAnswer::Choice(_) | UiAnswer::Text(_) => {
                Some(Ruling::refuse("the answer was neither yes nor no, so this call was not run"))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use serde_json::{Value, json};
    use zk_core::events::{CallRef, Decision};
    use zk_core::kernel::Bus;
    use zk_core::model::{ToolError, ToolOutput, ToolSpec};
    use zk_core::service::ToolCx;

    use super::*;

    struct Fake {
        spec: Arc<ToolSpec>,
        read_only: bool,
    }

    #[async_trait]
    impl Tool for Fake {
        fn spec(&self) -> &Arc<ToolSpec> {
            &self.spec
        }

        async fn call(&self, _: Value, _: &ToolCx) -> Result<ToolOutput, ToolError> {
            Ok(ToolOutput::text(""))
        }

        fn read_only(&self, _: &Value) -> bool {
            self.read_only
        }
    }

    struct Person {
        answer: UiAnswer,
        asked: Mutex<Vec<Question>>,
    }

    #[async_trait]
    impl Ui for Person {
        fn is_interactive(&self) -> bool {
            true
        }

        async fn ask(&self, question: Question) -> UiAnswer {
            self.asked.lock().unwrap().push(question);
            self.answer.clone()
        }

        fn notify(&self, _: &str) {}
    }

    fn bus(mode: PermissionMode, answer: Option<UiAnswer>) -> (Bus, Option<Arc<Person>>) {
        let bus = Bus::new();
        bus.install(&Permission::new(mode)).unwrap();
        let scope = bus.scope("test");
        for (name, read_only) in [("read_file", true), ("shell", false)] {
            let spec = ToolSpec::new(name, "", json!({"type": "object"}));
            scope.provide::<dyn Tool>(name, Arc::new(Fake { spec, read_only })).unwrap();
        }
        let person = answer.map(|answer| Arc::new(Person { answer, asked: Mutex::default() }));
        if let Some(person) = &person {
            scope.serve::<dyn Ui>(person.clone());
        }
        (bus, person)
    }

    async fn refusal(bus: &Bus, tool: &str) -> Option<String> {
        let call = CallRef {
            turn_id: "t".into(),
            call_id: "c".into(),
            name: tool.into(),
            display_name: tool.into(),
        };
        let gate = ToolGate {
            call: Arc::new(call),
            args: json!({}),
            run_tool_counts: Arc::default(),
            decision: None,
            decided_by: None,
        };
        match bus.cx().emit(gate).await.unwrap().decision? {
            Decision::Refuse { reason } => Some(reason),
            Decision::Substitute { .. } => None,
        }
    }

    #[tokio::test]
    async fn read_only_calls_run_and_others_are_refused_with_the_way_to_allow_them() {
        let (bus, _) = bus(PermissionMode::ReadOnly, None);
        assert_eq!(refusal(&bus, "read_file").await, None);
        assert!(refusal(&bus, "shell").await.unwrap().contains("--allow-all"));
        assert_eq!(refusal(&bus, "no_such_tool").await, None, "the loop answers unknown tools");
    }

    #[tokio::test]
    async fn everything_runs_when_everything_is_allowed() {
        let (bus, _) = bus(PermissionMode::All, None);
        assert_eq!(refusal(&bus, "shell").await, None);
    }

    #[tokio::test]
    async fn a_person_is_asked_each_time_unless_they_say_always() {
        for (answer, questions) in [(UiAnswer::Yes, 2), (UiAnswer::Always, 1)] {
            let (bus, person) = bus(PermissionMode::ReadOnly, Some(answer));
            assert_eq!(refusal(&bus, "shell").await, None);
            assert_eq!(refusal(&bus, "shell").await, None);
            assert_eq!(person.unwrap().asked.lock().unwrap().len(), questions);
        }
    }

    #[tokio::test]
    async fn a_denial_is_attributed_to_who_denied() {
        let no = UiAnswer::No { message: Some("not on a Friday".into()) };
        let (denied, _) = bus(PermissionMode::ReadOnly, Some(no));
        assert!(refusal(&denied, "shell").await.unwrap().contains("not on a Friday"));
        let (absent, _) = bus(PermissionMode::ReadOnly, Some(UiAnswer::Absent));
        assert!(refusal(&absent, "shell").await.unwrap().contains("not the user who denied"));
    }

    #[tokio::test]
    async fn a_sub_agents_call_passes_its_parents_gate() {
        let (bus, _) = bus(PermissionMode::ReadOnly, None);
        let grandchild = bus.child("child").child("grandchild");
        assert!(refusal(&grandchild, "shell").await.is_some());
    }
}
