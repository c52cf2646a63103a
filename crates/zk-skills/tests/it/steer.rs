//! Skills that a person asks for while a run is at work.

use std::sync::Arc;

use serde_json::json;
use zk_agent::Agent;
use zk_core::events::TurnAfter;
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{Message, Role};
use zk_core::service::{HostFiles, RunControl};
use zk_exec::LocalHostFiles;
use zk_skills::{SkillsOptions, SkillsPlugin};
use zk_testkit::{Recorder, Script, ScriptedProvider};

use crate::support::Place;

#[tokio::test]
async fn a_skill_that_a_run_is_steered_with_counts_from_there_on() {
    let at = Place::new();
    at.write(
        "home/.agents/skills/pdf/SKILL.md",
        "---\nname: pdf\ndescription: Reads PDF files.\nallowed-tools: Read\n---\nTake $1.\n",
    );
    let bus = Bus::new();
    bus.scope("files").provide_service::<dyn HostFiles>(Arc::new(LocalHostFiles::new()));
    bus.install(&SkillsPlugin::new(SkillsOptions::new(at.roots()))).unwrap();
    bus.scope("person").on_sync(|turn: &TurnAfter, cx: &Cx| {
        if turn.turn == 1 {
            let control = cx.service::<dyn RunControl>().unwrap();
            control.steer(Message::injected("/skill:pdf page", "steer")).unwrap();
            control.follow_up(Message::injected("/skill:none", "follow-up")).unwrap();
        }
    });
    let script = Script::new()
        .turn(|turn| turn.call("nothing", json!({})))
        .turn(|turn| turn.text("Steered."))
        .turn(|turn| turn.text("Done."));
    let (provider, recorder) = (ScriptedProvider::new(script), Recorder::new());
    let agent = Agent::builder(Arc::new(provider.clone()))
        .unguarded()
        .bus(bus)
        .plugin(recorder.clone())
        .cwd(at.path("project"))
        .build()
        .unwrap();
    agent.run("Go").unwrap().wait().await.result.unwrap();
    let texts: Vec<String> = agent
        .history()
        .iter()
        .filter(|message| message.role == Role::User && message.results().count() == 0)
        .map(|message| format!("{}: {}", message.injected_by.as_deref().unwrap_or("-"), message.text()))
        .collect();
    assert!(texts[0] == "-: Go" && texts[1] == "steer: /skill:pdf page", "{texts:?}");
    assert!(
        texts[2].starts_with("skill:pdf: <skill_content") && texts[2].contains("Take page."),
        "{texts:?}"
    );
    assert!(
        texts[4].starts_with("skill:none: ") && texts[4].contains("there is no skill `none`"),
        "{texts:?}"
    );
    let requests = provider.requests();
    assert!(format!("{:?}", requests[1].history.messages().last()).contains("Take page."));
    assert_eq!(recorder.named("skills:activated")[0]["via"], "explicit");
}
