use zk_core::service::{Backend, UiAnswer};
use zk_permission::Mode;

use crate::support::{approval, rig, rig_in};

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_answers_with_thoughts_a_plan_a_diff_and_a_card() {
    let rig = rig(&[]).await;
    let (outcome, asked) = rig.run_answering("do the whole thing", UiAnswer::Once).await;
    outcome.result.unwrap();
    let card = approval(&asked);
    let path = rig.dir.path().join("cart.py");
    assert_eq!(card.title, format!("Edit {}?   +1 −1", path.display()));
    let lines: Vec<&str> = card.parts.iter().flat_map(|part| &part.lines).map(String::as_str).collect();
    assert!(lines.contains(&"-b = 2") && lines.contains(&"+b = 3"), "{lines:?}");
    assert!(lines.contains(&"tester"), "{lines:?}");
    let drawn = rig.drawn().await.join("\n");
    for part in [
        "Thought",
        "▸ change the cart",
        "☐ run it",
        "I change it.",
        "edit cart.py",
        "b = 3",
        "It is changed.",
    ] {
        assert!(drawn.contains(part), "{part}: {drawn}");
    }
    let blocks = format!("{:?}", rig.view.view().blocks);
    assert!(blocks.contains("I look at the cart."), "{blocks}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a = 1\nb = 3\nc = 3\n");
    let told = rig.told.lock().unwrap().join("\n");
    assert!(told.contains("its own permissions") && told.contains("no sandbox here"), "{told}");
    let (outcome, _) = rig.run_answering("do the whole thing", UiAnswer::No { message: None }).await;
    assert_eq!(outcome.text, "It stays as it is.");
    let permissions: Vec<String> =
        rig.log().into_iter().filter(|line| line.starts_with("permission")).collect();
    assert!(permissions[0].contains("\"yes\"") && permissions[1].contains("\"no\""), "{permissions:?}");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_reaches_the_agent_and_the_conversation_goes_on() {
    let rig = rig(&[]).await;
    let run = rig.start("wait for it");
    rig.shows("wait for you").await;
    run.abort();
    let outcome = tokio::time::timeout(crate::support::PATIENCE, run.wait()).await.unwrap();
    assert!(outcome.result.is_err());
    assert_eq!(rig.run("hello").await.text, "You said: hello");
    let log = rig.log();
    assert!(log.iter().any(|line| line == "session/cancel"), "{log:?}");
    assert_eq!(log.iter().filter(|line| *line == "session/new").count(), 1);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_steers_is_the_next_prompt_of_the_agent() {
    let rig = rig(&[]).await;
    let run = rig.start("a double step");
    rig.shows("the first step").await;
    run.steer("something else").unwrap();
    std::fs::write(rig.dir.path().join("go"), "").unwrap();
    let outcome = tokio::time::timeout(crate::support::PATIENCE, run.wait()).await.unwrap();
    assert_eq!(outcome.text, "You said: something else");
    assert!(rig.log().iter().any(|line| line == "session/cancel"));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_with_that_of_the_agent_after_a_restart() {
    let first = rig(&[]).await;
    assert_eq!(first.run("one").await.text, "You said: one");
    let (dir, session) = (first.dir.clone(), first.session.clone());
    first.close().await;
    let second = rig_in(dir, session, &[], Mode::Ask).await;
    assert_eq!(second.run("two").await.text, "You said: two");
    let log = second.log();
    assert_eq!(log.iter().filter(|line| *line == "session/new").count(), 1, "{log:?}");
    assert_eq!(log.iter().filter(|line| *line == "session/load").count(), 1, "{log:?}");
    assert!(!second.drawn().await.join("\n").contains("replayed"));
    second.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_of_the_agent_is_chosen_by_its_option() {
    let rig = rig(&[]).await;
    rig.run("one").await;
    let provider = rig.backend.provider().unwrap();
    let models: Vec<String> = provider.known_models().into_iter().map(|model| model.id).collect();
    assert_eq!(models, ["default", "small", "large"]);
    rig.agent.set_model(provider.model("large")).await.unwrap();
    rig.run("two").await.result.unwrap();
    assert!(rig.log().iter().any(|line| line == "session/set_config_option"));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_that_reads_only_refuses_what_the_agent_asks() {
    let rig = rig(&[]).await;
    let (dir, session) = (rig.dir.clone(), rig.session.clone());
    rig.close().await;
    let rig = rig_in(dir, session, &[], Mode::ReadOnly).await;
    assert_eq!(rig.run("run a command").await.text, "The answer was no.");
    rig.close().await;
}
