//! Commands that ask to leave the context of all others.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::{Display, Effect, Effects};
use zk_core::service::{
    CallDecision, CallJudge, CallJudgement, CallOffer, Command, CommandOutcome, Denial, DeniedAct, Exec,
    ExecError, ExecRequest, KillSignal, OutsideExec, Process, ProcessEvent, Questions, TerminalSize,
    UiAnswer,
};
use zk_exec::{Environment, ProcessExec};
use zk_permission::{Mode, PermissionGate};
use zk_tools::ToolsOptions;

use crate::support::Desk;

/// Executor that sets a variable with its name.
struct Marked(ProcessExec);

#[async_trait]
impl Exec for Marked {
    async fn spawn(&self, mut request: ExecRequest) -> Result<Box<dyn Process>, ExecError> {
        request.env.insert("PLACE".into(), "outside".into());
        self.0.spawn(request).await
    }
}

/// A sandbox that denied a write to each command.
struct Denying(ProcessExec);

struct Denied(Box<dyn Process>);

#[async_trait]
impl Exec for Denying {
    async fn spawn(&self, request: ExecRequest) -> Result<Box<dyn Process>, ExecError> {
        Ok(Box::new(Denied(self.0.spawn(request).await?)))
    }
}

#[async_trait]
impl Process for Denied {
    async fn next(&mut self) -> Result<Option<ProcessEvent>, ExecError> {
        self.0.next().await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), ExecError> {
        self.0.write(bytes).await
    }

    async fn close_input(&mut self) -> Result<(), ExecError> {
        self.0.close_input().await
    }

    async fn resize(&mut self, size: TerminalSize) -> Result<(), ExecError> {
        self.0.resize(size).await
    }

    async fn kill(&mut self, signal: KillSignal) -> Result<(), ExecError> {
        self.0.kill(signal).await
    }

    async fn members(&mut self) -> Result<Vec<u32>, ExecError> {
        self.0.members().await
    }

    fn denials(&self) -> Vec<Denial> {
        let reason = "it is read-only".to_owned();
        vec![Denial { act: DeniedAct::Write, target: "/usr/lib/x".into(), reason }]
    }

    fn release(self: Box<Self>) {
        self.0.release();
    }
}

#[tokio::test]
async fn a_denial_is_told_to_the_model_with_what_to_do_next_and_shown_to_the_person() {
    let desk = desk();
    let environment = Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    desk.bus.scope("denying").provide_service::<dyn Exec>(Arc::new(Denying(ProcessExec::new(environment))));
    let error = desk.err("shell", json!({ "command": "echo tried; exit 1" })).await;
    let denial = "possibly denied by the sandbox: write /usr/lib/x (it is read-only)";
    assert!(error.message.contains(denial), "{}", error.message);
    assert!(error.message.contains("call this again with `outside`"), "{}", error.message);
    let Some(Display::Command { lines, total_lines, .. }) = &error.display else { panic!("{error:?}") };
    assert_eq!((lines.as_slice(), *total_lines), (["tried".to_owned(), format!("({denial})")].as_slice(), 2));
}

/// The command of a conversation that adds a directory.
struct AddDirectory;

#[async_trait]
impl Command for AddDirectory {
    fn name(&self) -> &'static str {
        "add-dir"
    }

    fn help(&self) -> &'static str {
        "add a directory"
    }

    async fn run(&self, _: &str, _: &Cx) -> Result<CommandOutcome, BoxError> {
        Ok(CommandOutcome::Done)
    }
}

#[tokio::test]
async fn a_write_that_was_denied_names_the_command_that_adds_the_directory_where_there_is_one() {
    let desk = desk();
    let environment = Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    desk.bus.scope("denying").provide_service::<dyn Exec>(Arc::new(Denying(ProcessExec::new(environment))));
    desk.bus.scope("commands").provide::<dyn Command>("add-dir", Arc::new(AddDirectory)).unwrap();
    let error = desk.err("shell", json!({ "command": "exit 1" })).await;
    let way = "ask the user to add its directory with /add-dir, or call this again with `outside`";
    assert!(error.message.contains(way), "{}", error.message);
    let Some(Display::Command { lines, .. }) = &error.display else { panic!("{error:?}") };
    let notes = [
        "(possibly denied by the sandbox: write /usr/lib/x)",
        "(it is read-only; /add-dir adds its directory)",
    ];
    assert_eq!(*lines, notes);
}

fn desk() -> Desk {
    let desk = Desk::with(ToolsOptions { outside: true, ..ToolsOptions::default() });
    let environment = Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    let outside = Arc::new(Marked(ProcessExec::new(environment)));
    desk.bus.scope("outside").provide_service(Arc::new(OutsideExec(outside)));
    desk
}

fn args(reason: &str) -> Value {
    json!({ "command": "echo \"${PLACE:-inside}\"", "outside": { "reason": reason } })
}

#[tokio::test]
async fn one_command_runs_outside_and_the_others_do_not() {
    let desk = desk();
    assert!(desk.ok("shell", args("why not")).await.starts_with("outside\n"));
    assert!(
        desk.ok("shell", json!({ "command": "echo \"${PLACE:-inside}\"" })).await.starts_with("inside\n")
    );
}

#[tokio::test]
async fn where_nothing_is_outside_the_argument_is_not_there_and_does_nothing() {
    let desk = Desk::new();
    let spec = desk.tool("shell").spec().clone();
    assert!(!serde_json::to_string(&*spec).unwrap().contains("outside"));
    assert!(desk.ok("shell", args("why not")).await.starts_with("inside\n"));
    let place = zk_core::service::CallPlace { cx: desk.bus.cx(), cwd: desk.root.clone() };
    assert!(!desk.tool("shell").effects(&args("x"), &place).leaves_context());
}

#[tokio::test]
async fn leaving_is_an_effect_that_nobody_overlooks() {
    let desk = desk();
    let place = zk_core::service::CallPlace { cx: desk.bus.cx(), cwd: desk.root.clone() };
    let effects = desk.tool("shell").effects(&args("it is denied"), &place);
    let Effects::Known { list } = &effects else { panic!("{effects:?}") };
    assert_eq!(list[1], Effect::LeavesContext { reason: "it is denied".into() });
    assert!(!effects.is_read_only());
    desk.bus.install(&PermissionGate::new(Mode::Ask)).unwrap();
    let refused = desk.err("shell", args("it is denied")).await;
    assert!(refused.message.contains("nobody is here to approve it"), "{}", refused.message);
}

#[tokio::test]
async fn an_answer_for_the_session_holds_whatever_reason_the_model_gives_and_for_no_other_command() {
    let desk = desk();
    desk.bus.install(&PermissionGate::new(Mode::Ask)).unwrap();
    let questions = Arc::new(Questions::new());
    desk.bus.scope("host").provide_service(questions.clone());
    let front_end = questions.attach();
    let answering = tokio::spawn(async move {
        let pending = front_end.next().await;
        front_end.answer(pending.id, pending.digest, UiAnswer::Session).unwrap();
        // Nobody can answer a second question.
    });
    assert!(desk.ok("shell", args("first")).await.starts_with("outside\n"));
    answering.await.unwrap();
    assert!(desk.ok("shell", args("second")).await.starts_with("outside\n"));
    let mut other = args("first");
    other["command"] = "echo else".into();
    assert!(desk.output("shell", other).await.is_err());
    let inside = json!({ "command": "echo \"${PLACE:-inside}\"" });
    assert!(desk.output("shell", inside).await.is_err(), "inside is another call");
}

#[tokio::test]
async fn a_single_command_that_needs_credentials_asks_to_leave_a_sandbox_by_itself() {
    let desk = Desk::with(ToolsOptions {
        outside: true,
        shell_bounds: Some("Held.".to_owned()),
        ..ToolsOptions::default()
    });
    assert!(desk.tool("shell").spec().description.ends_with(" Held."));
    let place = zk_core::service::CallPlace { cx: desk.bus.cx(), cwd: desk.root.clone() };
    let leaves =
        |command: &str| desk.tool("shell").effects(&json!({ "command": command }), &place).leaves_context();
    assert!(leaves("gh pr list") && leaves("git push git@example.org:a/b.git"));
    assert!(!leaves("gh pr list; touch made") && !leaves("cargo build"));
}

/// Judge that permits a call as a read, and reports at its start that the confinement is lost.
struct Losing;

impl CallJudge for Losing {
    fn judge(&self, _: &str, _: &Effects, _: &Path) -> CallJudgement {
        CallJudgement { decision: CallDecision::Allow, reasons: Vec::new(), offer: None, allowed_by: None }
    }

    fn would_allow_as_read(&self, _: &str, _: &Effects, _: &Path) -> bool {
        true
    }

    fn allows_beyond_read(&self, _: &str, _: &Effects, _: &Path) -> bool {
        false
    }

    fn remember(&self, _: &CallOffer, _: bool) -> Result<(), String> {
        Ok(())
    }

    fn forget_session(&self) {}
}

#[tokio::test]
async fn a_call_that_was_allowed_as_a_read_does_not_run_once_nothing_holds_reads() {
    let desk = Desk::new();
    desk.bus.scope("judge").provide_service::<dyn CallJudge>(Arc::new(Losing));
    let made = || desk.root.join("made").exists();
    let command = json!({ "command": "touch made" });
    // Without a gate, a person or the bus's owner has allowed it.
    desk.ok("shell", command.clone()).await;
    assert!(made());
    std::fs::remove_file(desk.root.join("made")).unwrap();
    desk.bus.install(&PermissionGate::new(Mode::Ask)).unwrap();
    let error = desk.err("shell", command).await;
    assert!(error.message.contains("did not run; call it again"), "{}", error.message);
    assert!(!made());
}

/// Judge that permits a call as a read, and returns this verdict at its start.
struct Changing {
    is_read: bool,
    is_unheld: bool,
}

impl CallJudge for Changing {
    fn judge(&self, _: &str, _: &Effects, _: &Path) -> CallJudgement {
        CallJudgement { decision: CallDecision::Allow, reasons: Vec::new(), offer: None, allowed_by: None }
    }

    fn allows_as_read(&self, _: &str, _: &Effects, _: &Path) -> bool {
        self.is_read
    }

    fn allows_beyond_read(&self, _: &str, _: &Effects, _: &Path) -> bool {
        false
    }

    fn allows_unheld_read(&self, _: &str, _: &Effects, _: &Path) -> bool {
        self.is_unheld
    }

    fn remember(&self, _: &CallOffer, _: bool) -> Result<(), String> {
        Ok(())
    }

    fn forget_session(&self) {}
}

#[tokio::test]
async fn a_call_that_was_allowed_unasked_runs_only_where_its_verdict_lets_it() {
    let command = json!({ "command": "touch made" });
    for (is_read, is_unheld, expected) in [
        (false, false, Some("the files changed while it was judged")),
        (true, false, Some("was lost before this one started")),
        (true, true, None),
    ] {
        let desk = Desk::new();
        desk.bus.scope("judge").provide_service::<dyn CallJudge>(Arc::new(Changing { is_read, is_unheld }));
        desk.bus.install(&PermissionGate::new(Mode::Ask)).unwrap();
        match expected {
            Some(expected) => {
                let error = desk.err("shell", command.clone()).await;
                assert!(error.message.contains(expected), "{}", error.message);
            }
            None => drop(desk.ok("shell", command.clone()).await),
        }
        assert_eq!(desk.root.join("made").exists(), expected.is_none());
    }
}
