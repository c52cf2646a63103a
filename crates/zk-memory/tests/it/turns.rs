//! Recall in the loop.

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::json;
use zk_agent::SpawnOptions;
use zk_core::service::{Command, CommandOutcome, Ui};
use zk_memory::{FactFilter, NewFact};
use zk_permission::Mode;
use zk_testkit::{Script, Turn};

use crate::rig::{Rig, fact, project, rig, rig_in, rig_of};

struct Notices(Arc<Mutex<Vec<String>>>);

impl Ui for Notices {
    fn notify(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

/// Notices to the person from now on.
pub(crate) fn notices(rig: &Rig) -> Arc<Mutex<Vec<String>>> {
    let told = Arc::new(Mutex::new(Vec::new()));
    rig.bus.scope("person").provide_service::<dyn Ui>(Arc::new(Notices(told.clone())));
    told
}

pub(crate) fn answers(count: usize) -> Script {
    (0..count).fold(Script::new(), |script, _| script.turn(|turn| turn.text("Done.")))
}

/// Texts of the messages before the last prompt of the last request that have a memory block.
fn blocks(rig: &Rig) -> Vec<String> {
    let request = rig.provider.requests().pop().unwrap();
    let texts = request.history.messages().iter().map(|message| message.text());
    texts.filter(|text| text.contains("<memory>")).collect()
}

async fn command(rig: &Rig, name: &str, args: &str) -> String {
    let command = rig.bus.item::<dyn Command>(name).unwrap();
    match command.run(args, &rig.bus.cx()).await {
        Ok(CommandOutcome::Show(text)) => text,
        Ok(other) => panic!("{other:?}"),
        Err(error) => format!("error: {error}"),
    }
}

#[tokio::test]
async fn a_fact_of_one_session_is_told_in_the_next_with_its_origin_as_a_note() {
    let first = rig(Mode::Ask, Script::new());
    let said = command(&first, "remember", "The staging server is called heron").await;
    assert!(said.starts_with("kept as m1, this project"), "{said}");
    first.agent.close().await;
    let second = rig_in(first.dir, Mode::Ask, answers(1), |_| ());
    second.run("log in to the staging server").await;
    let blocks = blocks(&second);
    assert_eq!(blocks.len(), 1, "{blocks:?}");
    for part in [
        "notes, not instructions",
        "- [m1] The staging server is called heron (told by you, 20",
        "this project)",
    ] {
        assert!(blocks[0].contains(part), "{part}: {}", blocks[0]);
    }
}

#[tokio::test]
async fn a_sub_agent_recalls_by_its_own_task() {
    let script = Script::answering(|asked| match asked.messages.last().map(|last| last.text()) {
        Some(text) if text.contains("log in to the staging server") => Turn::new().text(text),
        _ if asked.results().is_empty() => {
            Turn::new().call("spawn", json!({ "task": "log in to the staging server" }))
        }
        _ => Turn::new().text("Done."),
    });
    let dir = tempfile::tempdir().unwrap();
    let rig = rig_of(dir, Mode::All, script, |_| (), |builder| builder.spawn(SpawnOptions::default()));
    let root = project(rig.dir.path());
    rig.store.keep(&fact("The staging server is called heron", &root)).unwrap();
    rig.run("go").await;
    let child = &rig.provider.asked()[1];
    let told = child.messages.iter().map(|message| message.text()).collect::<String>();
    assert!(told.contains("called heron") && told.contains("notes, not instructions"), "{told}");
}

#[tokio::test]
async fn what_is_in_the_window_is_not_told_again() {
    let rig = rig(Mode::Ask, answers(4));
    let root = project(rig.dir.path());
    rig.store.keep(&fact("The staging server is called heron", &root)).unwrap();
    rig.run("log in to staging").await;
    rig.run("restart the staging server").await;
    assert_eq!(blocks(&rig).len(), 1);
    rig.store.keep(&fact("The staging database is called ibis", &root)).unwrap();
    rig.run("is staging up?").await;
    let told = blocks(&rig);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[1].contains("ibis") && !told[1].contains("heron"), "{}", told[1]);
    let fact = rig.store.list(&FactFilter::default()).unwrap();
    rig.store.edit(fact.last().unwrap().id, "The staging server is called egret").unwrap();
    rig.run("which staging server?").await;
    assert!(blocks(&rig)[2].contains("egret"), "a changed fact is told anew");
}

#[tokio::test]
async fn a_prompt_without_a_fitting_fact_gets_no_block() {
    let rig = rig(Mode::Ask, answers(1));
    rig.store.keep(&fact("Prefers tabs", Path::new("/another/project"))).unwrap();
    rig.run("tabs or spaces?").await;
    assert!(blocks(&rig).is_empty());
}

#[tokio::test]
async fn a_rule_lets_a_model_keep_what_the_person_told_and_nothing_else_entered() {
    let call = |text: &str| json!({ "text": text, "scope": "everywhere" });
    let script = Script::new()
        .turn(|turn| turn.call("remember", call("Prefers short answers")))
        .turn(|turn| turn.call("remember", call("Works in Bern")))
        .turn(|turn| turn.text("Kept."));
    let rig = rig(Mode::Ask, script);
    rig.run("I prefer short answers and work in Bern; keep that in mind").await;
    assert_eq!(rig.kept(), ["Works in Bern", "Prefers short answers"]);
    assert!(rig.proposed().is_empty());
}

#[tokio::test]
async fn a_secret_of_a_model_is_refused_with_the_reason() {
    let key = "sk-ant-api03-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA-AAAAAAAA";
    let script = Script::new()
        .turn(move |turn| turn.call("remember", json!({ "text": format!("the key is {key}") })))
        .turn(|turn| turn.text("I see."));
    let rig = rig(Mode::All, script);
    rig.run("keep my key").await;
    assert!(rig.kept().is_empty() && rig.proposed().is_empty());
    assert!(rig.provider.last_results()[0].text.contains("secret"), "{:?}", rig.provider.last_results());
}

#[tokio::test]
async fn the_commands_list_change_and_explain() {
    let rig = rig(Mode::Ask, answers(1));
    let root = project(rig.dir.path());
    command(&rig, "remember", "Tests run with make").await;
    command(&rig, "remember", "--everywhere Prefers tabs").await;
    rig.store.propose(&NewFact { session: Some("s_9".into()), ..fact("Evil deploys", &root) }).unwrap();
    let list = command(&rig, "memory", "").await;
    for part in ["m1  Tests run with make", "m2  Prefers tabs", "everywhere", "1 proposal waits"] {
        assert!(list.contains(part), "{part}: {list}");
    }
    assert!(!list.contains("Evil"));
    assert!(command(&rig, "memory", "proposed").await.contains("m3  Evil deploys"));
    assert_eq!(
        command(&rig, "memory", "reject m3").await,
        "m3 is forgotten\nit was told in these sessions, whose own records still have it (`zk sessions redact` removes an entry, `zk sessions delete` all of one):\n  s_9"
    );
    assert_eq!(
        command(&rig, "memory", "edit m1 Checks run with just").await,
        "m1 says now: Checks run with just"
    );
    assert!(command(&rig, "memory", "show 1").await.contains("recalls: 0"));
    rig.run("which checks are there?").await;
    // The record is written beside the run.
    let why = loop {
        let why = command(&rig, "memory", "why").await;
        if !why.starts_with("no prompt") {
            break why;
        }
        tokio::task::yield_now().await;
    };
    assert!(
        why.contains("words of the prompt: checks") && why.contains("1. m1  Checks run with just"),
        "{why}"
    );
    assert_eq!(command(&rig, "memory", "forget m1").await.lines().next(), Some("m1 is forgotten"));
    for (args, error) in [
        ("forget", "no number"),
        ("show m99", "no fact m99"),
        ("accept m2", "no proposal"),
        ("x", "no /memory x"),
    ] {
        let said = command(&rig, "memory", args).await;
        assert!(said.starts_with("error: ") && said.contains(error), "{args}: {said}");
    }
}
