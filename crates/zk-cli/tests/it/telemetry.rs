//! Traces, metrics and the log of the program, as a collector and a person get them.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use serde_json::json;
use zk_testkit::{FakeMcpScript, Script, Turn};

use crate::mcp::settings;
use crate::zk::{Person, program, server};

const PROMPT: &str = "words that are nobody's business";
/// Id of the trace that the program is started in.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// Requests that a collector got: path and texts of the body.
type Received = Arc<Mutex<Vec<(String, String)>>>;

/// Span of a program: its name, its id, and the id of its parent.
type Place = (String, String, String);

/// Bodies that a collector got of traces.
type Traces = Arc<Mutex<Vec<Vec<u8>>>>;

fn collector() -> (String, Received) {
    let (address, kept, _) = decoding_collector();
    (address, kept)
}

fn decoding_collector() -> (String, Received, Traces) {
    let traces = Traces::default();
    let keeping_traces = traces.clone();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keeping = kept.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut path, mut length) = (String::new(), 0);
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                let lower = line.to_lowercase();
                if let Some(bytes) = lower.strip_prefix("content-length:") {
                    length = bytes.trim().parse().unwrap();
                } else if let Some(rest) = line.strip_prefix("POST ") {
                    path = rest.split(' ').next().unwrap().to_owned();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            if reader.read_exact(&mut body).is_ok() {
                if path == "/v1/traces" {
                    keeping_traces.lock().unwrap().push(body.clone());
                }
                keeping.lock().unwrap().push((path, String::from_utf8_lossy(&body).into_owned()));
            }
            let _ = write!(&stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    (address, kept, traces)
}

/// Spans that were received, each of the trace `trace`.
fn places(traces: &Traces, trace: &str) -> Vec<Place> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let bodies = traces.lock().unwrap();
    let requests = bodies.iter().map(|body| ExportTraceServiceRequest::decode(&**body).unwrap());
    let scopes = requests.flat_map(|all| all.resource_spans).flat_map(|all| all.scope_spans);
    let spans = scopes.flat_map(|scope| scope.spans);
    spans
        .map(|span| {
            assert_eq!(hex(&span.trace_id), trace, "{}", span.name);
            (span.name, hex(&span.span_id), hex(&span.parent_span_id))
        })
        .collect()
}

fn script() -> Script {
    Script::answering(|asked| match asked.number {
        1 => Turn::new()
            .call("shell", json!({"command": "echo parent=$TRACEPARENT"}))
            .call("mcp_fake_env", json!({})),
        _ => Turn::new().text("Done."),
    })
}

#[test]
fn a_run_is_one_trace_with_its_commands_its_servers_and_its_requests() {
    let (collector, kept) = collector();
    let server = server(script());
    let person = Person::asking(&server).with("OTEL_EXPORTER_OTLP_ENDPOINT", &collector);
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let person = person.with("TRACEPARENT", &format!("00-{trace}-b7ad6b7169203331-01"));
    person.settings(&settings(&FakeMcpScript::default()));
    let ended = person.run(&["-p", PROMPT, "--allow-all"]);
    assert_eq!((ended.code, ended.stdout.trim()), (0, "Done."), "{}", ended.stderr);
    let requests = server.requests();
    let parents: Vec<&str> = requests
        .iter()
        .flat_map(|request| &request.headers)
        .filter(|(name, _)| name == "traceparent")
        .map(|(_, value)| &**value)
        .collect();
    assert_eq!(parents.len(), 2, "each request has its place: {parents:?}");
    assert!(parents.iter().all(|parent| parent.starts_with(&format!("00-{trace}-"))), "{parents:?}");
    assert_ne!(parents[0], parents[1], "each request is a span of its own");
    let results = server.bodies()[1].to_string();
    assert!(results.contains(&format!("parent=00-{trace}-")), "{results}");
    assert_eq!(results.matches(&format!("00-{trace}-")).count(), 2, "the MCP server has it, too: {results}");
    let kept = kept.lock().unwrap();
    let sent = |path: &str| {
        let bodies = kept.iter().filter(|(to, _)| to == path).map(|(_, body)| &**body);
        bodies.collect::<String>()
    };
    let traces = sent("/v1/traces");
    for name in
        ["invoke_agent main", "chat claude", "execute_tool shell", "execute_tool mcp_fake_env", "anthropic"]
    {
        assert!(traces.contains(name), "{name}");
    }
    assert!(sent("/v1/metrics").contains("gen_ai.client.operation.duration"));
    for private in [PROMPT, "echo parent", "test-key", "Done."] {
        assert!(kept.iter().all(|(_, body)| !body.contains(private)), "{private}");
    }
}

#[test]
fn spans_of_two_programs_and_of_what_they_ask_hang_together() {
    let (collector, _, traces) = decoding_collector();
    let server =
        server(Script::answering(|asked| {
            match (asked.last_user_text().contains("inside"), asked.results().is_empty()) {
                (true, _) => Turn::new().text("Inner."),
                (false, true) => Turn::new()
                    .call_as("a", "shell", json!({"command": "sh inner.sh"}))
                    .call_as("b", "mcp_fake_env", json!({})),
                (false, false) => Turn::new().text("Done."),
            }
        }));
    let person = Person::asking(&server)
        .with("OTEL_EXPORTER_OTLP_ENDPOINT", &collector)
        .with("TRACEPARENT", &format!("00-{TRACE}-b7ad6b7169203331-01"));
    person.settings(&settings(&FakeMcpScript::default()));
    let (program, url) = (program().display(), server.url());
    person.write(
        "inner.sh",
        &format!(
            "ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=k OTEL_EXPORTER_OTLP_ENDPOINT={collector} \
             ZK_HOME=$PWD/inner ZK_CONTEXT=process {program} -p inside"
        ),
    );
    let ended = person.run(&["-p", PROMPT, "--allow-all"]);
    assert_eq!((ended.code, ended.stdout.trim()), (0, "Done."), "{}", ended.stderr);

    let spans = places(&traces, TRACE);
    let named = |name: &str| spans.iter().filter(|span| span.0.starts_with(name)).collect::<Vec<_>>();
    let [shell] = named("execute_tool shell")[..] else { panic!("{spans:?}") };
    let [server_call] = named("execute_tool mcp_fake_env")[..] else { panic!("{spans:?}") };
    let mut parents: Vec<&str> = named("invoke_agent").iter().map(|root| &*root.2).collect();
    parents.sort_unstable();
    let mut wanted = [&*shell.1, "b7ad6b7169203331"];
    wanted.sort_unstable();
    assert_eq!(parents, wanted, "the inner run is below the command that started it");
    for span in spans.iter().filter(|span| !span.0.starts_with("invoke_agent")) {
        assert_eq!(spans.iter().filter(|other| other.1 == span.2).count(), 1, "{span:?} has one parent");
    }
    // Others are told the place of exactly the span that asks them.
    let requests = server.requests();
    let headers = requests.iter().flat_map(|request| &request.headers);
    let mut told: Vec<String> = headers
        .filter(|(name, _)| name == "traceparent")
        .map(|(_, value)| value.split('-').nth(2).unwrap().to_owned())
        .collect();
    told.sort();
    let mut chats: Vec<String> = named("chat").iter().map(|chat| chat.1.clone()).collect();
    chats.sort();
    assert_eq!((told.len(), &told), (3, &chats));
    let results = server.bodies().iter().map(ToString::to_string).collect::<String>();
    assert!(results.contains(&format!("00-{TRACE}-{}-01", server_call.1)), "{results}");
}

#[test]
fn hooks_and_extensions_know_the_trace_that_they_belong_to() {
    let (collector, _) = collector();
    let server = server(script());
    let person = Person::asking(&server)
        .with("OTEL_EXPORTER_OTLP_ENDPOINT", &collector)
        .with("TRACEPARENT", &format!("00-{TRACE}-b7ad6b7169203331-01"));
    let (hook, extension) = (person.project().join("hook-place"), person.project().join("extension-place"));
    // The extension ends at once, and guards nothing: its environment is what is asked for.
    person.settings(&format!(
        "[[hooks.PreToolUse]]\nmatcher = \"Bash\"\ncommand = '''echo \"$TRACEPARENT\" > {}'''\n\
         [[extensions]]\nname = \"place\"\nguards = false\n\
         command = [\"sh\", \"-c\", 'echo \"$TRACEPARENT\" > {}']\n{}",
        hook.display(),
        extension.display(),
        settings(&FakeMcpScript::default())
    ));
    let ended = person.run(&["-p", PROMPT, "--allow-all"]);
    assert_eq!((ended.code, ended.stdout.trim()), (0, "Done."), "{}", ended.stderr);
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let of_hook = read(&hook);
    assert!(of_hook.starts_with(&format!("00-{TRACE}-")), "{of_hook:?}");
    assert!(!of_hook.contains("b7ad6b7169203331"), "a span of the run, not of who started it: {of_hook}");
    assert_eq!(read(&extension), format!("00-{TRACE}-b7ad6b7169203331-01"), "it serves all runs");
}

#[test]
fn nothing_is_added_unless_somebody_asks_for_traces() {
    let server = server(script());
    let person = Person::asking(&server)
        .with("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    person.settings(&settings(&FakeMcpScript::default()));
    let ended = person.run(&["-p", PROMPT, "--allow-all"]);
    assert_eq!((ended.code, &*ended.stderr), (0, ""));
    let requests = server.requests();
    assert!(requests.iter().flat_map(|request| &request.headers).all(|(name, _)| name != "traceparent"));
    assert!(!server.bodies()[1].to_string().contains("00-"));
    let registry = person.run(&["debug", "registry"]).stdout;
    assert!(!registry.contains("otel"), "{registry}");
}

#[test]
fn a_collector_that_is_not_there_or_not_possible_is_named_once_and_the_run_succeeds() {
    for (name, value, told) in [
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "http://127.0.0.1:9",
            "warning: OpenTelemetry: 127.0.0.1:9 takes nothing",
        ),
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "nowhere",
            "warning: OpenTelemetry is off: the endpoint of OpenTelemetry is",
        ),
    ] {
        let server = server(Script::answering(|_| Turn::new().text("Done.")));
        let person = Person::asking(&server).with(name, value);
        let ended = person.run(&["-p", PROMPT]);
        assert_eq!((ended.code, ended.stdout.trim()), (0, "Done."), "{}", ended.stderr);
        assert_eq!(ended.stderr.matches(told).count(), 1, "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn the_settings_of_a_project_cannot_send_traces_anywhere() {
    let server = server(Script::answering(|_| Turn::new().text("Done.")));
    let person = Person::asking(&server);
    person.write(".zk/settings.toml", "[otel]\nendpoint = \"http://127.0.0.1:9\"\ncontent = true\n");
    let ended = person.run(&["-p", PROMPT]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!ended.stderr.contains("takes nothing"), "{}", ended.stderr);
    assert!(!person.run(&["config", "show"]).stdout.contains("127.0.0.1:9"));
}

#[test]
fn a_log_has_the_steps_of_a_run_and_is_listed_and_printed() {
    let server = server(script());
    let person = Person::asking(&server);
    person.settings(&settings(&FakeMcpScript::default()));
    assert!(person.run(&["logs"]).stdout.contains("--log info"), "there is no log yet");
    let ended = person.run(&["-p", PROMPT, "--allow-all", "--log", "info"]);
    assert_eq!((ended.code, ended.stdout.trim()), (0, "Done."), "{}", ended.stderr);
    let listed = person.run(&["logs"]).stdout;
    assert!(listed.contains("logs/zk.log") && listed.contains("mcp/logs/"), "{listed}");
    let log = person.run(&["logs", "zk.log"]).stdout;
    for step in ["session:start", "tool:begin", "tool:end", "agent:done", "agent=\"main\""] {
        assert!(log.contains(step), "{step}: {log}");
    }
    assert!(!log.contains(PROMPT) && !log.contains("stream:text"), "{log}");
    let all = person.run(&["-p", PROMPT, "--log", "trace=all.log"]);
    assert_eq!(all.code, 0, "{}", all.stderr);
    let all = std::fs::read_to_string(person.project().join("all.log")).unwrap();
    assert!(all.contains(PROMPT) && !all.contains("test-key"), "data has no keys");
    let is_foreign = |line: &&str| [" TRACE ", " DEBUG ", " INFO "].iter().any(|level| line.contains(level));
    let foreign: Vec<&str> =
        all.lines().filter(is_foreign).filter(|line| !line.contains(" zk: ")).take(3).collect();
    assert!(foreign.is_empty(), "libraries tell content: {foreign:?}");
    for (wanted, told) in
        [("loud", "there is no level `loud`"), ("info=/nowhere/log", "cannot write to /nowhere/log")]
    {
        let ended = person.run(&["-p", PROMPT, "--log", wanted]);
        assert!(ended.code != 0 && ended.stderr.contains(told), "{}", ended.stderr);
    }
}

#[test]
fn a_log_has_no_secret_of_several_lines_and_no_text_in_pieces() {
    const SECRET: &str = "zkey-\"one\nzkey-two-0123456789";
    let server = server(Script::answering(|_| Turn::new().text(format!("It is {SECRET}!"))));
    let person = Person::asking(&server).with("LAB_TOKEN", SECRET);
    let ended = person.run(&["-p", PROMPT, "--log", "trace=all.log"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let log = std::fs::read_to_string(person.project().join("all.log")).unwrap();
    assert!(log.contains("It is [redacted]!") && !log.contains("zkey-"), "{log}");
    let pieces = log.lines().find(|line| line.contains(" stream:text ")).unwrap();
    assert!(pieces.contains("data=\"\""), "{pieces}");
}

#[test]
fn a_log_is_a_file_of_its_owner_and_not_behind_a_link() {
    let server = server(Script::answering(|_| Turn::new().text("Done.")));
    let person = Person::asking(&server);
    person.write("notes.txt", "mine\n").write("open.log", "");
    let at = |name: &str| person.project().join(name);
    std::os::unix::fs::symlink(at("notes.txt"), at("link.log")).unwrap();
    let ended = person.run(&["-p", PROMPT, "--log", "info=link.log"]);
    assert!(ended.code != 0 && ended.stderr.contains("cannot write to link.log"), "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(at("notes.txt")).unwrap(), "mine\n");
    std::fs::set_permissions(at("open.log"), Permissions::from_mode(0o644)).unwrap();
    assert_eq!(person.run(&["-p", PROMPT, "--log", "info=open.log"]).code, 0);
    let log = std::fs::metadata(at("open.log")).unwrap();
    assert!(log.len() > 0 && log.permissions().mode() & 0o777 == 0o600);
}
