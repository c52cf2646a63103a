use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use zk_agent::Agent;
use zk_core::events::{CallRef, GateDecision, SessionLoaded, ToolGate, TurnBefore};
use zk_core::kernel::Bus;
use zk_core::model::{AgentError, CallId, Effects, ModelRef, ThinkingRequest, TurnId};
use zk_core::service::{
    Approval, CallPlace, PendingQuestion, Question, Questions, Tool, Trust, TrustError, TrustItem, UiAnswer,
};
use zk_permission::{Mode, ModeSwitch, PermissionGate};
use zk_testkit::{Script, ScriptedProvider};
use zk_tools::{Shell, ToolsOptions};

use crate::desk::Desk;

/// Time limit that no machine reaches.
const LONG: Duration = Duration::from_secs(60);

/// Person with a fixed answer to every question.
pub(crate) struct Person {
    asked: Arc<Mutex<Vec<PendingQuestion>>>,
    answering: JoinHandle<()>,
}

impl Drop for Person {
    fn drop(&mut self) {
        self.answering.abort();
    }
}

impl Person {
    pub(crate) fn approvals(&self) -> Vec<Approval> {
        let approval = |asked: &PendingQuestion| match &asked.question {
            Question::Approve(approval) => Some(Approval::clone(approval)),
            _ => None,
        };
        self.asked.lock().unwrap().iter().filter_map(approval).collect()
    }
}

pub(crate) fn person(desk: &Desk, answer: UiAnswer) -> Person {
    let questions = Arc::new(Questions::new());
    desk.bus.scope("host").provide_service(questions.clone());
    let front_end = questions.attach();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let answering = tokio::spawn(async move {
        loop {
            let pending = front_end.next().await;
            // Like a person, waits for the effects of the last answer before the next one.
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
            // Another answer may have settled it already.
            if front_end.answer(pending.id, pending.digest, answer.clone()).is_ok() {
                seen.lock().unwrap().push(PendingQuestion::clone(&pending));
            }
        }
    });
    Person { asked, answering }
}

fn desk(mode: Mode) -> Desk {
    let desk = Desk::new();
    desk.bus.install(&PermissionGate::new(mode)).unwrap();
    desk
}

/// Returns the reason why a call is refused, if it is.
async fn refusal(bus: &Bus, tool: &str, args: Value) -> Option<String> {
    refusal_of(bus, tool, bus.item::<dyn Tool>(tool), args).await
}

async fn refusal_of(bus: &Bus, tool: &str, of: Option<Arc<dyn Tool>>, args: Value) -> Option<String> {
    let call = Arc::new(CallRef {
        turn_id: TurnId::fresh(),
        call_id: CallId::from("same"),
        name: tool.into(),
        display_name: tool.into(),
    });
    refusal_in(bus, ".".as_ref(), call, of, args).await
}

pub(crate) async fn refusal_in(
    bus: &Bus,
    cwd: &std::path::Path,
    call: Arc<CallRef>,
    of: Option<Arc<dyn Tool>>,
    args: Value,
) -> Option<String> {
    let place = CallPlace { cx: bus.cx(), cwd: cwd.into() };
    let gate = ToolGate::new(call, args, of, place);
    match gate.pass(&bus.cx()).await.unwrap() {
        GateDecision::Refused { reason, .. } => Some(reason),
        GateDecision::Approved(_) => None,
        GateDecision::Parked { reason, .. } => Some(format!("parked: {reason}")),
        GateDecision::Substituted { .. } => Some("substituted".to_owned()),
    }
}

/// A trust store in memory.
#[derive(Default)]
pub(crate) struct Remembered(Mutex<Vec<(String, Vec<u8>)>>);

impl Trust for Remembered {
    fn is_trusted(&self, item: &TrustItem<'_>) -> bool {
        self.0.lock().unwrap().iter().any(|(name, bytes)| name == item.name && bytes == item.bytes)
    }

    fn approve(&self, item: &TrustItem<'_>) -> Result<(), TrustError> {
        assert_eq!((item.project.to_str(), item.kind), (Some("/project"), PermissionGate::TRUST_KIND));
        self.0.lock().unwrap().push((item.name.to_owned(), item.bytes.to_owned()));
        Ok(())
    }

    fn revoke(&self, _: &std::path::Path, _: &str, name: &str) -> Result<(), TrustError> {
        self.0.lock().unwrap().retain(|(at, _)| at != name);
        Ok(())
    }
}

#[tokio::test]
async fn always_allows_exactly_that_call_in_later_sessions_until_it_is_revoked() {
    let trust = Arc::new(Remembered::default());
    let session = || {
        let desk = Desk::new();
        desk.bus.scope("host").provide_service::<dyn Trust>(trust.clone());
        desk.bus.install(&PermissionGate::new(Mode::Ask).remembering("/project")).unwrap();
        desk
    };
    let first = session();
    let person = person(&first, UiAnswer::Always);
    assert_eq!(refusal(&first.bus, "shell", command()).await, None);
    let rule = person.approvals()[0].always.clone().unwrap();
    assert!(rule.contains("exactly this call in .") && rule.contains("zk policy revoke"), "{rule}");
    assert!(rule.contains("but not with any other argument"), "{rule}");
    assert_eq!(refusal(&first.bus, "shell", json!({ "command": "rm b" })).await, None);
    assert_eq!(person.approvals().len(), 2, "another command is another rule");
    let later = session();
    assert_eq!(refusal(&later.bus, "shell", command()).await, None, "nobody is there to be asked");
    let changed = json!({ "command": "rm a", "timeout": 1 });
    assert!(refusal(&later.bus, "shell", changed).await.is_some());
    let name = trust.0.lock().unwrap()[0].0.clone();
    assert_eq!(name, r#"shell {"command":"rm a"}"#);
    trust.revoke("/project".as_ref(), PermissionGate::TRUST_KIND, &name).unwrap();
    assert!(refusal(&later.bus, "shell", command()).await.is_some());
}

/// A store that another process has locked until it is let go.
struct Locked {
    waits: tokio::sync::Notify,
    let_go: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl Trust for Locked {
    fn is_trusted(&self, _: &TrustItem<'_>) -> bool {
        false
    }

    fn approve(&self, item: &TrustItem<'_>) -> Result<(), TrustError> {
        self.waits.notify_one();
        // Only a concurrent task can release it.
        self.let_go
            .lock()
            .unwrap()
            .recv_timeout(LONG)
            .map_err(|error| TrustError::Unusable { path: item.project.to_owned(), why: error.to_string() })
    }

    fn revoke(&self, _: &std::path::Path, _: &str, _: &str) -> Result<(), TrustError> {
        Ok(())
    }
}

#[tokio::test]
async fn an_answer_that_waits_for_the_store_holds_up_nothing_else() {
    let (let_go, held) = std::sync::mpsc::channel();
    let trust = Arc::new(Locked { waits: tokio::sync::Notify::new(), let_go: Mutex::new(held) });
    let desk = Desk::new();
    desk.bus.scope("host").provide_service::<dyn Trust>(trust.clone());
    desk.bus.install(&PermissionGate::new(Mode::Ask).remembering("/project")).unwrap();
    let _person = person(&desk, UiAnswer::Always);
    let bus = desk.bus.clone();
    let call = tokio::spawn(async move { refusal(&bus, "shell", command()).await });
    trust.waits.notified().await;
    let_go.send(()).expect("the store was given up before anything else could run");
    assert_eq!(call.await.unwrap(), None);
}

#[tokio::test]
async fn what_is_allowed_names_the_line_of_the_host_that_runs_before_it_and_holds_with_no_other() {
    let trust = Arc::new(Remembered::default());
    let session = |prefix: Option<&str>| {
        let shell_prefix = prefix.map(str::to_owned);
        let desk = Desk::with(ToolsOptions { shell_prefix, ..ToolsOptions::default() });
        desk.bus.scope("host").provide_service::<dyn Trust>(trust.clone());
        desk.bus.install(&PermissionGate::new(Mode::Ask).remembering("/project")).unwrap();
        desk
    };
    let first = session(Some("source env"));
    let _person = person(&first, UiAnswer::Always);
    assert_eq!(refusal(&first.bus, "shell", command()).await, None);
    let name = trust.0.lock().unwrap()[0].0.clone();
    assert_eq!(name, r#"shell runs ["source env\nrm a"] for {"command":"rm a"}"#);
    assert_eq!(refusal(&session(Some("source env")).bus, "shell", command()).await, None);
    for other in [None, Some("source other")] {
        assert!(refusal(&session(other).bus, "shell", command()).await.is_some(), "{other:?}");
    }
    // Command equal to line and command joined, but from the model.
    let whole = json!({ "command": "source env\nrm a" });
    assert!(refusal(&session(None).bus, "shell", whole).await.is_some());

    // A grant for the session does not hold either, as the conversation's tool gets another line.
    let desk = Desk::new();
    desk.bus.install(&PermissionGate::new(Mode::Ask)).unwrap();
    let answered = person(&desk, UiAnswer::Session);
    for (prefix, asked) in [("source env", 1), ("source env", 1), ("source other", 2)] {
        let options = ToolsOptions { shell_prefix: Some(prefix.to_owned()), ..ToolsOptions::default() };
        let tool: Arc<dyn Tool> = Arc::new(Shell::new(&options));
        assert_eq!(refusal_of(&desk.bus, "shell", Some(tool), command()).await, None);
        assert_eq!(answered.approvals().len(), asked, "{prefix}");
    }
}

fn command() -> Value {
    json!({ "command": "rm a" })
}

#[tokio::test]
async fn with_nobody_to_ask_only_reading_is_allowed() {
    let desk = desk(Mode::Ask);
    for tool in ["read_file", "grep", "glob", "list_files", "no_such_tool"] {
        assert_eq!(refusal(&desk.bus, tool, json!({})).await, None, "{tool}");
    }
    for tool in ["shell", "edit", "multi_edit", "write_file"] {
        let reason = refusal(&desk.bus, tool, json!({ "command": "ls" })).await.unwrap();
        assert!(reason.contains("nobody is here") && reason.contains("mode `all` would"), "{reason}");
    }
}

#[tokio::test]
async fn everything_can_be_allowed() {
    let desk = desk(Mode::All);
    assert_eq!(refusal(&desk.bus, "shell", command()).await, None);
}

async fn next_turn(bus: &Bus) {
    let model = ModelRef::new("scripted", "m");
    let thinking = ThinkingRequest::default();
    let turn = TurnBefore { turn_id: TurnId::fresh(), turn: 2, model, messages: 1, thinking };
    bus.cx().emit(turn).await.unwrap();
}

#[tokio::test]
async fn a_tighter_mode_holds_from_the_next_call_on_and_a_wider_one_from_the_next_turn_on() {
    let desk = Desk::new();
    let modes = ModeSwitch::new(Mode::Ask);
    desk.bus.install(&PermissionGate::new(modes.clone())).unwrap();
    modes.choose(Mode::All).unwrap();
    assert_eq!(modes.now(), Mode::Ask);
    assert!(refusal(&desk.bus, "shell", command()).await.is_some(), "the turn is still the same");
    next_turn(&desk.bus).await;
    assert_eq!(refusal(&desk.bus, "shell", command()).await, None);
    modes.choose(Mode::Ask).unwrap();
    assert!(refusal(&desk.bus, "shell", command()).await.is_some());
    // Tightened again before the turn that would have been wider.
    modes.choose(Mode::All).unwrap();
    modes.choose(Mode::Ask).unwrap();
    next_turn(&desk.bus).await;
    assert!(refusal(&desk.bus, "shell", command()).await.is_some());
}

#[tokio::test]
async fn what_was_allowed_for_a_session_is_asked_again_in_the_next() {
    let desk = desk(Mode::Ask);
    let asked = person(&desk, UiAnswer::Session);
    for _ in 0..2 {
        assert_eq!(refusal(&desk.bus, "shell", command()).await, None);
    }
    assert_eq!(asked.approvals().len(), 1);
    let next = SessionLoaded { session_id: Some("s_next".into()), entries: Arc::from([]) };
    desk.bus.cx().emit(next).await.unwrap();
    assert_eq!(refusal(&desk.bus, "shell", command()).await, None);
    assert_eq!(asked.approvals().len(), 2);
}

#[tokio::test]
async fn a_person_sees_what_will_run_and_decides() {
    let desk = desk(Mode::Ask);
    let asked = person(&desk, UiAnswer::Once);
    assert_eq!(refusal(&desk.bus, "shell", command()).await, None);
    assert_eq!(refusal(&desk.bus, "shell", command()).await, None);
    let approvals = asked.approvals();
    assert_eq!(approvals.len(), 2, "yes is for once");
    let expected = Approval {
        tool: "shell".into(),
        args: command(),
        effects: Effects::executes("rm a"),
        session: Some("exactly this call".into()),
        reasons: vec!["ask: it may change something, and the mode asks about that".into()],
        ..Approval::default()
    };
    assert_eq!(approvals[0], expected);
}

#[tokio::test]
async fn a_refusal_carries_the_word_of_the_person() {
    let desk = desk(Mode::Ask);
    let with_words = person(&desk, UiAnswer::No { message: Some("use git rm".into()) });
    let reason = refusal(&desk.bus, "shell", command()).await.unwrap();
    assert_eq!(reason, "the user declined this call: use git rm");
    drop(with_words);
    let _without = person(&desk, UiAnswer::No { message: None });
    assert!(refusal(&desk.bus, "shell", command()).await.is_some());
}

#[tokio::test]
async fn a_question_without_an_answer_is_no_denial_by_the_user() {
    let desk = desk(Mode::Ask);
    let _nobody = person(&desk, UiAnswer::Absent);
    let reason = refusal(&desk.bus, "shell", command()).await.unwrap();
    assert!(reason.contains("it was not the user who declined"), "{reason}");
}

#[tokio::test]
async fn a_choice_for_the_session_answers_what_others_ask_meanwhile() {
    let desk = desk(Mode::Ask);
    let person = person(&desk, UiAnswer::Session);
    let child = desk.bus.child("helper");
    let (one, other) =
        tokio::join!(refusal(&desk.bus, "shell", command()), refusal(&child, "shell", command()));
    assert_eq!((one, other), (None, None));
    assert_eq!(person.approvals().len(), 1);
}

#[tokio::test]
async fn this_session_means_this_command_and_for_files_this_tool_in_sub_agents_too() {
    let desk = desk(Mode::Ask);
    let person = person(&desk, UiAnswer::Session);
    let child = desk.bus.child("helper").child("deeper");
    for bus in [&desk.bus, &child, &desk.bus] {
        assert_eq!(refusal(bus, "shell", command()).await, None);
    }
    assert_eq!(person.approvals().len(), 1);
    refusal(&desk.bus, "shell", json!({ "command": "rm b" })).await;
    assert_eq!(person.approvals().len(), 2, "another command is another question");
    refusal(&desk.bus, "edit", json!({ "path": "a" })).await;
    refusal(&child, "edit", json!({ "path": "b" })).await;
    let approvals = person.approvals();
    assert_eq!(approvals.len(), 3);
    assert_eq!(approvals[2].session.as_deref(), Some("every call of `edit`"));
}

#[tokio::test]
async fn a_sub_agent_is_named_in_the_question() {
    let desk = desk(Mode::Ask);
    let person = person(&desk, UiAnswer::Once);
    let child = desk.bus.child("helper").child("deeper");
    refusal(&child, "shell", command()).await;
    let asked = person.asked.lock().unwrap().clone();
    assert_eq!((&*asked[0].origin.agent, asked[0].origin.depth), ("deeper", 2));
}

#[tokio::test]
async fn an_edit_shows_its_difference_and_the_arguments_whole() {
    let desk = desk(Mode::Ask);
    desk.put("a.txt", "one\ntwo\n");
    let person = person(&desk, UiAnswer::Once);
    let path = desk.root.join("a.txt").to_string_lossy().into_owned();
    let args = json!({ "path": path, "old_string": "two", "new_string": "\u{1b}[2Jthree" });
    assert_eq!(refusal(&desk.bus, "edit", args).await, None);
    let shown = person.approvals()[0].sections();
    let lines = |heading: &str| {
        let section = shown.iter().find(|section| section.heading.starts_with(heading)).unwrap();
        section.lines.join("\n")
    };
    assert_eq!(lines("new_string"), "⟨U+001B⟩[2Jthree");
    assert!(lines("diff of").contains("-two") && lines("diff of").contains("+⟨U+001B⟩[2Jthree"));
}

#[tokio::test]
async fn an_agent_takes_tools_that_change_files_with_the_gate_in_any_mode_and_not_without_it() {
    let built = |gate: Option<Mode>| {
        let desk = Desk::new();
        if let Some(mode) = gate {
            desk.bus.install(&PermissionGate::new(mode)).unwrap();
        }
        Agent::builder(Arc::new(ScriptedProvider::new(Script::new()))).bus(desk.bus).build()
    };
    let error = built(None).unwrap_err();
    assert!(matches!(error, AgentError::Unguarded { .. }), "{error}");
    built(Some(Mode::Ask)).unwrap();
    built(Some(Mode::All)).unwrap();
}

#[tokio::test]
async fn read_only_refuses_what_may_change_something_and_asks_nobody_about_it() {
    let desk = desk(Mode::ReadOnly);
    let person = person(&desk, UiAnswer::Once);
    assert_eq!(refusal(&desk.bus, "grep", json!({})).await, None);
    for tool in ["shell", "edit"] {
        let reason = refusal(&desk.bus, tool, command()).await.unwrap();
        assert!(reason.contains("nobody is asked") && reason.contains("mode `all` would"), "{reason}");
    }
    assert_eq!(person.approvals().len(), 0);
}

#[tokio::test]
async fn a_gate_keeps_its_switch_whatever_else_is_set_of_it_and_hands_it_to_nobody() {
    let modes = ModeSwitch::new(Mode::Ask);
    let desk = Desk::new();
    let gate = PermissionGate::new(modes.clone()).judging_within(LONG).remembering("/project");
    desk.bus.install(&gate).unwrap();
    assert!(refusal(&desk.bus, "shell", command()).await.is_some());
    assert!(desk.bus.service::<ModeSwitch>().is_none(), "a plugin could widen the mode");
    modes.choose(Mode::All).unwrap();
    next_turn(&desk.bus).await;
    assert_eq!(refusal(&desk.bus, "shell", command()).await, None);
}
