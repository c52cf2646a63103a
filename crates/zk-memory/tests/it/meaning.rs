//! Recall by meaning, with an embedding model that knows two topics.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use zk_agent::Agent;
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{AgentError, ErrorKind, Model, Phase, ProviderError, WireRules};
use zk_core::service::{EMBEDDINGS_PART, EventStream, PartModel, PartModels, Provider, Request};
use zk_memory::{Memory, MemorySettings, MemoryStore};
use zk_skills::ContextStreams;
use zk_testkit::ScriptedProvider;

use crate::rig::{db, fact};
use crate::turns::answers;

/// Provider with an embedding model.
struct Topics {
    inner: ScriptedProvider,
    fails: AtomicBool,
    asked: AtomicUsize,
}

/// Vector of a text: what it has of ships, of bread, and of anything.
fn vector(text: &str) -> Vec<f32> {
    let has = |words: [&str; 3]| words.iter().filter(|word| text.contains(**word)).count() as f32;
    vec![has(["harbour", "vessel", "anchor"]), has(["dough", "oven", "loaf"]), 0.01]
}

#[async_trait]
impl Provider for Topics {
    fn name(&self) -> &str {
        "topics"
    }

    fn inner(&self) -> Option<&dyn Provider> {
        Some(&self.inner)
    }

    fn model(&self, id: &str) -> Model {
        Model::unknown("topics", id)
    }

    fn rules(&self, model: &Model) -> WireRules {
        self.inner.rules(model)
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        self.inner.stream(request, cx)
    }

    async fn embed(
        &self,
        model: &str,
        texts: &[String],
        _: &Cx,
    ) -> Result<Option<Vec<Vec<f32>>>, ProviderError> {
        assert_eq!(model, "small");
        self.asked.fetch_add(texts.len(), Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            return Err(ProviderError::new(
                ErrorKind::Transport,
                "topics",
                model,
                Phase::Connect,
                "no route",
            ));
        }
        Ok(Some(texts.iter().map(|text| vector(text)).collect()))
    }
}

struct Parts;

#[async_trait]
impl PartModels for Parts {
    async fn choose(&self, part: &str, _: &Cx) -> PartModel {
        assert_eq!(part, EMBEDDINGS_PART);
        PartModel::Own(Box::new(Model::unknown("topics", "small")))
    }

    async fn replace(&self, _: &str, _: &Model, _: &AgentError, _: &Cx) -> PartModel {
        PartModel::OfRun
    }
}

struct Meant {
    agent: Agent,
    store: Arc<MemoryStore>,
    chat: ScriptedProvider,
    topics: Arc<Topics>,
    told: Arc<Mutex<Vec<String>>>,
    _dir: tempfile::TempDir,
}

fn meant(prompts: usize) -> Meant {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::new();
    bus.install(&ContextStreams::new()).unwrap();
    let store = Arc::new(MemoryStore::new(db(dir.path())));
    let settings =
        MemorySettings { embeddings: Some("topics/small".to_owned()), ..MemorySettings::default() };
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = told.clone();
    let memory = Memory::new(store.clone(), "/p", settings);
    bus.install(&memory.telling(move |text| telling.lock().unwrap().push(text.to_owned()))).unwrap();
    let chat = ScriptedProvider::new(answers(prompts));
    let (fails, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let topics = Arc::new(Topics { inner: chat.clone(), fails, asked });
    let scope = bus.scope("host");
    scope.provide::<dyn Provider>("topics", topics.clone()).unwrap();
    scope.provide_service::<dyn PartModels>(Arc::new(Parts));
    let agent = Agent::builder(Arc::new(chat.clone())).bus(bus).unguarded().build().unwrap();
    Meant { agent, store, chat, topics, told, _dir: dir }
}

impl Meant {
    /// Runs a prompt and returns the last request as text.
    async fn run(&self, prompt: &str) -> String {
        self.agent.run(prompt).unwrap().wait().await.result.unwrap();
        let request = self.chat.requests().pop().unwrap();
        request.history.messages().iter().map(|message| message.text()).collect()
    }

    /// Waits until so many texts were embedded.
    async fn embedded(&self, texts: usize) {
        while self.topics.asked.load(Ordering::SeqCst) < texts {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the facts in the file have vectors.
    async fn stored(&self, count: u32) {
        let conn = rusqlite::Connection::open(self.store.path()).unwrap();
        let vectors =
            || conn.query_row("SELECT count(*) FROM vectors", [], |row| row.get::<_, u32>(0)).unwrap();
        while vectors() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_fact_without_a_word_of_the_prompt_is_recalled_by_its_meaning() {
    let meant = meant(3);
    let ships = meant.store.keep(&fact("The vessel lies at anchor", Path::new("/p"))).unwrap().id();
    meant.store.keep(&fact("Each loaf leaves the oven at six", Path::new("/p"))).unwrap();
    let first = meant.run("hello").await;
    assert!(!first.contains("vessel"), "{first}");
    meant.stored(2).await;
    let second = meant.run("who owns the harbour?").await;
    assert!(second.contains("vessel lies at anchor") && !second.contains("loaf"), "{second}");
    let why = loop {
        let record = meant.store.last_recall(Path::new("/p"), None).unwrap().unwrap_or_default();
        match record.facts.first() {
            Some(first) => break first.words.clone(),
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert_eq!(why, ["(meaning)"]);
    // The vector goes with the text.
    meant.store.edit(ships, "Nothing floats any more").unwrap();
    let before = meant.topics.asked.load(Ordering::SeqCst);
    let third = meant.run("what bakes in the oven with dough?").await;
    assert!(third.contains("loaf leaves the oven"), "{third}");
    meant.embedded(before + 2).await;
    assert!(meant.told.lock().unwrap().is_empty());
}

#[tokio::test]
async fn words_decide_when_the_embeddings_fail_and_that_is_told_once() {
    let meant = meant(2);
    meant.topics.fails.store(true, Ordering::SeqCst);
    meant.store.keep(&fact("The vessel lies at anchor", Path::new("/p"))).unwrap();
    assert!(meant.run("which vessel?").await.contains("lies at anchor"));
    meant.run("which anchor?").await;
    let told = meant.told.lock().unwrap().clone();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("recalled by words alone") && told[0].contains("no route"), "{told:?}");
}
