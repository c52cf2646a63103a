//! Which models there are.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_agent::{Agent, RunOptions};
use zk_core::events::{ModelsQuery, ModelsReply};
use zk_core::kernel::Cx;
use zk_core::model::{ErrorKind, Model, Phase, ProviderError, WireRules};
use zk_core::service::{EventStream, Provider, Request};
use zk_testkit::{Recorder, Script, ScriptedProvider};

use crate::support::{Rig, rig};

type List = Result<Option<Vec<Model>>, ErrorKind>;

/// Provider that knows one model, with a configurable list of its endpoint.
struct Lab {
    inner: ScriptedProvider,
    list: Mutex<List>,
}

impl Lab {
    fn new(name: &str, list: List) -> Arc<Self> {
        let inner = ScriptedProvider::new(Script::new().turn(|t| t.text("hi")))
            .named(name)
            .with_model(model(name, "known"));
        Arc::new(Self { inner, list: Mutex::new(list) })
    }
}

fn model(provider: &str, id: &str) -> Model {
    Model { window: Some(1000), ..Model::unknown(provider, id) }
}

#[async_trait]
impl Provider for Lab {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn model(&self, id: &str) -> Model {
        self.inner.model(id)
    }

    fn known_models(&self) -> Vec<Model> {
        self.inner.known_models()
    }

    fn rules(&self, model: &Model) -> WireRules {
        self.inner.rules(model)
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        self.inner.stream(request, cx)
    }

    async fn list_models(&self, _: &Cx) -> Result<Option<Vec<Model>>, ProviderError> {
        let why = "https://secret-host/v1 says no to key-canary";
        let list = self.list.lock().unwrap().clone();
        list.map_err(|kind| ProviderError::new(kind, self.name(), "*", Phase::Request, why))
    }
}

async fn known(agent: &Agent, query: ModelsQuery) -> Vec<String> {
    let known = agent.bus().cx().emit(query).await.unwrap();
    known.models.iter().map(|model| model.reference().to_string()).collect()
}

fn refreshed() -> ModelsQuery {
    ModelsQuery { refresh: true, ..ModelsQuery::default() }
}

/// Announcements, once everything in flight is done.
async fn announced(rig: &Rig) -> Vec<Value> {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    rig.recorder.named("models:changed")
}

#[tokio::test]
async fn the_models_of_all_providers_are_known_without_asking_and_those_of_endpoints_once_asked() {
    let rig = rig(Script::new());
    let list = vec![model("lab", "new"), model("lab", "known")];
    let lab = Lab::new("lab", Ok(Some(list)));
    rig.scope("lab").provide::<dyn Provider>("lab", lab.clone()).unwrap();
    assert_eq!(announced(&rig).await.len(), 1);
    let agent = &rig.agent;
    assert_eq!(known(agent, ModelsQuery::default()).await, ["scripted/scripted-1", "lab/known"]);
    assert_eq!(known(agent, refreshed()).await, ["scripted/scripted-1", "lab/new", "lab/known"]);
    let of_lab = ModelsQuery { provider: Some("lab".into()), ..ModelsQuery::default() };
    assert_eq!(known(agent, of_lab).await, ["lab/new", "lab/known"], "what was listed is remembered");
    let expected =
        [json!({"provider": "lab", "cause": "registered"}), json!({"provider": "lab", "cause": "listed"})];
    assert_eq!(announced(&rig).await, expected);
    known(agent, refreshed()).await;
    assert_eq!(announced(&rig).await.len(), 2, "the same list is no news");
    lab.list.lock().unwrap().as_mut().unwrap().as_mut().unwrap().pop();
    lab.list.lock().unwrap().as_mut().unwrap().as_mut().unwrap()[0].window = Some(2000);
    known(agent, refreshed()).await;
    assert_eq!(announced(&rig).await.len(), 3, "another window is");
}

#[tokio::test]
async fn a_registered_and_removed_provider_is_announced_and_its_list_dropped() {
    let rig = rig(Script::new());
    let scope = rig.scope("lab");
    scope.provide::<dyn Provider>("lab", Lab::new("lab", Ok(Some(vec![model("lab", "new")])))).unwrap();
    announced(&rig).await;
    known(&rig.agent, refreshed()).await;
    scope.close().await;
    assert_eq!(known(&rig.agent, ModelsQuery::default()).await, ["scripted/scripted-1"]);
    rig.scope("lab").provide::<dyn Provider>("lab", Lab::new("lab", Ok(None))).unwrap();
    assert_eq!(known(&rig.agent, ModelsQuery::default()).await, ["scripted/scripted-1", "lab/known"]);
    let causes: Vec<Value> = announced(&rig).await.iter().map(|event| event["cause"].clone()).collect();
    assert_eq!(causes, ["registered", "listed", "removed", "registered"]);
}

#[tokio::test]
async fn the_last_registration_of_a_provider_and_the_last_word_on_a_model_count() {
    let rig = rig(Script::new());
    rig.scope("first").provide::<dyn Provider>("lab", Lab::new("lab", Ok(None))).unwrap();
    let list = vec![model("lab", "second")];
    rig.scope("second").provide_replacing::<dyn Provider>("lab", Lab::new("lab", Ok(Some(list))));
    assert_eq!(known(&rig.agent, refreshed()).await, ["scripted/scripted-1", "lab/second", "lab/known"]);
    rig.scope("better").on_sync(|_: &ModelsQuery, _: &Cx| {
        let known = Model { window: Some(5), ..Model::unknown("lab", "known") };
        Some(ModelsReply::from(vec![known, Model::unknown("elsewhere", "m")]))
    });
    let query = rig.agent.bus().cx().emit(ModelsQuery::default()).await.unwrap();
    let windows: Vec<_> = query.models.iter().map(|model| (model.id.as_str(), model.window)).collect();
    assert_eq!(windows, [("scripted-1", None), ("second", Some(1000)), ("known", Some(5)), ("m", None)]);
}

// Nothing of an endpoint is on an event.
#[tokio::test]
async fn an_endpoint_that_fails_is_reported_by_the_error_kind_only() {
    let rig = rig(Script::new());
    rig.scope("lab").provide::<dyn Provider>("lab", Lab::new("lab", Err(ErrorKind::Auth))).unwrap();
    let query = rig.agent.bus().cx().emit(refreshed()).await.unwrap();
    let silent = json!([{"provider": "lab", "error": "auth"}]);
    let told = serde_json::to_value(&query).unwrap();
    assert_eq!(told["failed"], silent);
    assert!(!told.to_string().contains("canary") && !told.to_string().contains("secret-host"));
    assert_eq!(query.models.len(), 2, "what is known without asking is there all the same");
}

// A choice of an unknown model is kept, and a later registration makes it valid.
#[tokio::test]
async fn a_model_that_was_chosen_before_its_provider_came_is_kept_and_known_better_then() {
    let provider = Arc::new(ScriptedProvider::new(Script::new()));
    let chosen = Model::unknown("lab", "chosen");
    let recorder = Recorder::new();
    let agent = Agent::builder(provider).model(chosen.clone()).plugin(recorder.clone()).build().unwrap();
    assert_eq!(agent.model(), chosen);
    agent.run("go").unwrap().wait().await.result.unwrap_err();
    agent.bus().scope("lab").provide::<dyn Provider>("lab", Lab::new("lab", Ok(None))).unwrap();
    assert_eq!((agent.model().reference(), agent.model().window), (chosen.reference(), Some(1000)));
    assert_eq!(agent.run(RunOptions::resume()).unwrap().wait().await.text, "hi");
}

#[tokio::test]
async fn an_agent_that_is_gone_answers_nothing_and_is_not_kept_alive_by_its_bus() {
    let bus = zk_core::kernel::Bus::new();
    let provider = Lab::new("lab", Ok(None));
    let weak = Arc::downgrade(&provider);
    drop(Agent::builder(provider).model_id("known").bus(bus.clone()).build().unwrap());
    assert!(weak.upgrade().is_none());
    assert!(bus.cx().emit(ModelsQuery::default()).await.unwrap().models.is_empty());
}
