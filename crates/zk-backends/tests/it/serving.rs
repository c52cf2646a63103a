use zk_core::service::UiAnswer;
use zk_permission::Mode;

use crate::support::{approval, rig, rig_in};

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
