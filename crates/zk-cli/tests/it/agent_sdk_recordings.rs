//! Recorded dialogues of the published SDKs with their own program: the SDK's side against zk, line by line.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::{Value, json};
use zk_core::model::{ErrorKind, Phase, ProviderError, Role};
use zk_testkit::{Asked, FakeServer, Script, Turn};

use crate::agent_sdk::Host;
use crate::zk::{LONG, Person, server};

/// Recorded processes, one per line: arguments, steps (`send`, `see`, `answer`, `end`), the exit code, and the session
/// that a later process resumes.
const RECORDINGS: &str = include_str!("recordings/agent_sdk.jsonl");

/// Allowed differences in the number of lines of a kind, by dialogue.
const DIFFERENCES: [(&str, &str, i64); 36] = [
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
    // Sub-agents are part of the turn that began them, and no tasks of a host.
    ("14-agents", "system/background_tasks_changed", -2),
    ("14-agents", "system/task_started", -1),
    ("14-agents", "system/task_progress", -1),
    ("14-agents", "system/task_updated", -1),
    ("14-agents", "system/task_notification", -1),
    ("14-agents", "assistant:text@sub", -1),
    ("14-agents", "system/init", -1),
    ("14-agents", "assistant:text", -1),
    ("14-agents", "result/success/completed/False", -1),
    // Lines about hooks are those of the callbacks; hooks of files and plugins run without.
    ("20-include-hook-events", "system/hook_started", -1),
    ("20-include-hook-events", "system/hook_response", -1),
    ("61-plugin-edge-cases", "system/hook_started", -1),
    ("61-plugin-edge-cases", "system/hook_response", -1),
    ("62-plugin-additive", "system/hook_started", -2),
    ("62-plugin-additive", "system/hook_response", -2),
    // Commands of zk answer a host in a result alone.
    ("21-slash-commands", "user:text", -2),
    ("21-slash-commands", "system/background_tasks_changed", -1),
    // There are no checkpoints of files, which is an error in words.
    ("22-rewind-files", "answer/success", -1),
    ("22-rewind-files", "answer/error", 1),
    ("22-rewind-files", "user:text", -1),
    // Requests that zk does not serve are errors in words; its driver wanted no states, as the SDKs do.
    ("40-control-requests", "answer/success", -15),
    ("40-control-requests", "answer/error", 15),
    ("40-control-requests", "system/background_tasks_changed", -1),
    ("40-control-requests", "system/control_request_progress", -1),
    ("40-control-requests", "system/session_title_changed", -1),
    ("40-control-requests", "system/session_state_changed", 2),
    ("40-control-requests", "user:text", 1),
    // Plugins that are not used are told of, each with its reason.
    ("61-plugin-edge-cases", "system/informational", 6),
    // A mirror has the lines of a turn at once.
    ("31-session-store-mirror", "transcript_mirror", -3),
];

/// Dialogues that are not replayed, with the reasons.
const LEFT_OUT: [(&str, &str); 3] = [
    (
        "29-background-bash",
        "its end follows a turn that a task in the background begins: zk tells hosts of no tasks",
    ),
    (
        "32-mcp-elicitation",
        "a question of an MCP server is one to the person of zk: no host is asked, as the SDK refuses it",
    ),
    (
        "60-plugin-all-components",
        "its last prompt runs a program that its plugin puts into the PATH, which zk does not serve; `plugins.rs` uses every other \
         part",
    ),
];

/// Directories of the recordings, and files below them that dialogues count on.
const PLACES: [&str; 2] = ["/home/u/", "/sdk/"];
const FILES: [(&str, &str); 11] = [
    ("/sdk/examples/plugins/demo-plugin/commands/greet.md", "Greet."),
    ("/home/u/plugin2/a/.claude-plugin/plugin.json", r#"{"name": "dup"}"#),
    ("/home/u/plugin2/a/commands/x.md", "First: $ARGUMENTS"),
    ("/home/u/plugin2/b/.claude-plugin/plugin.json", r#"{"name": "dup"}"#),
    ("/home/u/plugin2/nomanifest/commands/n.md", "None."),
    ("/home/u/plugin2/broken/.claude-plugin/plugin.json", "{"),
    ("/home/u/plugin2/rootskill/SKILL.md", "---\nname: rootskill\ndescription: At the root.\n---\nHello."),
    ("/home/u/plugin2/escape/.claude-plugin/plugin.json", r#"{"name": "escape", "commands": "../x"}"#),
    ("/home/u/plugin2/badname/.claude-plugin/plugin.json", r#"{"name": "Bad Name!"}"#),
    ("/home/u/plugin3/p/.claude-plugin/plugin.json", r#"{"name": "p"}"#),
    ("/home/u/plugin3/flatmcp/commands/f.md", "Flat."),
];

/// Converts a path of a recording to one in the person's home.
fn placed(path: &str, person: &Person) -> String {
    let place = PLACES.iter().find_map(|place| path.strip_prefix(place));
    place.map_or_else(|| path.to_owned(), |below| person.home().join(below).display().to_string())
}

/// Returns the kind of a line, with its subtype or tool.
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
        // The prompt of a sub-agent has brackets, within that of the agent.
        let (begin, end, between) = if prompt.contains("SCRIPT{") {
            ("SCRIPT{", "}END", " ;; ")
        } else {
            ("SCRIPT[[", "]]END", " ~~ ")
        };
        let script = prompt.rsplit_once(begin).and_then(|(_, rest)| rest.rsplit_once(end));
        let steps = script.map_or("", |(steps, _)| steps);
        let step = steps.split(between).nth(done.count());
        let step = step.filter(|step| !step.is_empty()).unwrap_or("text done");
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

/// Id of the request that the test itself sends.
const READ: &str = "read";

fn is_read(line: &Value) -> bool {
    line.pointer("/response/request_id").is_some_and(|id| id == READ)
}

/// Returns the keys that the SDKs need in a line.
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

/// Answers to requests to MCP servers in the host's process, which may come at any time.
struct Servers {
    answers: BTreeMap<String, VecDeque<Value>>,
    answered: Vec<Value>,
}

impl Servers {
    fn of(recording: &Value) -> Self {
        let mut answers: BTreeMap<String, VecDeque<Value>> = BTreeMap::new();
        for step in recording["steps"].as_array().unwrap() {
            if let Some(asked) = step["answer"].as_str().filter(|asked| asked.starts_with(SERVER)) {
                answers.entry(asked.to_owned()).or_default().push_back(step["with"].clone());
            }
        }
        Self { answers, answered: Vec::new() }
    }

    /// Reads lines, and answers server requests meanwhile, until the lines so far are as wanted.
    fn until_seen(&mut self, host: &mut Host, is_wanted: impl Fn(&[Value]) -> bool) {
        loop {
            let asked = host.seen.iter().filter(|line| line["type"] == "control_request");
            let asked: Vec<Value> = asked
                .filter(|line| {
                    shape(line).starts_with(SERVER) && !self.answered.contains(&line["request_id"])
                })
                .cloned()
                .collect();
            for request in asked {
                self.answered.push(request["request_id"].clone());
                if let Some(response) = self.answers.get_mut(&shape(&request)).and_then(VecDeque::pop_front) {
                    respond(host, &request, response);
                }
            }
            if is_wanted(&host.seen) {
                return;
            }
            host.until(|_| true);
        }
    }
}

/// Kind of a request to an MCP server in the host's process.
const SERVER: &str = "ask/mcp_message";

fn respond(host: &mut Host, request: &Value, mut response: Value) {
    response["request_id"] = request["request_id"].clone();
    if response.pointer("/response/mcp_response/id").is_some() {
        response["response"]["mcp_response"]["id"] = request["request"]["message"]["id"].clone();
    }
    host.send(&json!({"type": "control_response", "response": response}));
}

/// A person with the files of the recordings, and the model that all processes of one dialogue ask.
struct Stage {
    person: Person,
    go_on: Sender<()>,
    /// Sessions by their ids in the recording.
    sessions: BTreeMap<String, String>,
    _models: FakeServer,
}

impl Stage {
    fn new() -> Self {
        let (go_on, waits) = channel();
        let models = server(scripted(Mutex::new(waits)));
        let person = Person::asking(&models).with("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1");
        for (path, text) in FILES {
            let path = PathBuf::from(placed(path, &person));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self { person, go_on, sessions: BTreeMap::new(), _models: models }
    }

    fn args(&self, recording: &Value) -> Vec<String> {
        let words = recording["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        let own = |word: &str| match word.strip_prefix("--resume=").and_then(|id| self.sessions.get(id)) {
            Some(id) => format!("--resume={id}"),
            None => placed(word, &self.person),
        };
        words.map(own).collect()
    }
}

/// Plays the SDK's side. Gives the shapes that were seen, and the exit code.
fn play(recording: &Value, stage: &mut Stage) -> (Vec<String>, i32) {
    let args = stage.args(recording);
    let mut host = Host::begin(&stage.person, &args.iter().map(String::as_str).collect::<Vec<_>>());
    let mut servers = Servers::of(recording);
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
        if step["answer"].as_str().is_some_and(|asked| asked.starts_with(SERVER)) {
            continue;
        }
        for (kind, count) in &expected {
            servers.until_seen(&mut host, |seen| {
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
            respond(&mut host, &request, step["with"].clone());
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
                servers.until_seen(&mut host, |seen| seen.iter().any(is_read));
                let _ = stage.go_on.send(());
            }
        }
    }
    // Ends waiting steps of the script.
    let (closed, _) = channel();
    drop(std::mem::replace(&mut stage.go_on, closed));
    let (mut lines, code) = host.rest();
    lines.retain(|line| !is_read(line));
    for line in &lines {
        let missing: Vec<&str> =
            needed(line).iter().filter(|key| line.get(**key).is_none()).copied().collect();
        assert!(missing.is_empty(), "{} lacks {missing:?}: {line}", recording["name"]);
        if let (Some(id), "result") = (recording["session"].as_str(), line["type"].as_str().unwrap()) {
            let own = line["session_id"].as_str().unwrap().to_owned();
            stage.sessions.insert(id.to_owned(), own);
        }
    }
    let mut shapes: Vec<String> = lines.iter().map(shape).collect();
    // A server may divide a block into any number of pieces.
    shapes.dedup_by(|one, other| one == other && one == "stream/content_block_delta");
    (shapes, code)
}

#[test]
fn dialogues_of_the_published_sdks_have_the_lines_that_were_recorded() {
    let mut failed = Vec::new();
    let recordings: Vec<Value> = RECORDINGS.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for processes in recordings.chunk_by(|one, other| one["name"] == other["name"]) {
        let name = processes[0]["name"].as_str().unwrap();
        let mut stage = Stage::new();
        let mut balance: BTreeMap<String, i64> = BTreeMap::new();
        for recording in processes {
            let (seen, code) = play(recording, &mut stage);
            seen.into_iter().for_each(|shape| *balance.entry(shape).or_default() += 1);
            let steps = recording["steps"].as_array().unwrap().iter();
            for shape in steps.filter_map(|step| step["see"].as_str()) {
                *balance.entry(shape.to_owned()).or_default() -= 1;
            }
            if recording["rc"] != code {
                failed.push(format!("{name}: exit code {code}, recorded {}", recording["rc"]));
            }
        }
        balance.retain(|_, count| *count != 0);
        let known = DIFFERENCES
            .iter()
            .filter(|(of, ..)| *of == name)
            .map(|(_, shape, count)| ((*shape).to_owned(), *count))
            .collect();
        if balance != known {
            failed.push(format!("{name}: {balance:?}, known {known:?}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    let mut names: Vec<&str> = recordings.iter().filter_map(|recording| recording["name"].as_str()).collect();
    names.dedup();
    assert_eq!(names.len() + LEFT_OUT.len(), 40, "{LEFT_OUT:?}");
    assert!(LEFT_OUT.iter().all(|(name, why)| !names.contains(name) && !why.is_empty()));
}
