//! Beginning of every request of a session, in every dialect.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_agent::{Agent, SpawnOptions};
use zk_core::events::{PrefixBreak, PrefixCause, PrefixPart, TurnAfter};
use zk_core::kernel::{BoxError, Bus, Cx, HookOptions, Reach, plugin_fn};
use zk_core::model::{Approved, Message, Role, ToolError, ToolOutput, ToolSpec, Usage};
use zk_core::service::{PromptSection, Provider, RunControl, Tool, ToolCx, section_order};
use zk_exec::{Environment, LocalPlugin, WorkspaceFiles};
use zk_mcp::{McpPlugin, ServerConfig};
use zk_providers::{Connection, Vendor};
use zk_skills::{SkillRoots, SkillsOptions, SkillsPlugin};
use zk_testkit::{FakeMcpScript, FakeServer, Script, Turn};

use crate::zk::{Person, server};

/// Turns of each of the two runs.
const TURNS: usize = 25;

/// Removes the cache markers, which move on with the conversation.
fn without_marks(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields.values_mut().for_each(without_marks);
        }
        Value::Array(items) => items.iter_mut().for_each(without_marks),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Splits a request body into its messages and the rest.
fn parts(body: &Value) -> (Vec<Value>, Value) {
    let mut body = body.clone();
    without_marks(&mut body);
    let list = ["messages", "contents", "input"].into_iter().find(|name| body[name].is_array()).unwrap();
    let messages = body[list].take();
    (messages.as_array().unwrap().clone(), body)
}

/// The bodies of the requests for an answer as they were sent, without the marks.
fn raw_bodies(server: &FakeServer) -> Vec<String> {
    let answers = server.requests().into_iter().filter(|request| request.number.is_some());
    let text = answers.map(|request| String::from_utf8(request.body.to_vec()).unwrap());
    let marks =
        ["\"cache_control\":{\"type\":\"ephemeral\"},", ",\"cache_control\":{\"type\":\"ephemeral\"}"];
    text.map(|text| marks.iter().fold(text, |text, mark| text.replace(mark, ""))).collect()
}

/// Byte by byte: up to the end of its list of messages, `before` is the beginning of `after`.
fn assert_extends(before: &str, after: &str, what: &str) {
    let same = before.bytes().zip(after.bytes()).take_while(|(one, other)| one == other).count();
    let rest =
        |text: &str| String::from_utf8_lossy(&text.as_bytes()[same..]).chars().take(80).collect::<String>();
    let (was, is) = (rest(before), rest(after));
    assert!(was.starts_with(']') && is.starts_with(','), "{what}: {was:?} became {is:?}");
}

#[test]
fn every_request_of_a_session_begins_as_the_one_before_it_in_every_dialect() {
    for name in ["anthropic", "openai", "gemini", "openai_compat", "ollama"] {
        let server = server(Script::answering(|asked| {
            let answers = asked.messages.len() / 2;
            match answers % TURNS {
                1 => Turn::new().call("skills_use", json!({"skill": "pdf"})),
                3 => Turn::new().call("mcp_fake_echo", json!({"text": "from a server"})),
                n if n + 1 == TURNS => Turn::new().text(format!("Answer {answers}.")),
                n => Turn::new().call(
                    "read_file",
                    json!({"path": if n % 2 == 0 { "x" } else { "sub/y" }, "offset": n + 1}),
                ),
            }
        }));
        let person = Person::new();
        person.settings(&crate::mcp::settings(&FakeMcpScript::default()));
        let skill = person.home().join(".agents/skills/pdf");
        std::fs::create_dir_all(&skill).unwrap();
        std::fs::write(skill.join("SKILL.md"), "---\nname: pdf\ndescription: Reads.\n---\nDo it.\n").unwrap();
        let text = "line\n".repeat(2 * TURNS);
        person
            .write("AGENTS.md", "Root.")
            .write("x", &text)
            .write("sub/AGENTS.md", "Sub.")
            .write("sub/y", &text);
        let url = match name {
            "openai" | "openai_compat" => server.openai_url(),
            "gemini" => format!("{}/v1beta", server.url()),
            _ => server.url(),
        };
        let args = ["-p", "go on", "--provider", name, "--base-url", &url, "--api-key", "k", "--model", "m"];
        let args = [&args[..], &["--allow-all"]].concat();
        for more in [&[][..], &["--continue"]] {
            let ended = person.run(&[&args[..], more].concat());
            assert_eq!(ended.code, 0, "{name}: {}", ended.stderr);
        }
        assert_eq!(server.violations(), []);
        let bodies: Vec<(Vec<Value>, Value)> = server.bodies().iter().map(parts).collect();
        assert_eq!(bodies.len(), 2 * TURNS, "{name}");
        for (at, pair) in bodies.windows(2).enumerate() {
            let ((before, head), (after, next_head)) = (&pair[0], &pair[1]);
            assert_eq!(
                head,
                next_head,
                "{name}, request {}: something before or behind the messages",
                at + 2
            );
            assert_eq!(before[..], after[..before.len()], "{name}, request {}", at + 2);
        }
        for (at, pair) in raw_bodies(&server).windows(2).enumerate() {
            assert_extends(&pair[0], &pair[1], &format!("{name}, request {}", at + 2));
        }
        let first = format!("{:?}", bodies[0]);
        assert!(first.contains("Root."), "{name}: {first}");
        assert!(bodies[7].0.iter().any(|message| message.to_string().contains("Sub.")), "{name}");
        assert!(bodies[7].0.iter().any(|message| message.to_string().contains("from a server")), "{name}");
        let why = person.run(&["cost", "why", &last_session(&person)]);
        assert!(
            why.stdout.contains("every request began as the one before it"),
            "{name}: {}{}",
            why.stdout,
            why.stderr
        );
    }
}

fn last_session(person: &Person) -> String {
    let listed = person.run(&["sessions", "list"]);
    listed.stdout.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn what_the_model_is_told_is_shown_with_who_says_it_and_how_much_it_is() {
    let person = Person::new();
    person.write("AGENTS.md", "Write tests.");
    std::fs::write(person.home().join("AGENTS.md"), "Be brief.").unwrap();
    let shown = person.run(&["prompt", "show"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    for part in [
        "section identity",
        "section frontend",
        "section guide",
        "of instructions",
        "Write tests.",
        "Be brief.",
        "tool shell",
        "before a prompt: environment",
    ] {
        assert!(shown.stdout.contains(part), "{part} in {}", shown.stdout);
    }
    assert!(shown.stdout.contains("not counted"), "what is not offered at first: {}", shown.stdout);
    let sizes = person.run(&["prompt", "show", "--sizes"]);
    assert!(sizes.stdout.contains("tokens") && !sizes.stdout.contains("Write tests."), "{}", sizes.stdout);
}

#[test]
fn costs_are_added_up_by_session_model_day_and_plugin() {
    let server = server(Script::answering(|_| Turn::new().text("Hello.")));
    let person = Person::asking(&server);
    for _ in 0..2 {
        assert_eq!(person.run(&["-p", "hi"]).code, 0);
    }
    for (by, rows) in [("session", 2), ("model", 1), ("day", 1), ("plugin", 1), ("part", 1)] {
        let shown = person.run(&["cost", "--by", by, "--json"]);
        let sums: Vec<Value> = serde_json::from_str(&shown.stdout).unwrap();
        assert_eq!(sums.len(), rows, "{by}: {}{}", shown.stdout, shown.stderr);
        let answers: u64 = sums.iter().map(|sum| sum["answers"].as_u64().unwrap()).sum();
        assert_eq!(answers, 2, "{by}");
    }
    let none = person.run(&["cost", "--cwd", "/"]);
    assert!(none.stdout.contains("there are no answers"), "{}", none.stdout);
}

#[test]
fn what_a_plugin_asked_beside_the_conversation_is_its_own_cost() {
    let server = server(Script::answering(|asked| {
        // Whoever shortens an output or a conversation gives the model no tools.
        if asked.tools.is_empty() {
            let usage = Usage { input: 10_000, output: 7, ..Usage::default() };
            return Turn::new().text("The numbers up to 4000.").usage(usage);
        }
        let usage = Usage { input: 20_000, output: 11, ..Usage::default() };
        match asked.results().first() {
            None => Turn::new().call("shell", json!({"command": "seq 4000"})).usage(usage),
            Some(_) => Turn::new().text("Counted.").usage(usage),
        }
    }));
    let person = Person::asking(&server);
    person.settings("[tools]\ncompress = \"model\"\n");
    let ended = person.run(&["-p", "count", "--allow-all", "--output-format", "json"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let sums = |by: &str| -> Vec<Value> {
        let shown = person.run(&["cost", "--by", by, "--json"]);
        serde_json::from_str(&shown.stdout).unwrap_or_else(|error| panic!("{error}: {}", shown.stderr))
    };
    let (by_plugin, by_session) = (sums("plugin"), sums("session"));
    let rows: Vec<(&str, u64, u64, u64)> = by_plugin
        .iter()
        .map(|sum| {
            let number = |name: &str| sum[name].as_u64().unwrap();
            (sum["name"].as_str().unwrap(), number("answers"), number("input"), number("output"))
        })
        .collect();
    assert_eq!(rows, [("compress", 1, 10_000, 7), ("the conversation", 2, 40_000, 22)]);
    let cost = |sum: &Value| sum["cost"].as_f64().unwrap();
    let (beside, own) = (cost(&by_plugin[0]), cost(&by_plugin[1]));
    assert!(beside > 0.0 && own > 3.9 * beside, "{by_plugin:?}");
    // The run and its session count it as well.
    assert_eq!((by_session.len(), &by_session[0]["answers"]), (1, &json!(3)));
    assert!((cost(&by_session[0]) - beside - own).abs() < 1e-9, "{by_session:?}");
    assert!((ended.result()["cost"].as_f64().unwrap() - beside - own).abs() < 1e-9, "{}", ended.stdout);
    let shown = person.run(&["cost", "--by", "plugin"]).stdout;
    let line = shown.lines().find(|line| line.starts_with("compress")).unwrap_or_else(|| panic!("{shown}"));
    assert!(line.contains(&zk_tui::dollars(beside)), "{shown}");
    assert_eq!(server.violations(), []);
}

#[test]
fn a_session_says_what_it_read_anew_and_why() {
    let server = server(Script::answering(|_| Turn::new().text("Hello.")));
    let person = Person::asking(&server);
    person.write("AGENTS.md", "One.");
    assert_eq!(person.run(&["-p", "hi"]).code, 0);
    let none = person.run(&["cost", "why", &last_session(&person)]);
    assert!(
        none.stdout.contains("every request began as the one before it"),
        "{}{}",
        none.stdout,
        none.stderr
    );
}

/// A tool that echoes its arguments.
struct Echo(Arc<ToolSpec>);

#[async_trait]
impl Tool for Echo {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    async fn call(&self, call: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text(call.args().to_string()))
    }
}

/// A time that is another one whenever it is asked for.
struct Ticking(AtomicU32);

#[async_trait]
impl PromptSection for Ticking {
    fn order(&self) -> i32 {
        section_order::PLACE
    }

    async fn text(&self, _: &Cx) -> Result<String, BoxError> {
        Ok(format!("It is 12:{:02}.", self.0.fetch_add(1, Ordering::Relaxed)))
    }
}

/// Makes a bus with what a session may have, in a directory with a skill: files, commands, skills, an MCP
/// server, and somebody who steers.
fn session_bus(dir: &Path) -> Bus {
    let skill = dir.join("skills/pdf");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(skill.join("SKILL.md"), "---\nname: pdf\ndescription: Reads.\n---\nDo it.\n").unwrap();
    let bus = Bus::new();
    let environment = Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    bus.install(&LocalPlugin::new(environment, WorkspaceFiles::new([dir]).unwrap())).unwrap();
    let roots = SkillRoots {
        cwd: dir.to_path_buf(),
        project: dir.to_path_buf(),
        configured: vec![dir.join("skills")],
        ..SkillRoots::default()
    };
    bus.install(&SkillsPlugin::new(SkillsOptions::new(roots))).unwrap();
    let fake = ServerConfig::read("fake", &crate::mcp::definition(&FakeMcpScript::default())).unwrap();
    bus.install(&McpPlugin::new([fake], dir)).unwrap();
    let steering = plugin_fn("steering", |scope| {
        scope.on_sync(|turn: &TurnAfter, cx: &Cx| {
            if turn.turn.is_multiple_of(10)
                && let Some(run) = cx.service::<dyn RunControl>()
            {
                run.steer(Message::user_text(format!("Hurry up after turn {}.", turn.turn))).unwrap();
            }
        });
        Ok(())
    });
    bus.install(&steering).unwrap();
    bus
}

#[tokio::test]
async fn skills_servers_steering_and_sub_agents_of_one_session_leave_the_beginning_of_every_request_in_every_dialect()
 {
    for name in ["anthropic", "openai", "gemini", "openai_compat", "ollama"] {
        let server = server(Script::answering(|asked| {
            let answers = asked.messages.iter().filter(|message| message.role == Role::Assistant).count();
            let is_child = asked.messages[0].text().contains("subtask");
            match answers % TURNS {
                _ if answers >= 2 * TURNS => Turn::new().text(format!("Answer {answers}.")),
                2 if is_child => Turn::new().text("The subtask is done."),
                1 => Turn::new().call("skills_use", json!({"skill": "pdf"})),
                3 => Turn::new().call("mcp_fake_echo", json!({"text": "from a server"})),
                5 if !is_child => Turn::new().call("spawn", json!({"task": "a subtask"})),
                n if n + 1 == TURNS => Turn::new().text(format!("Answer {answers}.")),
                n => Turn::new().call("echo", json!({"text": format!("{n}")})),
            }
        }));
        let url = match name {
            "openai" | "openai_compat" => server.openai_url(),
            "gemini" => format!("{}/v1beta", server.url()),
            _ => server.url(),
        };
        let vendor = Vendor::named(name).unwrap();
        let provider: Arc<dyn Provider> = vendor.provider(Connection::at(&url).key("k").named(name)).unwrap();
        let temp = tempfile::tempdir().unwrap();
        let bus = session_bus(&temp.path().canonicalize().unwrap());
        let breaks: Arc<Mutex<Vec<(PrefixPart, PrefixCause)>>> = Arc::default();
        let seen = breaks.clone();
        let everywhere = HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() };
        bus.scope("test").on_sync_at(everywhere, move |event: &PrefixBreak, _: &Cx| {
            seen.lock().unwrap().push((event.part.clone(), event.cause));
        });
        let spec = ToolSpec::new(
            "echo",
            "Echoes.",
            json!({"type": "object", "properties": {"text": {"type": "string"}}}),
        );
        let agent = Agent::builder(provider.clone())
            .unguarded()
            .bus(bus.clone())
            .model(provider.model("m"))
            .system("Be brief.")
            .tool(Arc::new(Echo(spec)))
            .spawn(SpawnOptions::default())
            .cwd(temp.path())
            .build()
            .unwrap();
        agent.warm_up().await.unwrap();
        for prompt in ["go on", "and on"] {
            agent.run(prompt).unwrap().wait().await.result.unwrap();
        }
        assert_eq!(server.violations(), [], "{name}");
        assert_eq!(*breaks.lock().unwrap(), [], "{name}");
        let is_child = |(messages, _): &(Vec<Value>, Value)| {
            messages.iter().take(2).any(|message| message.to_string().contains("subtask"))
        };
        let (children, own): (Vec<_>, Vec<_>) = server.bodies().iter().map(parts).partition(is_child);
        assert_eq!((own.len(), children.len()), (2 * TURNS, 2 * 3), "{name}");
        let last = format!("{:?}", own.last().unwrap().0);
        for part in ["Hurry up", "from a server", "Do it.", "The subtask is done."] {
            assert!(last.contains(part), "{name}: {part}");
        }
        let runs = std::iter::once(&own[..]).chain(children.chunks(3));
        for (at, pair) in runs.flat_map(|run| run.windows(2)).enumerate() {
            let ((before, head), (after, next_head)) = (&pair[0], &pair[1]);
            assert_eq!(head, next_head, "{name}, request {}", at + 2);
            assert_eq!(before[..], after[..before.len()], "{name}, request {}", at + 2);
        }
        let is_child = |body: &String| {
            body.contains("a subtask") && !body.contains("Hurry up") && !body.contains("go on")
        };
        let raw: Vec<String> = raw_bodies(&server).into_iter().filter(|body| !is_child(body)).collect();
        assert_eq!(raw.len(), 2 * TURNS, "{name}");
        for (at, pair) in raw.windows(2).enumerate() {
            assert_extends(&pair[0], &pair[1], &format!("{name}, request {}", at + 2));
        }
        // A clock in the prompt of the same session.
        let clock = Arc::new(Ticking(AtomicU32::new(0)));
        bus.scope("clockmaker").provide::<dyn PromptSection>("clock", clock).unwrap();
        for _ in 0..4 {
            agent.run("once more").unwrap().wait().await.result.unwrap();
        }
        let part = PrefixPart::Section { id: "clock".into(), source: "clockmaker".into() };
        use PrefixCause::{Reloaded, Unexplained};
        // At first the change may be that of a file that came and was edited.
        let expected = [Reloaded, Reloaded, Unexplained, Unexplained].map(|cause| (part.clone(), cause));
        assert_eq!(*breaks.lock().unwrap(), expected, "{name}");
        agent.close().await;
        bus.close().await;
    }
}

#[test]
fn a_section_that_changed_within_a_conversation_is_named_by_cost_why() {
    let server = server(Script::answering(|_| Turn::new().text("Hello. END")));
    let person = Person::asking(&server);
    person.write("AGENTS.md", "One.");
    let Some(mut terminal) = crate::terminal::Terminal::open(&person, "'first'") else { return };
    terminal.expect("END");
    terminal.expect("› ");
    person.write("AGENTS.md", "Two, and longer than before.");
    terminal.keys("second\r");
    terminal.expect("END");
    terminal.expect("› ");
    terminal.keys("/quit\r");
    terminal.rest();
    let why = person.run(&["cost", "why", &last_session(&person)]);
    for part in ["instructions", "tokens"] {
        assert!(why.stdout.contains(part), "{part} in {}{}", why.stdout, why.stderr);
    }
}
