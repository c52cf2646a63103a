use std::sync::Arc;

use zk_agent::{Agent, SpawnOptions};
use zk_core::model::{Model, Prices, Rates, Usage};
use zk_core::service::{NewSession, SessionFilter, SessionStore};
use zk_goals::{GoalSettings, Goals};
use zk_session::{MemoryStore, resume_conversation};
use zk_testkit::{Script, ScriptedProvider, Turn};

/// Cost of every answer, in US dollars.
pub(crate) const ANSWER_USD: f64 = 0.01;

/// Gives an answer the usage that costs [`ANSWER_USD`].
pub(crate) fn priced(turn: Turn) -> Turn {
    turn.usage(Usage { input: 10_000, ..Usage::default() })
}

/// Returns a model with the prices for [`priced`] answers.
pub(crate) fn model() -> Model {
    let rates = Rates { input: 1.0, output: 1.0, ..Rates::default() };
    Model { prices: Some(Prices::from(rates)), ..Model::unknown("scripted", ScriptedProvider::MODEL) }
}

/// Returns settings that allow autonomous goals.
pub(crate) fn settings() -> GoalSettings {
    GoalSettings { autonomous: true, ..GoalSettings::default() }
}

/// Opens the only session of `store`, or begins it, with an agent that has the plugin.
pub(crate) async fn open(store: &MemoryStore, script: Script, settings: GoalSettings) -> (Agent, Goals) {
    open_with(store, Arc::new(ScriptedProvider::new(script).with_model(model())), settings).await
}

/// Opens the only session of `store` with the provider of the caller.
pub(crate) async fn open_with(
    store: &MemoryStore,
    provider: Arc<ScriptedProvider>,
    settings: GoalSettings,
) -> (Agent, Goals) {
    let known = store.list(&SessionFilter { unanswered: true, ..SessionFilter::default() }).await.unwrap();
    let session = match known.first() {
        Some(found) => store.open(&found.id).await.unwrap(),
        None => store.create(NewSession { id: None, cwd: "/project".into(), parent: None }).await.unwrap(),
    };
    let goals = Goals::new(settings);
    let agent = Agent::builder(provider)
        .resume(resume_conversation(session).await.unwrap())
        .plugin(goals.clone())
        .spawn(SpawnOptions { background: true, ..SpawnOptions::default() })
        .build()
        .unwrap();
    (agent, goals)
}

/// Whether a request with this system prompt asks the supervisor.
pub(crate) fn is_supervisor(system: &str) -> bool {
    system.starts_with("You judge whether a goal")
}
