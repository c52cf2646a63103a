//! A real model on a real server, where `ZK_LLAMA_SERVER` (the program `llama-server`) and `ZK_LLAMA_MODEL` (a file such
//! as `SmolLM2-135M-Instruct.Q4_1.gguf`) name them. The model calls nothing by itself; the server holds it to the tools.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "the server is a program of the test, and where it is comes from the environment"
)]

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use zk_agent::{Agent, AgentBuilder, Behavior};
use zk_core::events::{ProviderRequest, RequestPatch};
use zk_core::kernel::{Bus, Cx};
use zk_core::model::ToolProtocol;
use zk_core::service::{Provider, ToolChoice};
use zk_protocols::{ProtocolSettings, ProtocolsPlugin};
use zk_providers::{Compat, CompatProfile, Connection};
use zk_testkit::Recorder;

use crate::support::{calls, reader};

/// Number of runs of each proof.
const RUNS: usize = 20;
/// Longest wait for the server to load the model.
const LOAD_LIMIT: Duration = Duration::from_secs(120);

struct Server {
    process: Child,
    provider: Arc<dyn Provider>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts the server; `None`, with a line about it, where there is none.
async fn server() -> Option<Server> {
    let named = ["ZK_LLAMA_SERVER", "ZK_LLAMA_MODEL"].map(std::env::var_os);
    let [Some(program), Some(model)] = named else {
        println!("skipped: no llama-server; name it with ZK_LLAMA_SERVER, and a model with ZK_LLAMA_MODEL");
        return None;
    };
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let process = Command::new(program)
        .arg("-m")
        .arg(model)
        .args(["--alias", "SmolLM2-135M-Instruct", "--host", "127.0.0.1", "--port", &port.to_string()])
        // One thread: several wait for each other where the machine is busy.
        .args(["-c", "8192", "-np", "1", "-t", "1", "--no-warmup"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let profile = CompatProfile::named("llama.cpp").unwrap();
    let connection = Connection::at(format!("http://127.0.0.1:{port}/v1"));
    let server = Server { process, provider: Arc::new(Compat::new(connection, profile).unwrap()) };
    let (begun, cx) = (Instant::now(), Bus::new().cx());
    while server.provider.list_models(&cx).await.is_err() {
        assert!(begun.elapsed() < LOAD_LIMIT, "the server does not answer");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Some(server)
}

fn agent(server: &Server, recorder: &Recorder, behavior: Behavior) -> AgentBuilder {
    let model = server.provider.model("SmolLM2-135M-Instruct");
    assert_eq!(model.capabilities.tool_protocol, ToolProtocol::Inline, "the profile says so");
    Agent::builder(server.provider.clone())
        .model(model)
        .system("You are a helpful assistant.")
        .tool(reader("read_file", "path"))
        .tool(reader("search_web", "query"))
        .plugin(recorder.clone())
        .plugin(ProtocolsPlugin::new(ProtocolSettings::default()))
        .behavior(Behavior { max_tokens: Some(150), max_turns: Some(12), ..behavior })
        .unguarded()
}

#[tokio::test]
async fn constrained_calls_validate_run_and_come_back_to_an_answer() {
    let Some(server) = server().await else { return };
    let mut answered = 0;
    for number in 1..=RUNS {
        let recorder = Recorder::new();
        let agent = agent(&server, &recorder, Behavior::default()).build().unwrap();
        // The first answer is a call, the second as the model likes, and the third an answer.
        let asked = AtomicU32::new(0);
        agent.bus().scope("choice").on_sync(move |_: &ProviderRequest, _: &Cx| {
            let tool_choice = match asked.fetch_add(1, Ordering::AcqRel) {
                0 => ToolChoice::Required,
                1 => ToolChoice::Auto,
                _ => ToolChoice::None,
            };
            Some(RequestPatch { tool_choice: Some(tool_choice), ..RequestPatch::default() })
        });
        let prompt = format!("Read the file notes{number}.txt and tell me what it says.");
        let outcome = agent.run(prompt.as_str()).unwrap().wait().await;
        let calls = calls(&agent.history());
        println!("{number}: {:?} {calls:?} -> {:?}", outcome.result, outcome.text);
        let rejected = recorder.named("validation:reject").len();
        let begun = recorder.named("tool:begin").len();
        let is_sound = outcome.result.is_ok() && rejected == 0 && begun >= 1 && !outcome.text.is_empty();
        answered += usize::from(is_sound);
    }
    assert_eq!(answered, RUNS);
}

#[tokio::test]
async fn a_structured_output_follows_its_schema() {
    let Some(server) = server().await else { return };
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 40},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "nickname": {"type": "string", "maxLength": 40},
        },
        "required": ["name", "age"],
        "additionalProperties": false,
    });
    let mut given = 0;
    for number in 1..=RUNS {
        let behavior = Behavior { schema: Some(schema.clone()), ..Behavior::default() };
        let agent = agent(&server, &Recorder::new(), behavior).build().unwrap();
        let prompt = format!("Ada is {} years old. Give her name and age.", 20 + number);
        let outcome = agent.run(prompt.as_str()).unwrap().wait().await;
        println!("{number}: {:?} {:?}", outcome.result, outcome.stats.output);
        given += usize::from(outcome.result.is_ok() && outcome.stats.output.is_some());
    }
    assert_eq!(given, RUNS);
}
