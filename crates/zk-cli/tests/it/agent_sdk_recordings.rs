//! Recorded dialogues of the published SDKs with their own program: the SDK's side against zk, line by line.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use zk_core::model::{ErrorKind, Phase, ProviderError, Role};
use zk_testkit::{Asked, Script, Turn};

use crate::agent_sdk::Host;
use crate::zk::{LONG, Person, server};

/// A dialogue a line: arguments, steps (`send`, `see`, `answer`, `end`) and the exit code.
const RECORDINGS: &str = include_str!("recordings/agent_sdk.jsonl");

/// Lines of which zk says fewer or more, by dialogue.
const DIFFERENCES: [(&str, &str, i64); 7] = [
    // The scripted answer here is stopped before its first word, so that none is told.
    ("09-interrupt", "assistant:text", -1),
    ("53-ts-controls", "assistant:text", -1),
    // A task that is not there cannot be stopped, and the host is told so.
    ("11-controls", "answer/success", -1),
    ("11-controls", "answer/error", 1),
    // A request whose highest cost the budget cannot pay is not made, so that there is no answer.
    ("16-error-max-budget", "assistant:tool_use:Bash", -1),
    // A hook that ends the run before a call refuses the call as well.
    ("27-hook-continue-false", "user:tool_result", -1),
    ("27-hook-continue-false", "user:tool_result!", 1),
];

/// Kind of a line, with what it is about.
fn shape(line: &Value) -> String {
    let text = |at: &str| line.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    match text("/type").as_str() {
        "system" => format!("system/{}", text("/subtype")),
        "result" => {
            let reason = match text("/terminal_reason").as_str() {
                "" => "None".to_owned(),
                reason => reason.to_owned(),
            };
            let is_error = if line["is_error"] == true { "True" } else { "False" };
            format!("result/{}/{reason}/{is_error}", text("/subtype"))
        }
        "stream_event" => format!("stream/{}", text("/event/type")),
        "control_response" if is_read(line) => "read".to_owned(),
        "control_response" => format!("answer/{}", text("/response/subtype")),
        "control_request" => {
            let about = match text("/request/subtype").as_str() {
                "can_use_tool" => format!(":{}", text("/request/tool_name")),
                "hook_callback" => format!(":{}", text("/request/input/hook_event_name")),
                "mcp_message" => format!(":{}", text("/request/message/method")),
                _ => String::new(),
            };
            format!("ask/{}{about}", text("/request/subtype"))
        }
        kind @ ("assistant" | "user") => {
            let Some(blocks) = line["message"]["content"].as_array() else { return format!("{kind}:text") };
            let named = |block: &Value| {
                let mark = if block["is_error"] == true { "!" } else { "" };
                format!("{}{mark}", block["type"].as_str().unwrap_or_default())
            };
            let kinds: Vec<String> = blocks.iter().map(named).collect();
            let tools: Vec<&str> = blocks
                .iter()
                .filter(|block| block["type"] == "tool_use")
                .filter_map(|block| block["name"].as_str())
                .collect();
            let of_agent = if line["parent_tool_use_id"].is_string() { "@sub" } else { "" };
            let tools = if tools.is_empty() { String::new() } else { format!(":{}", tools.join(",")) };
            format!("{kind}:{}{tools}{of_agent}", kinds.join(","))
        }
        other => other.to_owned(),
    }
}

/// Model of the recordings: a prompt is `SCRIPT{step ;; step}END`, where ` && ` joins blocks. A short wait ends
/// with a message of `waits`, or once its other end is gone.
fn scripted(waits: Mutex<Receiver<()>>) -> Script {
    Script::answering(move |asked: &Asked| {
        let prompt = asked.last_user_text();
        let since = asked
            .messages
            .iter()
            .rposition(|message| message.role == Role::User && !message.text().is_empty());
        let done = asked
            .messages
            .iter()
            .skip(since.unwrap_or_default())
            .filter(|message| message.role == Role::Assistant);
        let steps = prompt
            .rsplit_once("SCRIPT{")
            .and_then(|(_, rest)| rest.rsplit_once("}END"))
            .map_or("", |(steps, _)| steps);
        let step = steps.split(" ;; ").nth(done.count()).unwrap_or("text done");
        step.split(" && ").enumerate().fold(Turn::new(), |turn, (index, block)| {
            let (kind, rest) = block.split_once(' ').unwrap_or((block, ""));
            match kind {
                "tool" => {
                    let (name, args) = rest.split_once(' ').unwrap();
                    let id = format!("toolu_{}_{index}", asked.number);
                    turn.call_as(id.as_str(), name, serde_json::from_str(args).unwrap())
                }
                // A long wait is one that an interrupt ends.
                "slow" if rest.parse::<f64>().unwrap() > 5.0 => turn.hang(),
                "slow" => {
                    let _ = waits.lock().unwrap().recv_timeout(LONG);
                    turn
                }
                "err" => {
                    let mut error = ProviderError::new(
                        ErrorKind::Rejected,
                        "anthropic",
                        "model",
                        Phase::Response,
                        "scripted",
                    );
                    error.status = rest.parse().ok();
                    turn.fail(error)
                }
                _ => turn.text(rest),
            }
        })
    })
}

/// Id of the request that is this test's own.
const READ: &str = "read";

fn is_read(line: &Value) -> bool {
    line.pointer("/response/request_id").is_some_and(|id| id == READ)
}

/// Keys that the SDKs need of a line.
fn needed(line: &Value) -> &'static [&'static str] {
    match (line["type"].as_str().unwrap_or_default(), line["subtype"].as_str().unwrap_or_default()) {
        ("assistant" | "user", _) => &["message", "session_id", "uuid", "parent_tool_use_id"],
        ("stream_event", _) => &["uuid", "session_id", "event"],
        ("result", _) => &[
            "duration_ms",
            "duration_api_ms",
            "is_error",
            "num_turns",
            "session_id",
            "uuid",
            "total_cost_usd",
            "usage",
            "modelUsage",
            "permission_denials",
            "terminal_reason",
        ],
        ("system", "init") => &[
            "cwd",
            "session_id",
            "tools",
            "mcp_servers",
            "model",
            "permissionMode",
            "slash_commands",
            "claude_code_version",
            "output_style",
            "agents",
            "plugins",
            "uuid",
        ],
        _ => &[],
    }
}

/// Plays the SDK's side. Gives the shapes that were seen, and the exit code.
fn play(recording: &Value) -> (Vec<String>, i32) {
    let (go_on, waits) = channel();
    let server = server(scripted(Mutex::new(waits)));
    let person = Person::asking(&server).with("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1");
    let args: Vec<&str> =
        recording["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let mut host = Host::begin(&person, &args);
    let mut expected: BTreeMap<String, usize> = BTreeMap::new();
    let mut answered: Vec<Value> = Vec::new();
    let mut prompts = 0;
    for step in recording["steps"].as_array().unwrap() {
        if let Some(shape) = step["see"].as_str() {
            // Lines that a host waits for before it goes on.
            let counts = ["result", "answer", "system/init", "ask/can_use_tool", "assistant:tool_use"];
            if let Some(kind) = counts.into_iter().find(|kind| shape.starts_with(kind)) {
                *expected.entry(kind.to_owned()).or_default() += 1;
            }
            continue;
        }
        for (kind, count) in &expected {
            host.until_seen(|seen| {
                seen.iter().filter(|line| shape(line).starts_with(kind.as_str())).count() >= *count
            });
        }
        if let Some(asked) = step["answer"].as_str() {
            let is_it = |line: &Value| {
                line["type"] == "control_request"
                    && shape(line) == asked
                    && !answered.contains(&line["request_id"])
            };
            let request = host.find(is_it);
            answered.push(request["request_id"].clone());
            let mut response = step["with"].clone();
            response["request_id"] = request["request_id"].clone();
            if response.pointer("/response/mcp_response/id").is_some() {
                response["response"]["mcp_response"]["id"] = request["request"]["message"]["id"].clone();
            }
            host.send(&json!({"type": "control_response", "response": response}));
        } else if step["end"] == true {
            host.close_input();
        } else {
            host.send(&step["send"]);
            let is_prompt = step["send"]["type"] == "user";
            prompts += usize::from(is_prompt);
            if is_prompt && prompts == 2 {
                // An answer of a later request says that the prompt before it was read.
                let ask = json!({"type": "control_request", "request_id": READ, "request": {"subtype": "get_binary_version"}});
                host.send(&ask);
                host.find(is_read);
                let _ = go_on.send(());
            }
        }
    }
    drop(go_on);
    let (mut lines, code) = host.rest();
    lines.retain(|line| !is_read(line));
    for line in &lines {
        let missing: Vec<&str> =
            needed(line).iter().filter(|key| line.get(**key).is_none()).copied().collect();
        assert!(missing.is_empty(), "{} lacks {missing:?}: {line}", recording["name"]);
    }
    let mut shapes: Vec<String> = lines.iter().map(shape).collect();
    // A server may divide a block into any number of pieces.
    shapes.dedup_by(|one, other| one == other && one == "stream/content_block_delta");
    (shapes, code)
}

#[test]
fn dialogues_of_the_published_sdks_have_the_lines_that_were_recorded() {
    let mut failed = Vec::new();
    for recording in RECORDINGS.lines() {
        let recording: Value = serde_json::from_str(recording).unwrap();
        let name = recording["name"].as_str().unwrap();
        let (seen, code) = play(&recording);
        let mut balance: BTreeMap<&str, i64> = BTreeMap::new();
        seen.iter().for_each(|shape| *balance.entry(shape).or_default() += 1);
        let steps = recording["steps"].as_array().unwrap();
        let expected: Vec<&str> = steps.iter().filter_map(|step| step["see"].as_str()).collect();
        expected.iter().for_each(|shape| *balance.entry(shape).or_default() -= 1);
        balance.retain(|_, count| *count != 0);
        let known = DIFFERENCES
            .iter()
            .filter(|(of, ..)| *of == name)
            .map(|(_, shape, count)| (*shape, *count))
            .collect();
        if balance != known || recording["rc"] != code {
            failed.push(format!("{name}: {balance:?}, known {known:?}, exit code {code}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
