use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use zk_core::events::{CallRef, GateDecision, SessionLoaded, ToolGate, TurnBefore};
use zk_core::kernel::Bus;
use zk_core::model::{CallId, ModelRef, ThinkingRequest, TurnId};
use zk_core::service::{Approval, CallPlace, Question, Questions, Tool, UiAnswer, Wider, WiderKind};
use zk_exec::LocalStateFiles;
use zk_permission::{
    Approvals, Decision, Layer, Mode, PermissionGate, PermissionJudge, Rule, RuleBase, Rules,
    TextPathClassifier,
};
use zk_tools::{ToolsOptions, ToolsPlugin};

/// A bus with the tools, the gate and a judge for `/p`.
struct Desk {
    bus: Bus,
    judge: PermissionJudge,
    asked: Arc<Mutex<Vec<Approval>>>,
}

fn rules(texts: &[(Decision, &str)]) -> Rules {
    let mut rules = Rules::new();
    let base = RuleBase { root: "/p".into(), home: None };
    for (decision, text) in texts {
        rules.push(Rule::parse(Layer::User, *decision, text, &base).unwrap());
    }
    rules
}

impl Desk {
    fn new(mode: Mode, rules: Rules, approvals: Option<Approvals>) -> Self {
        let bus = Bus::new();
        bus.install(&ToolsPlugin::new(ToolsOptions::default())).unwrap();
        let classifier = Arc::new(TextPathClassifier::new(["/p"]));
        let judge = match approvals {
            None => PermissionJudge::new(mode, rules, "/p", classifier),
            Some(approvals) => PermissionJudge::with_approvals(mode, rules, "/p", classifier, approvals),
        };
        bus.install(&PermissionGate::new(judge.modes().clone())).unwrap();
        bus.install(&judge).unwrap();
        Self { bus, judge, asked: Arc::default() }
    }

    /// Desk where commands run in the sandbox.
    fn contained(self) -> Self {
        Self { judge: self.judge.contained(), ..self }
    }

    /// Person with a fixed answer, or *once* if that is not offered.
    fn answering(self, answer: UiAnswer) -> Self {
        let questions = Arc::new(Questions::new());
        self.bus.scope("host").provide_service(questions.clone());
        let (front_end, asked) = (questions.attach(), self.asked.clone());
        tokio::spawn(async move {
            loop {
                let pending = front_end.next().await;
                if let Question::Approve(approval) = &pending.question {
                    asked.lock().unwrap().push(Approval::clone(approval));
                }
                // Answers that are not offered cannot be chosen.
                if front_end.answer(pending.id, pending.digest, answer.clone()).is_err() {
                    front_end.answer(pending.id, pending.digest, UiAnswer::Once).unwrap();
                }
            }
        });
        self
    }

    /// Returns the reason why a call is refused, if it is.
    async fn refusal(&self, tool: &str, args: Value) -> Option<String> {
        let call = Arc::new(CallRef {
            turn_id: TurnId::fresh(),
            call_id: CallId::from("same"),
            name: tool.into(),
            display_name: tool.into(),
        });
        let place = CallPlace { cx: self.bus.cx(), cwd: "/p".into() };
        let gate = ToolGate::new(call, args, self.bus.item::<dyn Tool>(tool), place);
        match gate.pass(&self.bus.cx()).await.unwrap() {
            GateDecision::Refused { reason, .. } => Some(reason),
            GateDecision::Approved(_) => None,
            GateDecision::Parked { .. } | GateDecision::Substituted { .. } => Some("neither".to_owned()),
        }
    }

    async fn shell(&self, command: &str) -> Option<String> {
        self.refusal("shell", json!({ "command": command })).await
    }

    async fn write(&self, path: &str) -> Option<String> {
        self.refusal("write_file", json!({ "path": path, "content": "x" })).await
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

#[tokio::test]
async fn what_the_judge_allows_runs_and_what_it_denies_nobody_is_asked_about() {
    let rules = rules(&[(Decision::Allow, "cargo test **"), (Decision::Deny, "git push **")]);
    let desk = Desk::new(Mode::Ask, rules, None).answering(UiAnswer::No { message: None });
    for command in ["ls -la | wc -l", "cargo test -p a 2>&1 | tail"] {
        assert_eq!(desk.shell(command).await, None, "{command}");
    }
    let refusal = desk.shell("ls && git push").await.unwrap();
    assert!(
        refusal.contains("nobody is asked") && refusal.contains("deny `git push **` (user settings)"),
        "{refusal}"
    );
    assert_eq!(desk.asked(), 0);
    assert!(desk.shell("cargo build").await.unwrap().contains("declined"));
    assert_eq!(desk.asked(), 1);
}

#[tokio::test]
async fn without_a_person_what_had_to_be_asked_is_refused_and_says_why() {
    let desk = Desk::new(Mode::Ask, Rules::new(), None);
    let refusal = desk.shell("cargo build").await.unwrap();
    assert!(
        refusal.contains("mode `all` would") && refusal.contains("runs code of the project"),
        "{refusal}"
    );
    assert_eq!(desk.shell("ls").await, None);
}

#[tokio::test]
async fn modes_hold_at_the_gate() {
    let refusals = async |mode| {
        let desk = Desk::new(mode, rules(&[(Decision::Deny, "git push **")]), None);
        let calls = [
            desk.shell("ls").await,
            desk.write("src/a.rs").await,
            desk.write(".git/config").await,
            desk.shell("make").await,
        ];
        assert!(desk.shell("git push").await.is_some(), "{mode}");
        calls.map(|refusal| refusal.is_some())
    };
    assert_eq!(refusals(Mode::ReadOnly).await, [false, true, true, true]);
    assert_eq!(refusals(Mode::Ask).await, [false, true, true, true]);
    assert_eq!(refusals(Mode::AcceptEdits).await, [false, false, true, true]);
    assert_eq!(refusals(Mode::All).await, [false, false, false, true], "`make` can push");
}

#[tokio::test]
async fn a_prefix_is_offered_in_the_sandbox_and_holds_until_another_session_is_loaded() {
    let host = Desk::new(Mode::Ask, Rules::new(), None).answering(UiAnswer::WiderSession);
    host.shell("git commit -m a").await;
    assert_eq!(host.asked.lock().unwrap()[0].wider, None, "an option may name a program to run");
    let desk = Desk::new(Mode::Ask, Rules::new(), None).contained().answering(UiAnswer::WiderSession);
    assert_eq!(desk.shell("ls && git commit -m a").await, None);
    let Approval { session, wider, .. } = desk.asked.lock().unwrap()[0].clone();
    assert_eq!(
        session.as_deref(),
        Some("exactly this call"),
        "what is narrow is offered beside what is wide"
    );
    let Wider { kind, allows, label, warning } = wider.unwrap();
    assert_eq!((kind, warning), (WiderKind::Prefix, None));
    assert_eq!(label, "every `git commit …`");
    assert!(allows.starts_with("commands that begin with `git commit`, in the sandbox alone"), "{allows}");
    assert!(allows.ends_with("so also `git commit --more`, but not `git commit > file`"), "{allows}");
    for command in ["git commit", "git commit --all | tail", "git commit --more"] {
        assert_eq!(desk.shell(command).await, None, "{command}");
    }
    assert_eq!(desk.asked(), 1);
    desk.shell("git push").await;
    desk.shell("git commit > file").await;
    assert_eq!(desk.asked(), 3);
    let loaded = SessionLoaded { session_id: Some("s_next".into()), entries: Arc::from([]) };
    desk.bus.cx().emit(loaded).await.unwrap();
    desk.shell("git commit").await;
    assert_eq!(desk.asked(), 4);
}

#[tokio::test]
async fn a_directory_is_offered_for_files_and_can_be_kept_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let store = Approvals::new(dir.path().join("approvals.toml"), Arc::new(LocalStateFiles::default()));
    let desk = Desk::new(Mode::Ask, Rules::new(), Some(store.clone())).answering(UiAnswer::WiderAlways);
    assert_eq!(desk.write("src/gen/a.rs").await, None);
    let Wider { kind, allows, label, .. } = desk.asked.lock().unwrap()[0].wider.clone().unwrap();
    assert_eq!((kind, label.as_str()), (WiderKind::Directory, "every edit in src/gen/"));
    assert_eq!(
        allows,
        "tools changing files below /p/src/gen, so also /p/src/gen/any/file, but not /p/src/file, nor what programs \
         write there",
        "the rule, what it matches and what not"
    );
    assert_eq!(desk.write("src/gen/any/file").await, None);
    assert_eq!(desk.asked(), 1);
    desk.write("src/file").await;
    assert_eq!(desk.asked(), 2);

    let mut rules = Rules::new();
    store.rules("/p".as_ref()).unwrap().into_iter().for_each(|rule| rules.push(rule));
    let later = Desk::new(Mode::Ask, rules, None);
    assert_eq!(later.write("src/gen/z.rs").await, None);
    assert!(later.write("other/z.rs").await.is_some());
}

#[tokio::test]
async fn nothing_wide_is_offered() {
    let desk = Desk::new(Mode::Ask, Rules::new(), None).answering(UiAnswer::Once);
    for command in [
        "rm -rf target",
        "sudo cargo test",
        "python3 x.py",
        "bash -c 'make'",
        "cargo build && npm test",
        // No file determines the executed code.
        "npm test",
        "cargo test 2>&1 | tail",
        "cargo --config x test",
        "npm run",
        "docker run x",
        "git -c a=b commit",
        "cargo $x",
        "curl x",
    ] {
        desk.shell(command).await;
        let asked = desk.asked.lock().unwrap().pop().unwrap();
        assert_eq!((asked.session.as_deref(), asked.wider), (Some("exactly this call"), None), "{command}");
    }
    desk.write(".git/config").await;
    desk.write("/etc/x").await;
    for approval in desk.asked.lock().unwrap().drain(..) {
        assert_eq!((approval.session.as_deref(), approval.wider), (Some("exactly this call"), None));
    }
}

#[tokio::test]
async fn a_rule_that_asks_does_so_every_time() {
    let rules = rules(&[(Decision::Ask, "make **"), (Decision::Allow, "make **")]);
    let desk = Desk::new(Mode::All, rules, None).answering(UiAnswer::Once);
    for _ in 0..3 {
        desk.shell("make x").await;
    }
    assert_eq!(desk.asked(), 3);
    let asked = desk.asked.lock().unwrap();
    let offers = |approval: &Approval| {
        approval.session.is_some() || approval.always.is_some() || approval.wider.is_some()
    };
    assert!(!asked.iter().any(offers));
}

#[tokio::test]
async fn exactly_this_for_the_session_allows_nothing_like_it() {
    let desk = Desk::new(Mode::Ask, Rules::new(), None).answering(UiAnswer::Session);
    for command in ["cargo test", "cargo test", "cargo test -p a"] {
        assert_eq!(desk.shell(command).await, None, "{command}");
    }
    assert_eq!(desk.asked(), 2);
    for path in ["src/a.rs", "src/a.rs", "src/b.rs"] {
        assert_eq!(desk.write(path).await, None, "{path}");
    }
    assert_eq!(desk.asked(), 4);
}

#[tokio::test]
async fn a_refusal_names_the_tightest_mode_that_would_have_let_it_run() {
    let rules = rules(&[(Decision::Deny, "git push **")]);
    for (mode, call, named) in [
        (Mode::ReadOnly, "src/a.rs", "`accept-edits`"),
        (Mode::Ask, "src/a.rs", "`accept-edits`"),
        (Mode::Ask, ".git/config", "`all`"),
        (Mode::AcceptEdits, "/etc/x", "`all`"),
    ] {
        let refusal = Desk::new(mode, rules.clone(), None).write(call).await.unwrap();
        assert!(refusal.contains(&format!("the permission mode {named} would allow it")), "{refusal}");
    }
    let refusal = Desk::new(Mode::Ask, Rules::new(), None).shell("make").await.unwrap();
    assert!(refusal.contains("the permission mode `all` would allow it"), "{refusal}");
    let refusal = Desk::new(Mode::All, rules, None).shell("git push").await.unwrap();
    assert!(refusal.contains("stands against it in every permission mode"), "{refusal}");
}

#[tokio::test]
async fn a_tighter_mode_holds_from_the_next_call_on_and_a_wider_one_from_the_next_turn_on() {
    let desk = Desk::new(Mode::Ask, Rules::new(), None);
    let modes = desk.judge.modes();
    modes.choose(Mode::AcceptEdits).unwrap();
    assert_eq!((modes.now(), modes.chosen()), (Mode::Ask, Mode::AcceptEdits));
    assert!(desk.write("src/a.rs").await.is_some(), "the turn is still the same");
    next_turn(&desk.bus).await;
    assert_eq!(desk.write("src/a.rs").await, None);
    modes.choose(Mode::ReadOnly).unwrap();
    assert!(desk.write("src/a.rs").await.is_some());
    // Tightened again before the turn that would have been wider.
    modes.choose(Mode::All).unwrap();
    modes.choose(Mode::ReadOnly).unwrap();
    next_turn(&desk.bus).await;
    assert!(desk.write("src/a.rs").await.is_some());
}

async fn next_turn(bus: &Bus) {
    let model = ModelRef::new("scripted", "m");
    let thinking = ThinkingRequest::default();
    let turn = TurnBefore { turn_id: TurnId::fresh(), turn: 2, model, messages: 1, thinking };
    bus.cx().emit(turn).await.unwrap();
}
