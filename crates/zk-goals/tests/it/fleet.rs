use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use zk_agent::Agent;
use zk_core::events::SessionSwitch;
use zk_core::kernel::Bus;
use zk_core::model::{AgentError, SessionId};
use zk_core::service::{Question, Questions, Redactor, RunningAgents, Selection, StateFiles, Ui, UiAnswer};
use zk_exec::LocalStateFiles;
use zk_goals::{FleetBeacon, FleetDir, FleetError, FleetRequest, FleetState, FleetView, fleet_lines};
use zk_goals::{GoalSettings, GoalSpec};
use zk_session::MemoryStore;
use zk_testkit::{Script, ScriptedProvider, Turn};

use crate::support::{open, settings};

fn fleet(dir: &Path) -> FleetDir {
    FleetDir::new(dir.join("fleet"), Arc::new(LocalStateFiles::default()))
}

fn beacon(dir: &Path) -> FleetBeacon {
    FleetBeacon::new(fleet(dir), Arc::new(Redactor::new()), std::process::id(), dir.to_owned())
}

/// Returns the request to stop the work that `view` shows.
fn stop_request(view: &FleetView) -> FleetRequest {
    FleetRequest::Stop { listed_ms: view.entry.updated_ms }
}

/// Returns the only conversation of the list, once it is as expected.
async fn wait_for_listed(fleet: &FleetDir, is_expected: impl Fn(&FleetView) -> bool) -> FleetView {
    loop {
        if let Some(view) = fleet.list().unwrap().into_iter().find(|view| is_expected(view)) {
            return view;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_conversation_is_listed_while_it_lives_and_a_question_is_answered_from_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = fleet(dir.path());
    let bus = Bus::new();
    bus.install(&beacon(dir.path())).unwrap();
    let questions = Arc::new(Questions::new());
    let _front_end = questions.attach();
    bus.scope("terminal").provide_service(questions.clone());
    let view = wait_for_listed(&fleet, |_| true).await;
    assert_eq!((view.state, view.entry.pid), (FleetState::Idle, std::process::id()));
    assert!(matches!(fleet.forget(&view), Err(FleetError::Alive { .. })));

    let cx = bus.cx();
    let options = vec!["one".to_owned(), "two \u{1b}[2J".to_owned()];
    let question: Question = Selection::new("Which?", options).accepting_words().into();
    let ask = questions.ask(question, &cx, Duration::from_secs(60));
    let answer = async {
        let view = wait_for_listed(&fleet, |view| view.state == FleetState::Waiting).await;
        let lines = fleet_lines(std::slice::from_ref(&view), None);
        assert!(lines.iter().any(|line| line.contains("waits for: Which?")), "{lines:?}");
        assert!(!lines.concat().contains('\u{1b}'));
        let open = view.entry.questions.first().unwrap();
        assert!(open.read_answer("").unwrap_err().to_string().contains("1 to 2"));
        let request =
            FleetRequest::Answer { id: open.id, digest: open.digest, answer: open.read_answer("2").unwrap() };
        fleet.send(&view, &request).unwrap();
    };
    let (answered, ()) = tokio::join!(ask, answer);
    assert_eq!(answered, UiAnswer::Choice { index: 1 });

    // A consent cannot be given from another process, only refused.
    let approve = Question::Confirm { text: "Send it to the server?".to_owned() };
    let ask = questions.ask(approve, &cx, Duration::from_secs(60));
    let answer = async {
        let is_new =
            |view: &FleetView| view.entry.questions.first().is_some_and(|open| open.options.is_empty());
        let view = wait_for_listed(&fleet, is_new).await;
        let open = view.entry.questions.first().unwrap();
        assert!(open.read_answer("yes").is_err());
        let request = |answer| FleetRequest::Answer { id: open.id, digest: open.digest, answer };
        fleet.send(&view, &request(UiAnswer::Once)).unwrap();
        fleet.send(&view, &request(open.read_answer("no").unwrap())).unwrap();
    };
    let (answered, ()) = tokio::join!(ask, answer);
    assert_eq!(answered, UiAnswer::No { message: None });

    bus.close().await;
    assert!(fleet.list().unwrap().is_empty());
    let left: Vec<_> = std::fs::read_dir(dir.path().join("fleet")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_conversation_whose_process_is_gone_is_orphaned_told_once_and_can_leave_the_list() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = fleet(dir.path());
    let bus = Bus::new();
    bus.install(&beacon(dir.path())).unwrap();
    let view = wait_for_listed(&fleet, |_| true).await;
    // Simulates a kill: the entry stays, and no process holds its lock.
    let entry = std::fs::read(dir.path().join(format!("fleet/{}.json", view.entry.id))).unwrap();
    bus.close().await;
    std::fs::create_dir_all(dir.path().join("fleet")).unwrap();
    let path = dir.path().join(format!("fleet/{}.json", view.entry.id));
    let mut entry: serde_json::Value = serde_json::from_slice(&entry).unwrap();
    entry["turns"] = 1.into();
    std::fs::write(&path, entry.to_string()).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert_eq!(fleet.find(view.entry.id.get(..3).unwrap()).unwrap().state, FleetState::Orphaned);
    assert_eq!(fleet.reconcile().unwrap().len(), 1);
    assert_eq!(fleet.reconcile().unwrap().len(), 0, "told once");
    let orphan = fleet.find(&view.entry.id).unwrap();
    assert!(matches!(fleet.send(&orphan, &stop_request(&orphan)), Err(FleetError::Gone { .. })));
    fleet.forget(&orphan).unwrap();
    assert!(matches!(fleet.find(&view.entry.id), Err(FleetError::Unknown(_))));
}

#[test]
fn a_file_that_is_no_entry_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let fleet_dir = dir.path().join("fleet");
    std::fs::create_dir_all(&fleet_dir).unwrap();
    for (name, text) in [("a.json", "{"), ("b.json", r#"{"version": 99}"#), ("notes.txt", "x")] {
        std::fs::write(fleet_dir.join(name), text).unwrap();
    }
    let fleet = fleet(dir.path());
    assert!(fleet.list().unwrap().is_empty());
    assert!(matches!(fleet.find(""), Err(FleetError::Unknown(_))));
    assert!(fleet_dir.join("a.json").exists());
}

#[derive(Default)]
struct Stopped(std::sync::Mutex<Vec<String>>);

impl RunningAgents for Stopped {
    fn is_any_running(&self) -> bool {
        true
    }

    fn stop_all(&self, reason: &str) {
        self.0.lock().unwrap().push(reason.to_owned());
    }
}

#[tokio::test]
async fn a_stop_from_elsewhere_reaches_the_sub_agents_between_two_runs() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = fleet(dir.path());
    let bus = Bus::new();
    bus.install(&beacon(dir.path())).unwrap();
    let agents = Arc::new(Stopped::default());
    bus.scope("agent").provide_service::<dyn RunningAgents>(agents.clone());
    let view = wait_for_listed(&fleet, |_| true).await;
    fleet.send(&view, &stop_request(&view)).unwrap();
    while agents.0.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(*agents.0.lock().unwrap(), ["stopped by zk fleet"]);
    bus.close().await;
}

#[tokio::test]
async fn a_stop_for_an_idle_conversation_does_not_abort_the_next_run() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = fleet(dir.path());
    let script = Script::answering(|_| Turn::new().hang());
    let agent =
        Agent::builder(Arc::new(ScriptedProvider::new(script))).plugin(beacon(dir.path())).build().unwrap();
    let idle = wait_for_listed(&fleet, |_| true).await;
    assert_eq!(idle.state, FleetState::Idle);
    fleet.send(&idle, &stop_request(&idle)).unwrap();
    let mut run = agent.run("a prompt").unwrap();
    run.start();
    let requests = dir.path().join(format!("fleet/{}-requests.jsonl", idle.entry.id));
    while requests.exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Requests are carried out in order: when this one is done, the one before it is done too.
    let running = wait_for_listed(&fleet, |view| view.state == FleetState::Running).await;
    fleet.send(&running, &stop_request(&idle)).unwrap();
    while requests.exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let running = wait_for_listed(&fleet, |view| view.state == FleetState::Running).await;
    assert!(running.entry.is_running);
    fleet.send(&running, &stop_request(&running)).unwrap();
    let outcome = run.wait().await;
    assert!(matches!(outcome.result, Err(AgentError::Aborted)), "{:?}", outcome.result);
    agent.close().await;
}

#[tokio::test]
async fn a_secret_that_a_cut_would_part_is_not_listed() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = fleet(dir.path());
    let redactor = Redactor::new();
    redactor.learn("correct-horse-battery-staple");
    let bus = Bus::new();
    let pid = std::process::id();
    let beacon = FleetBeacon::new(fleet.clone(), Arc::new(redactor), pid, dir.path().to_owned());
    bus.install(&beacon).unwrap();
    let questions = Arc::new(Questions::new());
    let _front_end = questions.attach();
    bus.scope("terminal").provide_service(questions.clone());
    let text = format!("{} correct-horse-battery-staple", "é".repeat(95));
    let cx = bus.cx();
    let ask = questions.ask(Question::Confirm { text }, &cx, Duration::from_secs(60));
    let look = async {
        let view = wait_for_listed(&fleet, |view| view.state == FleetState::Waiting).await;
        let open = view.entry.questions.first().unwrap();
        assert!(!open.text.contains("correct"), "{}", open.text);
    };
    tokio::select! {
        answered = ask => panic!("{answered:?}"),
        () = look => {}
    }
    bus.close().await;
}

/// Entry of a process that is gone, as its file has it.
fn write_orphan(dir: &Path, change: impl FnOnce(&mut serde_json::Value)) {
    let mut entry = serde_json::json!({
        "version": 1, "id": "orphan", "pid": 1, "started_ms": 1, "updated_ms": 1, "cwd": "/p", "turns": 1,
        "is_running": true, "session": "s_1",
        "questions": [{ "id": 1, "digest": "0".repeat(16), "text": "Which?", "answers": "text" }],
    });
    change(&mut entry);
    let path = dir.join("fleet/orphan.json");
    std::fs::create_dir_all(dir.join("fleet")).unwrap();
    LocalStateFiles::default().replace(&path, entry.to_string().as_bytes()).unwrap();
}

#[test]
fn an_orphan_waits_for_nobody_and_leaves_the_list_a_day_after_it_was_found() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = fleet(dir.path());
    write_orphan(dir.path(), |_| ());
    let views = fleet.list().unwrap();
    assert_eq!(views[0].state, FleetState::Orphaned);
    let lines = fleet_lines(&views, None).join("\n");
    assert!(lines.contains("orphaned") && !lines.contains("waits for"), "{lines}");
    // The time is that of the first look, and told orphans keep it.
    let found = views[0].entry.gone_ms.unwrap();
    fleet.reconcile().unwrap();
    assert_eq!(fleet.list().unwrap()[0].entry.gone_ms, Some(found));
    let day = 24 * 60 * 60 * 1_000;
    write_orphan(dir.path(), |entry| entry["gone_ms"] = (found - day + 60_000).into());
    assert_eq!(fleet.list().unwrap().len(), 1);
    write_orphan(dir.path(), |entry| entry["gone_ms"] = (found - day).into());
    assert!(fleet.list().unwrap().is_empty() && !dir.path().join("fleet/orphan.json").exists());
    // An open goal is never dropped by age.
    write_orphan(dir.path(), |entry| {
        entry["gone_ms"] = (found - day).into();
        entry["goal"] = serde_json::json!({ "number": 1, "text": "x", "state": "active", "autonomous": true,
            "turns": 1, "cost": 0.0, "waiting": [] });
    });
    assert_eq!(fleet.list().unwrap().len(), 1);
}

#[derive(Clone, Default)]
struct Notices(Arc<std::sync::Mutex<Vec<String>>>);

impl Ui for Notices {
    fn notify(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

#[tokio::test]
async fn an_open_goal_stays_in_the_list_when_its_session_is_only_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let (fleet, store) = (fleet(dir.path()), MemoryStore::new());
    let silent = || Script::answering(|_| Turn::new().text("Working."));
    let (agent, goals) = open(&store, silent(), settings()).await;
    agent.run("hello").unwrap().wait().await.result.unwrap();
    goals
        .begin(GoalSpec::new("paint the barn").unwrap().autonomous(None, None), &agent.bus().cx())
        .await
        .unwrap();
    agent.close().await;
    drop(agent);
    for look in 0..2 {
        let (agent, _) = open(&store, silent(), GoalSettings::default()).await;
        let notices = Notices::default();
        agent.bus().scope("screen").provide_service::<dyn Ui>(Arc::new(notices.clone()));
        agent.bus().scope("session").provide_service(Arc::new(SessionId::from("s_barn")));
        agent.bus().install(&beacon(dir.path())).unwrap();
        let view = wait_for_listed(&fleet, |view| view.state == FleetState::Idle).await;
        assert_eq!(view.entry.goal.map(|goal| goal.text), Some("paint the barn".to_owned()), "look {look}");
        while notices.0.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let told = notices.0.lock().unwrap().concat();
        assert!(told.contains("is active: /goal resume goes on with it (paint the barn)"), "{told}");
        agent.close().await;
        let left = fleet.list().unwrap();
        assert_eq!((left.len(), left[0].state), (1, FleetState::Paused), "look {look}");
        assert!(left[0].entry.has_open_goal());
    }
}

#[tokio::test]
async fn a_session_that_is_left_for_another_keeps_its_open_goal_in_the_list() {
    let dir = tempfile::tempdir().unwrap();
    let (fleet, store) = (fleet(dir.path()), MemoryStore::new());
    let (agent, goals) = open(&store, Script::new(), settings()).await;
    let cx = agent.bus().cx();
    agent.bus().install(&beacon(dir.path())).unwrap();
    goals.begin(GoalSpec::new("paint the barn").unwrap().autonomous(None, None), &cx).await.unwrap();
    wait_for_listed(&fleet, |view| view.entry.goal.is_some()).await;
    let left = Some(SessionId::from("s_left"));
    cx.emit(SessionSwitch { from: left.clone(), to: None, entries: Arc::default() }).await.unwrap();
    let view = wait_for_listed(&fleet, |view| view.state == FleetState::Paused).await;
    assert_eq!(view.entry.session, left);
    assert!(view.entry.has_open_goal());
    wait_for_listed(&fleet, |view| view.state == FleetState::Idle && view.entry.goal.is_none()).await;
    agent.close().await;
}
