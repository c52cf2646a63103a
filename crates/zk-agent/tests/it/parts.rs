//! Models of parts: side calls and sub-agents ask the model of their part, and fall back when it fails.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_agent::{
    AgentDefinition, Behavior, ConfiguredParts, PartOpener, RetryPolicy, RunOptions, SpawnOptions,
};
use zk_core::kernel::{BoxError, Bus, Source};
use zk_core::model::{AgentError, Budget, ErrorKind, Model, Prices, Rates, ToolOutput, Usage};
use zk_core::service::{KNOWN_PARTS, PartModel, PartModels, Provider, RunControl, SideCall, ToolCx};
use zk_testkit::{Script, ScriptedProvider, Turn};

use crate::support::{Rig, TestTool, rig_with};

const PROVIDERS: [&str; 3] = ["one", "two", "three"];
const AGENTS: [&str; 4] = ["critic", "scout", "planner", "writer"];

/// Opens the models of a map; a part without provider cannot be opened.
struct Opener {
    models: BTreeMap<String, Option<Model>>,
    notices: Arc<Mutex<Vec<String>>>,
    /// Providers that no text may go to now.
    refused: Arc<Refused>,
}

/// Names of providers, as a service.
#[derive(Default)]
struct Refused(Mutex<Vec<String>>);

#[async_trait]
impl PartOpener for Opener {
    async fn open(&self, part: &str) -> Result<Option<Model>, BoxError> {
        match self.models.get(part) {
            None => Ok(None),
            Some(Some(model)) => Ok(Some(model.clone())),
            Some(None) => Err("no key for lab: set LAB_KEY".into()),
        }
    }

    fn is_allowed(&self, _: &str, model: &Model) -> bool {
        !self.refused.0.lock().unwrap().contains(&model.provider)
    }

    fn notice(&self, text: &str) {
        self.notices.lock().unwrap().push(text.to_owned());
    }
}

/// Answers a first prompt with a call of `ask`, or of `spawn` for the part of a sub-agent.
fn conversation(asked: &zk_testkit::Asked) -> Turn {
    let task = asked.messages[0].text();
    match (task.split_once(": "), asked.messages.len()) {
        (Some(("side", part)), 1) => Turn::new().call("ask", json!({"part": part})),
        (Some(("agent", "explore")), 1) => Turn::new().call("spawn", json!({"task": "explore"})),
        (Some(("agent", part)), 1) => Turn::new().call("spawn", json!({"task": part, "agent": part})),
        _ => Turn::new().text(format!("done: {task}")),
    }
}

/// A tool that makes a side call for the part of its arguments; the result is the answer or the error.
fn ask() -> TestTool {
    TestTool::new("ask", |args: Value, cx: ToolCx| async move {
        let part = args["part"].as_str().unwrap();
        let call = SideCall::new(&Source::new("test"), "work", part).for_part(part);
        let answer = cx.cx.service::<dyn RunControl>().unwrap().side_call(call).await;
        Ok(ToolOutput::text(answer.map_or_else(|error| format!("failed: {error}"), |answer| answer.text)))
    })
}

fn priced(provider: &str, id: &str) -> Model {
    let rates = Rates { input: 1.0, output: 2.0, ..Rates::default() };
    Model { prices: Some(Prices::from(rates)), ..Model::unknown(provider, id) }
}

/// A rig, the providers that answer for its parts, and the notices so far.
type PartsRig = (Rig, BTreeMap<&'static str, ScriptedProvider>, Arc<Mutex<Vec<String>>>);

/// A rig with these models of parts, and the providers that answer for them.
fn rig_of(
    models: BTreeMap<String, Option<Model>>,
    answer: impl Fn(&zk_testkit::Asked) -> Turn + Send + Sync + Clone + 'static,
) -> PartsRig {
    let agents = AGENTS.map(|name| AgentDefinition::new(name, "Does it.", "You do it.")).to_vec();
    let options = SpawnOptions { agents, ..SpawnOptions::default() };
    let rig = rig_with(Script::answering(conversation), |b| {
        b.tool(ask().arc()).spawn(options).retry(RetryPolicy { retries: 0, ..RetryPolicy::default() })
    });
    let scope = rig.scope("parts");
    let providers: BTreeMap<_, _> = PROVIDERS
        .map(|name| {
            let provider = ScriptedProvider::new(Script::answering(answer.clone())).named(name);
            scope.provide::<dyn Provider>(name, Arc::new(provider.clone())).unwrap();
            (name, provider)
        })
        .into();
    let notices = Arc::<Mutex<Vec<String>>>::default();
    scope.provide_service(Arc::new(Refused::default()));
    let refused = rig.agent.bus().cx().service::<Refused>().unwrap();
    let opener = Opener { models, notices: notices.clone(), refused };
    scope.provide_service::<dyn PartModels>(Arc::new(ConfiguredParts::new(Arc::new(opener))));
    (rig, providers, notices)
}

fn prompt(part: &str) -> String {
    let is_agent = part == "explore" || AGENTS.contains(&part);
    format!("{}: {part}", if is_agent { "agent" } else { "side" })
}

#[tokio::test]
async fn ten_seeded_models_for_parts_get_each_request_and_its_cost() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let parts: Vec<&str> = KNOWN_PARTS.iter().map(|part| part.name).chain(AGENTS).collect();
        assert_eq!(parts.len(), 10);
        let models: BTreeMap<String, Option<Model>> = parts
            .iter()
            .map(|part| {
                let provider = PROVIDERS[random.usize(..PROVIDERS.len())];
                (part.to_string(), Some(priced(provider, &format!("m{}", random.u8(..)))))
            })
            .collect();
        let usage = |part: &str| Usage { input: 100 * part.len() as u64, output: 3, ..Usage::default() };
        let answer = move |asked: &zk_testkit::Asked| {
            let part = asked.last_user_text();
            Turn::new().text(format!("answer for {part}")).usage(usage(&part))
        };
        let (rig, providers, notices) = rig_of(models.clone(), answer);
        for part in &parts {
            let outcome = rig.run(&*prompt(part)).await;
            outcome.result.unwrap();
            let model = models[*part].clone().unwrap();
            let sent = providers[&*model.provider].requests();
            let last = sent.last().unwrap_or_else(|| panic!("{seed} {part}: no request"));
            assert_eq!((&last.model.id, &last.model.provider), (&model.id, &model.provider), "{seed} {part}");
            let by_model = outcome.stats.by_model();
            let cost = by_model[&model.reference()].cost.unwrap();
            assert!((cost - model.cost(&usage(part)).unwrap()).abs() < 1e-12, "{seed} {part}: {by_model:?}");
            rig.forget();
        }
        let sent: usize = providers.values().map(|provider| provider.requests().len()).sum();
        assert_eq!(sent, 10, "{seed}: nobody else was asked");
        let told = rig.recorder.named("side-call:end");
        let told: Vec<&str> = told.iter().map(|end| end["part"].as_str().unwrap()).collect();
        assert_eq!(told, ["summary", "compress", "title", "supervisor", "subgoal"]);
        assert_eq!(*notices.lock().unwrap(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_part_whose_model_cannot_be_used_falls_back_and_is_told_once() {
    let unopened = |part: &str| (part.to_owned(), None);
    let models = ["summary", "title", "explore", "critic"].map(unopened).into();
    let (rig, _, notices) = rig_of(models, |_| panic!("no provider of a part is there"));
    for (part, answer) in [
        ("summary", "done: summary"),
        ("summary", "done: summary"),
        (
            "title",
            "failed: the part `title` is left out, because its model failed: no key for lab: set LAB_KEY",
        ),
        ("explore", "done: explore"),
        ("critic", "done: critic"),
        ("critic", "done: critic"),
        ("scout", "done: scout"),
    ] {
        rig.run(&*prompt(part)).await.result.unwrap();
        let asked = rig.provider.asked();
        assert_eq!(asked.last().unwrap().results()[0].text, answer, "{part}");
        rig.forget();
    }
    let notices = notices.lock().unwrap();
    assert_eq!(notices.len(), 4, "{notices:?}");
    let told = |part: &str, next: &str| {
        let start =
            format!("warning: the model of the part `{part}` cannot be used: no key for lab: set LAB_KEY; ");
        assert!(notices.contains(&(start + next)), "{notices:?}");
    };
    told("summary", "the conversation's model does its work meanwhile");
    told("title", "it is left out meanwhile");
    told("explore", "the conversation's model does its work meanwhile");
    assert_eq!(
        rig.recorder.named("part:left-out").iter().filter(|event| event["kind"] == "model").count(),
        4
    );
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_failed_is_asked_again_after_a_wait() {
    let models = BTreeMap::from([("summary".to_owned(), Some(Model::unknown("one", "m")))]);
    let failing = Arc::new(Mutex::new(true));
    let state = failing.clone();
    let (rig, providers, notices) = rig_of(models, move |_| match *state.lock().unwrap() {
        true => Turn::new().error(ErrorKind::Overloaded, "too many"),
        false => Turn::new().text("a summary"),
    });
    let run = async || {
        rig.run("side: summary").await.result.unwrap();
        let text = rig.provider.asked().last().unwrap().results()[0].text.clone();
        rig.forget();
        text
    };
    assert_eq!(run().await, "done: summary", "the run's model stands in");
    assert_eq!(run().await, "done: summary");
    assert_eq!(providers["one"].requests().len(), 1, "not asked again at once");
    *failing.lock().unwrap() = false;
    tokio::time::advance(Duration::from_secs(3)).await;
    assert_eq!(run().await, "a summary");
    assert_eq!((providers["one"].requests().len(), notices.lock().unwrap().len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_failure_for_one_part_is_none_of_another_with_the_same_model() {
    let own = |part: &str| (part.to_owned(), Some(Model::unknown("one", "m")));
    let failing = Arc::new(Mutex::new(true));
    let state = failing.clone();
    let (rig, providers, notices) =
        rig_of(["summary", "supervisor", "compress"].map(own).into(), move |_| {
            match *state.lock().unwrap() {
                true => Turn::new().error(ErrorKind::Overloaded, "too many"),
                false => Turn::new().text("own"),
            }
        });
    let run = async |part: &str| {
        rig.run(&*prompt(part)).await.result.unwrap();
        let text = rig.provider.asked().last().unwrap().results()[0].text.clone();
        rig.forget();
        text
    };
    assert_eq!(run("summary").await, "done: summary");
    assert_eq!(run("supervisor").await, "done: supervisor");
    let left_out = run("compress").await;
    assert!(left_out.starts_with("failed: not asked so soon after a failure: "), "{left_out}");
    assert_eq!(providers["one"].requests().len(), 1, "not asked again at once");
    *failing.lock().unwrap() = false;
    tokio::time::advance(Duration::from_secs(3)).await;
    for part in ["supervisor", "compress", "summary"] {
        assert_eq!(run(part).await, "own", "{part}");
    }
    let notices = notices.lock().unwrap();
    assert!(matches!(&notices[..], [only] if only.contains("`summary`")), "{notices:?}");
}

#[tokio::test(start_paused = true)]
async fn after_the_runs_provider_failed_parts_wait_and_a_persons_question_does_not() {
    let failing = Arc::new(Mutex::new(true));
    let state = failing.clone();
    let rig = rig_with(
        Script::answering(move |asked| match *state.lock().unwrap() {
            true => Turn::new().error(ErrorKind::Overloaded, "too many"),
            false => conversation(asked),
        }),
        |b| b.tool(ask().arc()).retry(RetryPolicy { retries: 0, ..RetryPolicy::default() }),
    );
    let error = rig.run("hello").await.result.unwrap_err();
    assert!(matches!(error, AgentError::Provider(_)), "{error}");
    *failing.lock().unwrap() = false;
    let call = || SideCall::new(&Source::new("test"), "work", "side");
    let stop = || tokio_util::sync::CancellationToken::new();
    let refused = rig.agent.side_call(call().for_part("summary"), stop()).await.unwrap_err();
    assert!(refused.to_string().starts_with("not asked so soon after a failure: "), "{refused}");
    assert_eq!(rig.agent.side_call(call(), stop()).await.unwrap().text, "done: side");
    assert_eq!(rig.agent.side_call(call().for_part("summary"), stop()).await.unwrap().text, "done: side");
}

#[tokio::test(start_paused = true)]
async fn more_calls_of_optional_parts_than_fit_are_left_out_and_the_conversations_are_not() {
    let rig = rig_with(Script::answering(|_| Turn::new().hang()), |b| {
        b.retry(RetryPolicy { retries: 0, ..RetryPolicy::default() })
    });
    let ask = |part: &'static str| {
        let call = SideCall::new(&Source::new("test"), "work", "side").for_part(part);
        rig.agent.side_call(call, tokio_util::sync::CancellationToken::new())
    };
    let parts = ["compress"; 5].into_iter().chain(["title"; 5]).chain(["subgoal", "summary", "critic"]);
    let errors = futures_util::future::join_all(
        parts.map(async |part| (part, ask(part).await.unwrap_err().to_string())),
    );
    let left_out: Vec<(&str, String)> =
        errors.await.into_iter().filter(|(_, error)| error.contains("in progress")).collect();
    let parts: Vec<&str> = left_out.iter().map(|(part, _)| *part).collect();
    assert_eq!(parts, ["compress", "title", "subgoal"]);
    assert!(left_out[0].1.contains("4 requests for `compress`"), "{left_out:?}");
    let told = rig.recorder.named("part:left-out");
    assert_eq!(told.iter().filter(|event| event["error"].to_string().contains("in progress")).count(), 3);
    // The calls before have ended at their limit.
    let again = ask("compress").await.unwrap_err().to_string();
    assert!(!again.contains("in progress"), "{again}");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_slow_to_open_delays_its_own_part_alone() {
    struct Slow;
    #[async_trait]
    impl PartOpener for Slow {
        async fn open(&self, part: &str) -> Result<Option<Model>, BoxError> {
            if part == "summary" {
                std::future::pending::<()>().await;
            }
            Ok(Some(Model::unknown("one", "m")))
        }

        fn notice(&self, text: &str) {
            panic!("{text}");
        }
    }
    let parts = ConfiguredParts::new(Arc::new(Slow));
    let cx = Bus::new().cx();
    let within = Duration::from_secs(1);
    let chosen = async |part| tokio::time::timeout(within, parts.choose(part, &cx)).await.ok();
    let (slow, other) = tokio::join!(chosen("summary"), chosen("title"));
    assert_eq!((slow, other), (None, Some(PartModel::Own(Box::new(Model::unknown("one", "m"))))));
}

#[tokio::test]
async fn a_part_whose_opened_model_may_no_longer_be_asked_is_the_runs_work() {
    let own = |part: &str| (part.to_owned(), Some(Model::unknown("one", "m")));
    let (rig, providers, notices) =
        rig_of(["summary", "explore"].map(own).into(), |_| Turn::new().text("own"));
    let refused = rig.agent.bus().cx().service::<Refused>().unwrap();
    for (provider, answers) in [("two", ["own", "own"]), ("one", ["done: summary", "done: explore"])] {
        *refused.0.lock().unwrap() = vec![provider.to_owned()];
        for (part, answer) in ["summary", "explore"].into_iter().zip(answers) {
            rig.run(&*prompt(part)).await.result.unwrap();
            assert_eq!(rig.provider.asked().last().unwrap().results()[0].text, answer, "{part}");
            rig.forget();
        }
    }
    assert_eq!((providers["one"].requests().len(), notices.lock().unwrap().len()), (2, 0));
}

#[tokio::test]
async fn a_named_agents_model_is_not_asked_once_the_conversation_has_another_provider() {
    let agent = AgentDefinition {
        model: Some("small".into()),
        ..AgentDefinition::new("critic", "Does it.", "You do it.")
    };
    let options = SpawnOptions { agents: vec![agent], ..SpawnOptions::default() };
    let rig = rig_with(Script::answering(conversation), |b| b.spawn(options));
    let other = ScriptedProvider::new(Script::answering(conversation)).named("one");
    rig.scope("other").provide::<dyn Provider>("one", Arc::new(other.clone())).unwrap();
    rig.run("agent: critic").await.result.unwrap();
    let ids = |provider: &ScriptedProvider| -> Vec<String> {
        provider.requests().iter().map(|request| request.model.id.clone()).collect()
    };
    assert_eq!(ids(&rig.provider)[1], "small");
    let before = rig.provider.requests().len();
    rig.forget();
    rig.agent.set_model(Model::unknown("one", "m")).await.unwrap();
    rig.run("agent: critic").await.result.unwrap();
    assert_eq!((rig.provider.requests().len(), ids(&other)), (before, vec!["m".to_owned(); 3]));
}

#[tokio::test]
async fn a_part_without_a_price_leaves_its_work_to_the_run_under_a_budget() {
    let models = BTreeMap::from([("summary".to_owned(), Some(Model::unknown("one", "m")))]);
    let (rig, providers, notices) = rig_of(models, |_| Turn::new().text("a summary"));
    let own = priced("scripted", "scripted-1");
    let budget = Some(Budget { usd: Some(1.0), tokens: None });
    let options = RunOptions::from("side: summary").model(own);
    let options = options.behavior(Behavior { budget, ..Behavior::default() });
    rig.agent.run(options).unwrap().wait().await.result.unwrap();
    assert_eq!(rig.provider.asked().last().unwrap().results()[0].text, "done: summary");
    assert_eq!(providers["one"].requests().len(), 0);
    assert!(notices.lock().unwrap()[0].contains("the price of one/m is not known"), "{notices:?}");
}
