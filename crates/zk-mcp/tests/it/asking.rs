//! Requests of servers to the model, and the directories servers are told of.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::model::{AgentError, Message, ModelRef, RunId, ToolErrorKind, TurnId, TurnUsage, Usage};
use zk_core::service::{
    Question, Questions, RunControl, RunEnded, RunState, SideAnswer, SideCall, ToolCx, UiAnswer,
};
use zk_mcp::{McpPlugin, ServerConfig};
use zk_testkit::{FakeMcpEra, FakeMcpScript};

use crate::support::{Host, LONG, config, fake};

/// Run whose model repeats its input.
#[derive(Default)]
pub(crate) struct Run {
    pub(crate) asked: Mutex<Vec<SideCall>>,
}

#[async_trait]
impl RunControl for Run {
    fn run_id(&self) -> RunId {
        RunId::fresh()
    }

    fn state(&self) -> RunState {
        RunState { turn: 1, stopping: false, steering: 0, follow_ups: 0 }
    }

    fn steer(&self, message: Message) -> Result<(), RunEnded> {
        Err(RunEnded { message: message.shared() })
    }

    fn follow_up(&self, message: Message) -> Result<(), RunEnded> {
        Err(RunEnded { message: message.shared() })
    }

    fn next_prompt(&self, _: Message) {}

    fn abort(&self, _: &str) {}

    async fn side_call(&self, call: SideCall) -> Result<SideAnswer, AgentError> {
        self.asked.lock().unwrap().push(call);
        let usage = TurnUsage {
            turn_id: TurnId::fresh(),
            model: ModelRef::new("fake", "fake-1"),
            usage: Usage::default(),
            cost: None,
        };
        Ok(SideAnswer { text: "an animal".to_owned(), usage })
    }
}

/// Host whose server of that era may use `sampling` as configured.
pub(crate) async fn host(era: FakeMcpEra, sampling: &str) -> Host {
    let mut definition = fake(&FakeMcpScript { era, ..FakeMcpScript::default() });
    definition["sampling"] = json!(sampling);
    let host = Host::of([ServerConfig::read("fake", &definition).unwrap()]);
    host.servers.warm_up(LONG).await;
    host
}

async fn sample(host: &Host, run: Option<&Arc<Run>>) -> Result<String, String> {
    let mut cx = host.bus.cx();
    if let Some(run) = run {
        cx = cx.with_service::<dyn RunControl>(run.clone());
    }
    let called = host.call_with("mcp_fake_sample", json!({}), &ToolCx::new(cx, "/")).await;
    called.map(|output| output.content.to_text()).map_err(|error| {
        assert_eq!(error.kind, ToolErrorKind::Failed);
        error.message
    })
}

#[tokio::test]
async fn a_server_gets_an_answer_of_the_model_of_the_run_that_calls_it() {
    for era in [FakeMcpEra::Legacy, FakeMcpEra::Modern] {
        let (host, run) = (host(era, "allow").await, Arc::new(Run::default()));
        let answer: Value = serde_json::from_str(&sample(&host, Some(&run)).await.unwrap()).unwrap();
        assert_eq!((&answer["role"], &answer["model"]), (&json!("assistant"), &json!("fake-1")), "{era:?}");
        assert_eq!(answer["content"]["text"], "an animal");
        let asked = run.asked.lock().unwrap().remove(0);
        assert_eq!((asked.system.as_str(), asked.max_tokens), ("Be brief.", Some(50)));
        assert_eq!(asked.messages[0].text(), "What is a cat?");
        assert!(asked.purpose.contains("fake"), "{}", asked.purpose);
        host.bus.close().await;
    }
}

#[tokio::test]
async fn the_model_answers_no_server_unless_a_person_or_the_settings_allow_it_nor_outside_a_run() {
    for era in [FakeMcpEra::Legacy, FakeMcpEra::Modern] {
        for (sampling, with_run, why) in
            [("ask", true, "nobody is there"), ("deny", true, "deny"), ("allow", false, "run of zk")]
        {
            let (host, run) = (host(era, sampling).await, Arc::new(Run::default()));
            let told = sample(&host, with_run.then_some(&run)).await;
            // The older era reports it to the server, whose result repeats it.
            let told = told.unwrap_or_else(|error| error);
            assert!(told.contains(why), "{era:?} {sampling}: {told}");
            assert!(run.asked.lock().unwrap().is_empty());
            host.bus.close().await;
        }
    }
}

#[tokio::test]
async fn a_person_sees_what_the_model_would_be_asked_and_may_decline_it() {
    let (host, run) = (host(FakeMcpEra::Modern, "ask").await, Arc::new(Run::default()));
    let questions = Arc::new(Questions::new());
    host.bus.scope("person").provide_service(questions.clone());
    let person = questions.attach();
    for (answer, count) in [(UiAnswer::No { message: None }, 0), (UiAnswer::Once, 1)] {
        let answering = async {
            let asked = person.next().await;
            let Question::Confirm { text } = &asked.question else { panic!("{asked:?}") };
            assert!(text.contains("MCP server fake") && text.contains("at most 50 tokens"), "{text}");
            assert!(text.contains("Be brief.") && text.contains("What is a cat?"), "{text}");
            person.answer(asked.id, asked.digest, answer).unwrap();
        };
        let (told, ()) = tokio::join!(sample(&host, Some(&run)), answering);
        assert_eq!(told.is_ok(), count == 1, "{told:?}");
        assert_eq!(run.asked.lock().unwrap().len(), count);
    }
    host.bus.close().await;
}

#[tokio::test]
async fn a_server_is_told_of_all_directories_of_the_conversation() {
    let servers = [config("fake", &FakeMcpScript::default())];
    let roots = ["/home/me/my project".into(), "/elsewhere".into()];
    let host = Host::new(McpPlugin::new(servers, std::env::temp_dir()).roots(roots));
    host.servers.warm_up(LONG).await;
    let told: Value = serde_json::from_str(&host.text("mcp_fake_roots", json!({})).await).unwrap();
    assert_eq!(
        told["roots"],
        json!([{"uri": "file:///home/me/my%20project", "name": "my project"},
               {"uri": "file:///elsewhere", "name": "elsewhere"}])
    );
    host.bus.close().await;
}
