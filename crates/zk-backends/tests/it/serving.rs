use zk_core::service::{NewSession, SessionStore as _, UiAnswer};
use zk_permission::Mode;
use zk_session::MemoryStore;

use crate::support::{approval, project, rig, rig_in};

#[tokio::test(flavor = "multi_thread")]
async fn files_of_the_agent_go_through_zk() {
    let rig = rig(&[]).await;
    let (outcome, asked) = rig.run_answering("use files", UiAnswer::Once).await;
    assert_eq!(outcome.text, r#"[{"content": "b = 2\n"}, false, true]"#);
    assert!(approval(&asked).title.starts_with("Create "), "{}", approval(&asked).title);
    assert_eq!(std::fs::read_to_string(rig.dir.path().join("new.txt")).unwrap(), "n\n");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_of_the_agent_is_a_command_of_zk() {
    let rig = rig(&[]).await;
    let (outcome, asked) = rig.run_answering("use a terminal", UiAnswer::Once).await;
    assert_eq!(outcome.text, r#"[0, "it's $HOME\n", true]"#);
    assert_eq!(approval(&asked).parts[0].lines, [r"echo 'it'\''s' '$HOME'"]);
    let (dir, session) = (rig.dir.clone(), rig.session.clone());
    rig.close().await;
    let rig = rig_in(dir, session, &[], Mode::ReadOnly).await;
    assert!(rig.run("use a terminal").await.text.starts_with("refused: "));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_of_an_agent_without_a_sandbox_is_asked_about_as_one_outside() {
    let rig = rig(&[]).await;
    let (outcome, asked) = rig.run_answering("run a command", UiAnswer::Once).await;
    assert_eq!(outcome.text, "The answer was yes.");
    assert!(approval(&asked).title.contains("OUTSIDE the sandbox"), "{}", approval(&asked).title);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_asks_before_it_writes_and_what_it_has_zk_write_is_answered_by_the_mode() {
    for (mode, cards, answers) in [
        (Mode::Ask, 2, r#"["yes", true]"#),
        (Mode::All, 0, r#"["yes", true]"#),
        (Mode::ReadOnly, 0, r#"["no", false]"#),
    ] {
        let new = NewSession { id: None, cwd: "/".into(), parent: None };
        let session = MemoryStore::new().create(new).await.unwrap();
        let rig = rig_in(project(), session, &[], mode).await;
        let answering = async {
            let front_end = rig.questions.attach();
            for _ in 0..cards {
                let asked = front_end.next().await;
                front_end.answer(asked.id, asked.digest, UiAnswer::Once).unwrap();
            }
            format!("{:?}", front_end.next().await.question)
        };
        let outcome = tokio::select! {
            outcome = rig.run("write a file") => outcome,
            title = answering => panic!("{mode:?}: one card too many: {title}"),
        };
        assert_eq!(outcome.text, answers, "{mode:?}");
        assert_eq!(rig.dir.path().join("new.txt").exists(), mode != Mode::ReadOnly, "{mode:?}");
        let told = rig.told.lock().unwrap().join("\n");
        assert!(told.contains("without a card"), "said before the first answer: {told}");
        rig.close().await;
    }
}
