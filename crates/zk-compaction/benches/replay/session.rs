//! A synthetic coding session through the real loop: a scripted model that reads, edits and tests files, turn after turn,
//! with facts planted at known turns. What is sent is counted, and at the end it is looked which facts are still there.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_agent::{Agent, AgentConversation};
use zk_compaction::{Focus, Rolling, Shorten, Subgoal, Summary, Tail, ToolPairs, Window, WindowOptions};
use zk_core::events::ContextReduced;
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{
    Approved, Block, Effects, Message, Model, ToolError, ToolOutput, ToolSpec, Usage, context_size,
};
use zk_core::service::{CallPlace, Provider, Tool, ToolCx};
use zk_testkit::{Asked, Script, ScriptedProvider, Turn};

/// Compaction strategies to compare.
pub(crate) const STRATEGIES: [&str; 9] =
    ["shorten", "tail", "tool_pairs", "rolling", "summary", "subgoal", "subgoal_mig", "focus", SERVER];

/// The provider compacts its context itself.
pub(crate) const SERVER: &str = "server";

/// Turns for each prompt of the person.
const TURNS: usize = 8;

/// Turns between two facts.
const BETWEEN: usize = 25;

/// Interval of requests whose facts are counted.
const LOOK: usize = 10;

/// Figures of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Requests of the conversation, and of strategies.
    pub(crate) requests: usize,
    pub(crate) side_calls: usize,
    /// Bytes of messages in all requests of the conversation.
    pub(crate) sent: usize,
    /// The most bytes that were read of one request.
    pub(crate) peak: usize,
    /// Number of requests that did not start like the one before.
    pub(crate) breaks: usize,
    pub(crate) facts: usize,
    /// Facts still in the last request.
    pub(crate) present: usize,
    /// Facts found in requests, and facts planted before them, each summed over the checked requests.
    pub(crate) said: usize,
    pub(crate) known: usize,
    /// Facts that the model finds with `conversation_recall`.
    pub(crate) recalled: usize,
}

/// Fact of a turn: a unique text without its position.
pub(crate) fn fact(number: usize) -> String {
    format!("FACT-{number:03} is {:08x}", (number as u32 + 1).wrapping_mul(0x9e37_79b9))
}

/// Position of a planted fact: in a prompt, in a prompt that asks to remember it, in an answer, or in a
/// result.
fn place(number: usize) -> usize {
    number % 4
}

fn source(number: usize) -> String {
    let line = |at: usize| {
        format!(
            "    let value_{at} = part_{}(input, {})?; // step {at} of {number}\n",
            (number * 7 + at) % 97,
            at * 3
        )
    };
    let body: String = (0..42).map(line).collect();
    format!("pub fn part_{number}(input: &str) -> Result<usize, Error> {{\n{body}    Ok(value_41)\n}}\n")
}

/// Fact planted at a turn, if any.
fn planted(turn: usize) -> Option<usize> {
    (turn > 0 && turn.is_multiple_of(BETWEEN)).then(|| turn / BETWEEN - 1)
}

fn prompt(number: usize) -> String {
    let turns = number * TURNS..(number + 1) * TURNS;
    let facts = turns.filter_map(planted).filter(|fact| place(*fact) < 2);
    let lines: String = facts
        .map(|number| match place(number) {
            0 => format!("\nBy the way, {}.", fact(number)),
            _ => format!("\nRemember: {}.", fact(number)),
        })
        .collect();
    format!("Add a check to module {number} and run its tests.{lines}")
}

/// One turn of the session: the model's action, by the number of turns so far.
fn turn(number: usize) -> Turn {
    let said = planted(number).filter(|fact| place(*fact) == 2).map(fact);
    let said =
        said.map_or_else(|| format!("Step {number}."), |fact| format!("Step {number}: I found that {fact}."));
    let path = format!("src/module_{}/part_{}.rs", number / TURNS, number % 5);
    let turn = Turn::new().text(said);
    match number % TURNS {
        7 => turn,
        0..=3 => turn.call("read_file", json!({"path": path, "turn": number})),
        4 | 5 => turn.call("edit_file", json!({"path": path, "turn": number, "new": source(number)})),
        _ => turn.call("shell", json!({"command": "cargo test", "turn": number})),
    }
}

/// Answers as files, edits and tests do.
struct Desk(Arc<ToolSpec>);

#[async_trait]
impl Tool for Desk {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    async fn call(&self, call: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        let turn = call.args().get("turn").and_then(Value::as_u64).unwrap_or_default() as usize;
        let found = planted(turn).filter(|fact| place(*fact) == 3).map(fact).unwrap_or_default();
        let text = match &*self.0.name {
            "read_file" => format!("{}// {found}\n", source(turn)),
            "edit_file" => format!("changed 20 lines {found}"),
            _ => format!(
                "running 12 tests\n{}test result: ok. 12 passed {found}",
                "test part ... ok\n".repeat(12)
            ),
        };
        Ok(ToolOutput::text(text))
    }
}

/// Summary of a modest model: its earlier one, and the beginning of each part, in 8,000 bytes that favour the
/// newest.
fn summary(asked: &str) -> String {
    let earlier =
        asked.split_once("<earlier-summary>").and_then(|(_, rest)| rest.split_once("</earlier-summary>"));
    let earlier = earlier.map_or("", |(earlier, _)| earlier.trim());
    let conversation =
        asked.split_once("<conversation>").and_then(|(_, rest)| rest.split_once("</conversation>"));
    let parts = conversation.map_or("", |(conversation, _)| conversation).split("\n\n");
    let first = |part: &str| part.chars().take(120).collect::<String>().replace('\n', " ");
    let mut lines: Vec<String> = earlier.lines().map(str::to_owned).collect();
    lines.extend(
        parts.map(|part| first(part.trim())).filter(|line| !line.is_empty()).map(|line| format!("- {line}")),
    );
    let mut room = 8000_usize;
    let kept = lines.iter().rev().take_while(|line| {
        let fits = line.len() < room;
        room = room.saturating_sub(line.len() + 1);
        fits
    });
    let mut kept: Vec<&str> = kept.map(String::as_str).collect();
    kept.reverse();
    format!("## Progress\n{}", kept.join("\n"))
}

fn install(bus: &Bus, strategy: &str) {
    bus.install(&Window::with(WindowOptions { tokenizer: false, ..WindowOptions::default() })).unwrap();
    match strategy {
        "tail" => drop(bus.install(&Tail::default()).unwrap()),
        "tool_pairs" => drop(bus.install(&ToolPairs).unwrap()),
        "rolling" => drop(bus.install(&Rolling).unwrap()),
        "summary" => drop(bus.install(&Summary).unwrap()),
        "subgoal" => drop(bus.install(&Subgoal::default()).unwrap()),
        "subgoal_mig" => drop(bus.install(&Subgoal::by_gain()).unwrap()),
        "focus" => drop(bus.install(&Focus::default()).unwrap()),
        _ => {}
    }
    bus.install(&Shorten).unwrap();
}

/// Context of a provider with server-side compaction: its summary, and the messages after it.
#[derive(Default)]
struct Server {
    /// From how many bytes on it compacts.
    threshold: usize,
    summary: Option<Arc<Message>>,
    /// Number of summarised messages.
    count: usize,
}

impl Server {
    fn read(&mut self, messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
        // Whoever changed the beginning left that out.
        if self.count > messages.len() {
            (self.summary, self.count) = (None, 0);
        }
        let rest = messages.get(self.count..).unwrap_or_default();
        let read: Vec<_> = self.summary.iter().chain(rest).cloned().collect();
        if self.threshold == 0 || context_size(&read) < self.threshold {
            return read;
        }
        let earlier = self.summary.as_ref().map(|summary| summary.text()).unwrap_or_default();
        let parts: Vec<String> = rest.iter().map(|message| said(std::slice::from_ref(message))).collect();
        let asked = format!(
            "<earlier-summary>{earlier}</earlier-summary><conversation>{}</conversation>",
            parts.join("\n\n")
        );
        let written = summary(&asked);
        // The last message is the one to answer.
        self.count = messages.len().saturating_sub(1);
        self.summary = Some(Message::user_text(written).shared());
        self.summary.iter().chain(messages.last()).cloned().collect()
    }
}

/// Counters of a session.
#[derive(Default)]
struct Counting {
    figures: Figures,
    server: Server,
    before: Vec<Arc<Message>>,
    /// Messages that were read of the last request.
    read: Vec<Arc<Message>>,
}

impl Counting {
    fn note(&mut self, asked: &Asked) {
        self.read = self.server.read(&asked.messages);
        self.figures.requests += 1;
        self.figures.sent += context_size(&asked.messages);
        self.figures.peak = self.figures.peak.max(context_size(&self.read));
        // The last message may be extended in the next request.
        let before = self.before.get(..self.before.len().saturating_sub(1)).unwrap_or_default();
        self.figures.breaks += usize::from(!asked.messages.starts_with(before));
        self.before.clone_from(&asked.messages);
        // The end of a session alone depends more on the time of the last compaction than on the strategy.
        if self.figures.requests.is_multiple_of(LOOK) {
            let text = said(&self.read);
            let known = (1..self.figures.requests.saturating_sub(LOOK)).filter_map(planted);
            for number in known {
                self.figures.known += 1;
                self.figures.said += usize::from(text.contains(&fact(number)));
            }
        }
    }
}

impl Figures {
    /// Average share of the existing facts that a request contains.
    pub(crate) fn part_said(&self) -> f64 {
        self.said as f64 / self.known.max(1) as f64
    }
}

/// Runs a session of `turns` turns, for a model with a window of `window` tokens.
pub(crate) async fn replay(strategy: &str, turns: usize, window: u64) -> Figures {
    let counting = Arc::new(Mutex::new(Counting::default()));
    if strategy == SERVER {
        // Half-way between both thresholds, the program's default, at the model's rate.
        let usable = window - 16_384.min(window / 4);
        counting.lock().unwrap().server.threshold = usize::try_from(usable * 3 / 4).unwrap() * 35 / 10;
    }
    let seen = counting.clone();
    let script = Script::answering(move |asked| {
        let prompt = asked.last_user_text();
        if asked.tools.is_empty() {
            seen.lock().unwrap().figures.side_calls += 1;
            return match &*asked.system {
                "" => Turn::new().text("A file with a function of twenty steps, or tests that passed."),
                system if system.contains("You name what") => {
                    Turn::new().text(format!("Work on {}", module(&prompt)))
                }
                _ => Turn::new().text(summary(&prompt)),
            };
        }
        if let Some(about) = prompt.strip_prefix("look up ").filter(|_| asked.results().is_empty()) {
            return Turn::new().call("conversation_recall", json!({"action": "search", "query": about}));
        }
        if prompt.starts_with("look up ") {
            return Turn::new().text("That is what there is.");
        }
        let mut seen = seen.lock().unwrap();
        let number = seen.figures.requests;
        seen.note(asked);
        let usage =
            Usage { input: context_size(&seen.read) as u64 * 10 / 35, output: 60, ..Usage::default() };
        turn(number).usage(usage)
    });
    let provider = ScriptedProvider::new(script);
    let bus = Bus::new();
    install(&bus, strategy);
    let model = Model { window: Some(window), ..provider.model("scripted") };
    let mut builder =
        Agent::builder(Arc::new(provider.clone())).bus(bus.clone()).model(model).system("You are an agent.");
    for name in ["read_file", "edit_file", "shell"] {
        builder = builder.tool(Arc::new(Desk(ToolSpec::new(name, "Works.", json!({"type": "object"})))));
    }
    let conversation = AgentConversation::new(builder.build().unwrap());
    let mut reduced = 0;
    let count = Arc::new(Mutex::new(0));
    let counted = count.clone();
    bus.scope("counting").on_sync(move |_: &ContextReduced, _: &Cx| *counted.lock().unwrap() += 1);
    for number in 0..turns / TURNS {
        conversation.run(prompt(number)).await.unwrap().wait().await.result.unwrap();
        reduced = *count.lock().unwrap();
    }
    let last = counting.lock().unwrap().read.clone();
    let facts = (1..turns / TURNS * TURNS).filter_map(planted).count();
    let text = said(&last);
    let mut figures = counting.lock().unwrap().figures.clone();
    figures.facts = facts;
    for number in 0..facts {
        if text.contains(&fact(number)) {
            figures.present += 1;
        } else if reduced > 0 {
            conversation.run(format!("look up FACT-{number:03}")).await.unwrap().wait().await.result.unwrap();
            let history = conversation.agent().history();
            let mut given = history.iter().rev().take(4).flat_map(|message| message.results());
            let found = given.any(|result| result.content.to_text().contains(&fact(number)));
            figures.recalled += usize::from(found);
        }
    }
    figures
}

/// The module that a prompt about subgoals was about last.
fn module(prompt: &str) -> &str {
    let at = prompt.rfind("src/module_").unwrap_or(0);
    prompt.get(at..).and_then(|rest| rest.split('/').nth(1)).unwrap_or("a module")
}

/// All texts of messages.
fn said(messages: &[Arc<Message>]) -> String {
    let texts = messages.iter().flat_map(|message| &message.content).map(|block| match block {
        Block::Text(text) => text.text.clone(),
        Block::ToolResult(result) => result.content.to_text(),
        Block::Compaction(compaction) => compaction.summary.clone(),
        Block::ToolCall(call) => call.args.to_string(),
        Block::Image(_) | Block::Document(_) | Block::Thinking(_) | Block::Provider(_) => String::new(),
    });
    texts.collect::<Vec<_>>().join("\n")
}
