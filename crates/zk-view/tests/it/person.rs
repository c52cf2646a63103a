//! A person in front of a view: intents go in, patches come out, and one driver does the rest.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use zk_agent::AgentConversation;
use zk_core::events::{Input, InputReply, Ruling, ToolGate};
use zk_core::kernel::Cx;
use zk_core::service::{Question, Questions, SwitchTarget, UiAnswer};
use zk_testkit::Script;
use zk_view::{Activity, CallState, Content, Effect, Intent, NoteLevel, Reader, View, ViewDriver};

use crate::support::{call, rig_of};

async fn ask(questions: &Arc<Questions>, gate: &ToolGate, cx: &Cx) -> Option<Ruling> {
    let question = Question::Confirm { text: format!("Run {}?", gate.call.name) };
    match questions.ask(question, cx, Duration::from_secs(20)).await {
        UiAnswer::Once => None,
        _ => Some(Ruling::refuse("no")),
    }
}

struct Person {
    driver: ViewDriver,
    reader: Reader,
    view: View,
}

impl Person {
    /// Reads patches until the view satisfies `is_so`.
    async fn sees(&mut self, is_so: impl Fn(&View) -> bool) {
        while !is_so(&self.view) {
            for patch in self.reader.next().await.unwrap() {
                self.view.apply(&patch);
            }
        }
    }

    fn wants(&self, intent: &Intent) {
        self.driver.intent(intent);
    }

    async fn agrees(&mut self) {
        self.sees(|view| !view.cards.is_empty()).await;
        let card = &self.view.cards[0];
        self.wants(&Intent::Answer { id: card.id, digest: card.digest, answer: UiAnswer::Once });
    }

    async fn is_idle_after(&mut self, blocks: usize) {
        self.sees(|view| view.blocks.len() > blocks && view.status.activity == Activity::Idle).await;
    }

    fn says(&self, text: &str) -> bool {
        self.view.blocks.iter().any(|block| match &block.content {
            Content::User { text: said, .. }
            | Content::Injected { text: said, .. }
            | Content::Note { text: said, .. }
            | Content::Answer { text: said, .. } => said.as_str().contains(text),
            _ => false,
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_front_end_needs_nothing_but_intents_and_patches() {
    let questions = Arc::new(Questions::new());
    let script = Script::new()
        .turn(|t| t.call("run", json!({"text": "one"})))
        .turn(|t| t.text("Counted."))
        .turn(|t| t.call("stuck", json!({})));
    let rig = rig_of(ViewDriver::answering(&questions), script, |builder| builder).await;
    rig.agent.bus().scope("consent").on_async_with(questions, ask);
    let conversation = AgentConversation::new(rig.agent.clone());
    let driver = rig.driver.clone();
    let host = tokio::spawn(async move { driver.drive(&conversation).await });
    let mut person =
        Person { driver: rig.driver.clone(), reader: rig.driver.reader(), view: View::default() };

    person.wants(&Intent::Submit { text: "count".into() });
    person.sees(|view| !view.cards.is_empty()).await;
    person.wants(&Intent::Steer { text: "faster".into() });
    person.agrees().await;
    person.is_idle_after(4).await;
    assert!(person.says("count") && person.says("faster") && person.says("Counted."), "{}", rig.lines());
    assert!(person.view.cards.is_empty() && person.view.queue.is_empty());

    let before = person.view.blocks.len();
    person.wants(&Intent::Submit { text: "wait".into() });
    person.agrees().await;
    let is_running = |view: &View| {
        view.blocks.iter().filter_map(|block| call(block)).any(|call| call.state == CallState::Running)
    };
    person.sees(is_running).await;
    person.wants(&Intent::Submit { text: "later".into() });
    person.wants(&Intent::Stop);
    person.is_idle_after(before + 2).await;
    assert_eq!(person.view.queue.len(), 1, "a stopped run takes nothing of what waits");

    person.wants(&Intent::Switch { to: SwitchTarget::Session("s_1".into()) });
    person.sees(|view| matches!(view.blocks.last().unwrap().content, Content::Note { .. })).await;
    assert!(person.says("this conversation has no store"), "{}", rig.lines());
    assert_eq!(person.view.switches, 0);
    person.wants(&Intent::Switch { to: SwitchTarget::New });
    person.sees(|view| view.switches == 1).await;
    assert_eq!(person.view.blocks, []);
    assert_eq!(host.await.unwrap(), Effect::GiveBack { text: "later".into() });
}

#[tokio::test(start_paused = true)]
async fn a_text_that_a_handler_of_input_rewrites_or_takes_leaves_the_queue() {
    let questions = Arc::new(Questions::new());
    let script = Script::new()
        .turn(|t| t.call("run", json!({"text": "one"})))
        .turn(|t| t.text("Counted."))
        .turn(|t| t.text("Sent again."));
    let rig = rig_of(ViewDriver::answering(&questions), script, |builder| builder).await;
    rig.agent.bus().scope("consent").on_async_with(questions, ask);
    rig.agent.bus().scope("guard").on_sync(|input: &Input, _: &Cx| match input.text.as_str() {
        "secret" => Some(InputReply::Handled),
        "faster" => Some(InputReply::Transform { text: "Go faster.".into(), images: None }),
        _ => None,
    });
    let conversation = AgentConversation::new(rig.agent.clone());
    let driver = rig.driver.clone();
    let host = tokio::spawn(async move { driver.drive(&conversation).await });
    let mut person =
        Person { driver: rig.driver.clone(), reader: rig.driver.reader(), view: View::default() };
    person.wants(&Intent::Submit { text: "count".into() });
    person.sees(|view| !view.cards.is_empty()).await;
    person.wants(&Intent::Steer { text: "secret".into() });
    person.wants(&Intent::Steer { text: "faster".into() });
    person.sees(|view| view.queue.len() == 2).await;
    person.agrees().await;
    person.is_idle_after(3).await;
    assert!(person.says("Go faster.") && person.says("Counted."), "{}", rig.lines());
    assert_eq!(person.view.queue, [], "{}", rig.lines());
    assert!(!person.says("Sent again."), "{}", rig.lines());
    host.abort();
}

#[tokio::test]
async fn answers_of_a_view_without_questions_go_through_the_conversation() {
    let questions = Arc::new(Questions::new());
    let rig = rig_of(ViewDriver::new(), Script::new(), |builder| builder).await;
    rig.agent.bus().scope("host").provide_service(questions.clone());
    let front_end = questions.attach();
    let conversation = AgentConversation::new(rig.agent.clone());
    let (cx, driver) = (rig.agent.bus().cx(), rig.driver.clone());
    let asked = questions.ask(Question::Confirm { text: "Go on?".into() }, &cx, Duration::from_secs(20));
    let answered = async {
        let card = front_end.next().await;
        for answer in [UiAnswer::Choice { index: 3 }, UiAnswer::Once] {
            driver.intent(&Intent::Answer { id: card.id, digest: card.digest, answer });
            let effect = driver.take_effect().unwrap();
            assert_eq!(driver.carry_out(&conversation, effect).await, None);
        }
    };
    assert_eq!(tokio::join!(asked, answered).0, UiAnswer::Once);
    let view = rig.driver.view();
    let Content::Note { level: NoteLevel::Warning, text } = &view.blocks[0].content else {
        panic!("{view:?}")
    };
    assert!(text.as_str().contains("none of the answers"), "{text}");
}
