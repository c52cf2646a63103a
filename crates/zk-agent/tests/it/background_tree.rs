//! Trees of sub-agents in the background under random stops, steering, budgets and crashes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fastrand::Rng;
use serde_json::json;
use zk_agent::{Agent, Behavior, SpawnOptions, SubagentState, Subagents};
use zk_core::events::{SessionLoaded, SessionMessages, SpawnComplete, ToolResultsAfter};
use zk_core::kernel::{BoxError, Cx, Plugin, Scope};
use zk_core::model::{Budget, EntryId, Message, Usage};
use zk_core::service::{CustomEntry, Entry, EntryKind, NewEntry, SessionLog, StoreError};
use zk_testkit::{Script, ScriptedProvider};

use crate::background::scripted;
use crate::support::TestTool;

/// Agents in each tree.
const AGENTS: usize = 50;
/// Tokens of each answer, read and written.
const ANSWER: Usage = Usage { input: 10, output: 5, ..NO_USAGE };
const NO_USAGE: Usage = Usage {
    input: 0,
    output: 0,
    cache_read: 0,
    cache_write: 0,
    cache_write_1h: 0,
    reasoning: 0,
    billed: None,
    unpriced: 0,
    last_read: None,
};

/// Session that keeps its entries in memory, as a store on disk would have them at each moment.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Entry>>>);

impl Log {
    fn add(&self, kind: EntryKind) -> EntryId {
        let mut entries = self.0.lock().unwrap();
        let id: EntryId = format!("e{}", entries.len()).as_str().into();
        entries.push(Entry { id: id.clone(), parent: None, time_ms: 0, kind });
        id
    }

    fn message(&self, message: &Arc<Message>) {
        self.add(EntryKind::Message { message: message.clone(), usage: None });
    }

    fn entries(&self) -> Vec<Entry> {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait]
impl SessionLog for Log {
    async fn append(&self, scope: &Scope, entry: NewEntry) -> Result<EntryId, StoreError> {
        // A store takes its time.
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(self.add(EntryKind::Custom(entry.by(scope.source()))))
    }

    async fn entries(&self, _: &Scope) -> Result<Vec<CustomEntry>, StoreError> {
        Ok(Vec::new())
    }
}

impl Plugin for Log {
    fn name(&self) -> &'static str {
        "log"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.provide_service::<dyn SessionLog>(Arc::new(self.clone()));
        let log = self.clone();
        scope.on_sync(move |turns: &SessionMessages, _: &Cx| {
            turns.messages.iter().for_each(|one| log.message(one))
        });
        let log = self.clone();
        scope.on_sync(move |pair: &ToolResultsAfter, _: &Cx| {
            log.message(&pair.assistant);
            log.message(&pair.results);
        });
        Ok(())
    }
}

/// Way in which a model was told of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    ByMessage,
    OnRequest,
}

struct Tree {
    agent: Agent,
    provider: ScriptedProvider,
    log: Log,
}

impl Tree {
    fn new(log: Log, budget: Option<u64>) -> Self {
        let script = Script::answering(|asked| scripted(asked).usage(ANSWER));
        let provider = ScriptedProvider::new(script);
        let options = SpawnOptions { background: true, max_concurrent: AGENTS, ..SpawnOptions::default() };
        let entries = log.entries();
        let history = entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::Message { message, .. } => Some(message.clone()),
            _ => None,
        });
        let budget = budget.map(|tokens| Budget { usd: None, tokens: Some(tokens) });
        let agent = Agent::builder(Arc::new(provider.clone()))
            .tool(TestTool::echo())
            .plugin(log.clone())
            .behavior(Behavior { budget, ..Behavior::default() })
            .history(history.collect())
            .restored(entries)
            .spawn(options)
            .unguarded()
            .build()
            .unwrap();
        Self { agent, provider, log }
    }

    fn subagents(&self) -> Arc<Subagents> {
        self.agent.bus().service::<Subagents>().unwrap()
    }

    /// Ways in which the model of the root was told of the end of each of its sub-agents, in order.
    fn told(&self) -> BTreeMap<String, Vec<Told>> {
        let mut all: BTreeMap<String, Vec<Told>> = BTreeMap::new();
        let mut note = |line: &str, told| {
            let is_name = |c: &char| c.is_ascii_alphanumeric() || *c == '.';
            all.entry(line.chars().take_while(is_name).collect()).or_default().push(told);
        };
        for message in self.agent.history() {
            if message.injected_by.as_deref() == Some("sub-agents") {
                note(message.text().strip_prefix("Sub-agent ").unwrap(), Told::ByMessage);
            }
            for result in message.content.iter().filter_map(|block| block.as_result()) {
                let text = result.content.to_text();
                if let Some(line) = text.strip_prefix('(').filter(|line| line.starts_with("main.")) {
                    note(line, Told::OnRequest);
                }
            }
        }
        all
    }

    /// Sub-agents of the root that began in the background.
    fn begun(&self) -> Vec<String> {
        let entries = self.log.entries();
        let custom = entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::Custom(own) if own.kind == "background-agent" => Some(own.data.value()),
            _ => None,
        });
        let begun = custom.filter(|data| data["step"] == "began");
        begun.map(|data| data["agent"].as_str().unwrap().to_owned()).collect()
    }
}

/// Turns of a sub-agent, with its own sub-agents of the `left` ones.
fn task(random: &mut Rng, depth: u32, left: &mut usize) -> String {
    let mut lines = Vec::new();
    for _ in 0..random.usize(0..3) {
        lines.push("call echo {\"text\":\"x\"}".to_owned());
    }
    if depth < 3 && *left > 0 && random.bool() {
        let mut calls = Vec::new();
        for _ in 0..random.usize(1..4) {
            if *left == 0 {
                break;
            }
            *left -= 1;
            let background = random.bool();
            calls.push(format!(
                "spawn {}",
                json!({"task": task(random, depth + 1, left), "background": background})
            ));
        }
        if !calls.is_empty() {
            lines.push(format!("call {}", calls.join(" | ")));
        }
    }
    if random.u8(..4) == 0 {
        lines.push("call agents {\"action\":\"message\",\"agent\":\"parent\",\"text\":\"hi\"}".to_owned());
    }
    lines.push(match random.u8(..8) {
        0 => "hang".to_owned(),
        _ => format!("after {} done", random.u64(1..60)),
    });
    lines.join("\n")
}

/// Turns of the root for one prompt.
fn prompt(random: &mut Rng, left: &mut usize, begun: usize) -> String {
    let mut calls = Vec::new();
    for _ in 0..random.usize(1..12) {
        if *left == 0 {
            break;
        }
        *left -= 1;
        calls.push(format!("spawn {}", json!({"task": task(random, 1, left), "background": true})));
    }
    let mut lines = Vec::new();
    if !calls.is_empty() {
        lines.push(format!("call {}", calls.join(" | ")));
    }
    for _ in 0..random.usize(0..4) {
        let name = format!("main.{}", random.usize(1..begun + calls.len() + 2));
        lines.push(match random.u8(..4) {
            0 => format!("call agents {}", json!({"action": "stop", "agent": name})),
            1 => format!("call agents {}", json!({"action": "inbox"})),
            _ => format!(
                "call agents {}",
                json!({"action": "wait", "agent": name, "seconds": random.u64(1..20)})
            ),
        });
    }
    lines.push(format!("after {} ok", random.u64(1..20)));
    lines.join("\n")
}

async fn pause(random: &mut Rng) {
    tokio::time::sleep(Duration::from_millis(random.u64(1..20_000))).await;
}

/// Lets a person act on a random sub-agent.
fn act(random: &mut Rng, tree: &Tree, steered: &mut Vec<(String, String)>) {
    let all = tree.subagents();
    let running: Vec<String> =
        all.list().into_iter().filter(|info| !info.state.is_over()).map(|info| info.name).collect();
    if running.is_empty() {
        return;
    }
    let name = &running[random.usize(..running.len())];
    if random.bool() {
        let _ = all.stop(name, "stopped by the person");
    } else {
        let text = format!("after 1 steered {}", steered.len());
        if all.steer(name, &text).is_ok() {
            steered.push((name.clone(), text));
        }
    }
}

async fn simulate(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let budget = seed.is_multiple_of(3).then(|| random.u64(300..1500));
    let mut left = AGENTS;
    let mut tree = Tree::new(Log::default(), budget);
    let mut steered = Vec::new();
    let crash_at = seed.is_multiple_of(2).then(|| random.usize(..5));
    for step in 0..5 {
        let text = prompt(&mut random, &mut left, tree.begun().len());
        let mut run = tree.agent.run(text).unwrap();
        run.start();
        pause(&mut random).await;
        act(&mut random, &tree, &mut steered);
        if random.u8(..4) == 0 {
            run.abort();
        }
        if crash_at == Some(step) {
            // The entries are those of this moment; whatever the old process does later is lost.
            let log = Log(Arc::new(Mutex::new(tree.log.entries())));
            run.abort();
            run.wait().await;
            tree.agent.close().await;
            tree = Tree::new(log, budget);
            steered.clear();
            continue;
        }
        run.wait().await;
        pause(&mut random).await;
        act(&mut random, &tree, &mut steered);
    }
    let all = tree.subagents();
    for info in all.list().into_iter().filter(|info| !info.state.is_over()) {
        let _ = all.stop(&info.name, "the end");
    }
    all.until_idle().await;
    let _ = tree.agent.run("say bye").unwrap().wait().await;
    assert!(all.list().iter().all(|info| info.state.is_over()), "seed {seed}");
    let told = tree.told();
    for name in tree.begun() {
        // A result that was given may be asked for again, but no message comes after it.
        let told = told.get(&name).cloned().unwrap_or_default();
        let later = told.iter().skip(1).filter(|told| **told == Told::ByMessage).count();
        assert!(!told.is_empty() && later == 0, "seed {seed}: {name} was told {told:?}");
    }
    // A message to an agent that gave its answer was read before, and once; one that was stopped may not have read it.
    for (name, text) in &steered {
        let asked = tree.provider.asked();
        let most = asked
            .iter()
            .map(|asked| asked.messages.iter().filter(|one| one.text().contains(text)).count())
            .max();
        let is_done = all.list().iter().any(|info| info.name == *name && info.state == SubagentState::Done);
        let least = usize::from(is_done);
        let times = most.unwrap_or_default();
        assert!((least..=1).contains(&times), "seed {seed}: {name} got {text:?} {times} times");
    }
    if let Some(budget) = budget {
        let answers = tree.provider.asked().len() as u64;
        let spent = answers * (ANSWER.input + ANSWER.output);
        let whole = if crash_at.is_some() { budget * 2 } else { budget };
        assert!(spent <= whole + ANSWER.input + ANSWER.output, "seed {seed}: {spent} of {budget}");
    }
    tree.agent.close().await;
}

/// Seeds: 20, or as many as `ZK_AGENTS_SEEDS` says.
#[expect(clippy::disallowed_methods, reason = "whoever runs the test chooses its size")]
fn seeds() -> u64 {
    std::env::var("ZK_AGENTS_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(20)
}

#[tokio::test(start_paused = true)]
async fn every_end_is_reported_once_under_random_events() {
    for seed in 0..seeds() {
        simulate(seed).await;
    }
}

/// Agents that work at once in one process.
const MANY_AGENTS: u32 = 1_000;
/// Most memory that they may use at a time, in bytes.
const MAX_BYTES_OF_MANY: u64 = 256 << 20;

/// All end, none starves, and each costs little.
#[test]
fn a_thousand_agents_work_in_one_process() {
    let task = "call echo {\"text\":\"x\"}\nafter 5 done";
    let call = format!("spawn {}", json!({"task": task, "background": true}));
    let calls = vec![call; MANY_AGENTS as usize].join(" | ");
    let mut states = Vec::new();
    let done = Arc::new(AtomicU32::new(0));
    let used = allocation_counter::measure(|| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        states = runtime.block_on(async {
            let options = SpawnOptions {
                background: true,
                max_concurrent: MANY_AGENTS as usize,
                max_total: MANY_AGENTS,
                ..SpawnOptions::default()
            };
            let provider = Arc::new(ScriptedProvider::new(Script::answering(scripted)));
            let builder = Agent::builder(provider).tool(TestTool::echo()).spawn(options);
            let agent = builder.unguarded().build().unwrap();
            let counted = done.clone();
            agent.bus().scope("count").on_sync(move |_: &SpawnComplete, _: &Cx| {
                counted.fetch_add(1, Ordering::Relaxed);
            });
            let began = tokio::time::Instant::now();
            agent.run(format!("call {calls}\nsay started")).unwrap().wait().await.result.unwrap();
            let all = agent.bus().service::<Subagents>().unwrap();
            all.until_idle().await;
            assert!(began.elapsed() < Duration::from_secs(10), "none waits for another");
            let states: Vec<SubagentState> = all.list().into_iter().map(|info| info.state).collect();
            agent.close().await;
            states
        });
    });
    // Of ended ones, the results of the last 200 are kept.
    assert_eq!(done.load(Ordering::Relaxed), MANY_AGENTS);
    assert!(states.len() >= 200 && states.iter().all(|state| *state == SubagentState::Done));
    assert!(used.bytes_max < MAX_BYTES_OF_MANY, "{} MB", used.bytes_max >> 20);
}

#[tokio::test(start_paused = true)]
async fn a_branch_loaded_while_an_agent_works_gets_the_notice_of_its_end() {
    let tree = Tree::new(Log::default(), None);
    let call = json!({"task": "after 5 found it", "background": true});
    let run = async |text: String| tree.agent.run(text).unwrap().wait().await.result.unwrap();
    run(format!("call spawn {call}\nsay on")).await;
    tree.agent.reset().unwrap();
    let entries: Arc<[Entry]> = tree.log.entries().into();
    let loaded = SessionLoaded { session_id: None, entries: entries.clone() };
    tree.agent.bus().cx().emit(loaded).await.unwrap();
    tree.subagents().until_idle().await;
    run("say thanks".into()).await;
    let told = || {
        let history = tree.agent.history();
        let told = history.iter().filter(|one| one.injected_by.as_deref() == Some("sub-agents"));
        told.map(|one| one.text()).collect::<Vec<_>>()
    };
    assert_eq!(told(), ["Sub-agent main.1 is done after 1 turn. Its answer:\nfound it"]);
    // One branch twice: its entries have the beginning alone.
    tree.agent.reset().unwrap();
    tree.agent.bus().cx().emit(SessionLoaded { session_id: None, entries }).await.unwrap();
    run("say again".into()).await;
    assert_eq!(told(), ["Sub-agent main.1 is done after 1 turn. Its answer:\nfound it"]);
}
