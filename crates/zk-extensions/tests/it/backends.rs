use std::fs;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_agent::{Agent, RunOutcome};
use zk_core::model::{Approved, Message, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{Backend, Tool, ToolCx};

use crate::support::{Stage, has, of_crate};

/// Shell that says what it was given, and counts to three.
struct Counting(Arc<ToolSpec>);

#[async_trait]
impl Tool for Counting {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    async fn call(&self, call: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        let command = call.args().get("command").and_then(Value::as_str).unwrap_or_default();
        match command.contains("missing") {
            true => Err(ToolError::failed("no such file")),
            false => Ok(ToolOutput::text(format!("3 of `{command}`"))),
        }
    }
}

/// An agent whose prompts the backend answers.
fn agent_of(stage: &Stage, backend: &str) -> Agent {
    let provider = stage.bus.item::<dyn Backend>(backend).unwrap().provider().unwrap();
    let spec = ToolSpec::new("shell", "Runs.", json!({"type": "object"}));
    let agent = Agent::builder(provider).unguarded().bus(stage.bus.clone());
    agent.tool(Arc::new(Counting(spec))).build().unwrap()
}

async fn run(agent: &Agent, prompt: &str) -> RunOutcome {
    agent.run(prompt).unwrap().wait().await
}

fn texts(agent: &Agent) -> Vec<String> {
    agent
        .history()
        .iter()
        .map(|message: &Arc<Message>| message.text())
        .filter(|text| !text.is_empty())
        .collect()
}

#[tokio::test]
async fn an_agent_of_an_extension_answers_with_text_thoughts_and_calls_of_zk_in_each_language() {
    for (program, sdk, example) in [
        ("python3", "python/zk_extension.py", "backend.py"),
        ("node", "typescript/zk-extension.mjs", "backend.mjs"),
    ] {
        if !has(program, example) {
            continue;
        }
        let stage = Stage::new();
        let text = fs::read_to_string(of_crate("sdk/examples").join(example)).unwrap();
        assert!(text.lines().count() <= 60, "{example} has more than 60 lines");
        let sdk = of_crate("sdk").join(sdk);
        fs::copy(&sdk, stage.path().join(sdk.file_name().unwrap())).unwrap();
        fs::write(stage.path().join(example), text).unwrap();
        let mut config = zk_extensions::ExtensionConfig::new("x", [program, example]);
        config.limits.start = std::time::Duration::from_secs(60);
        stage.install(config).ready().await.unwrap();
        let backend = stage.bus.item::<dyn Backend>("counter").unwrap();
        assert_eq!(backend.describe(), "counts lines of files (extension `x`)", "{example}");
        assert!(!backend.has_own_permissions() && backend.unenforced().len() == 1, "{example}");
        let models = backend.provider().unwrap().known_models();
        assert_eq!(models.iter().map(|model| model.id.to_string()).collect::<Vec<_>>(), ["lines", "words"]);
        let agent = agent_of(&stage, "counter");
        run(&agent, "count a.txt").await.result.unwrap();
        run(&agent, "count missing").await.result.unwrap();
        let asking = "I count with zk's shell, which asks you where it has to.";
        assert_eq!(
            texts(&agent),
            [
                "count a.txt",
                asking,
                "Counted: 3",
                "count missing",
                asking,
                "It cannot be counted: no such file"
            ],
            "{example}"
        );
        let history = format!("{:?}", agent.history());
        assert!(history.contains("A file to count."), "{example}: {history}");
        assert!(history.contains("3 of `wc -l"), "{example}: {history}");
        agent.close().await;
        stage.close().await;
    }
}

/// An extension with the backend `x` whose turns run `turn`.
fn script(turn: &str) -> String {
    format!(
        r#"hello '{{"backends":[{{"name":"x"}}]}}'
        while next; do case $method in backend/turn) {turn} ;; *) [ -n "$id" ] && reply null ;; esac; done"#
    )
}

#[tokio::test]
async fn a_turn_that_goes_wrong_says_so_and_the_next_one_goes_on() {
    for (turn, said) in [
        (r#"fail 'no luck'"#, "extension `x` failed: no luck"),
        (r#"reply '{"txet":"a"}'"#, "unknown field `txet`"),
        (r#"reply '{"calls":[{"args":{}}]}'"#, "missing field `tool`"),
    ] {
        let stage = Stage::new();
        let turn = format!("if [ -f ok ]; then reply '{{\"text\":\"better\"}}'; else {turn}; fi");
        stage.ready(&script(&turn)).await;
        let agent = agent_of(&stage, "x");
        let error = run(&agent, "hello").await.result.unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("/backend"), "{error}");
        fs::write(stage.path().join("ok"), "").unwrap();
        run(&agent, "again").await.result.unwrap();
        assert_eq!(texts(&agent).last().map(String::as_str), Some("better"));
        agent.close().await;
        stage.close().await;
    }
}

#[tokio::test]
async fn a_turn_that_is_stopped_is_cancelled_in_the_extension() {
    let stage = Stage::new();
    let turn = r#"touch begun; next; case $line in *'"cancel"'*) touch cancelled ;; esac"#;
    stage.ready(&script(turn)).await;
    let agent = agent_of(&stage, "x");
    let mut going = agent.run("hello").unwrap();
    going.start();
    crate::support::until("the turn began", || stage.path().join("begun").exists()).await;
    going.abort();
    going.wait().await;
    crate::support::until("it is cancelled", || stage.path().join("cancelled").exists()).await;
    agent.close().await;
    stage.close().await;
}

#[tokio::test]
async fn a_name_that_cannot_be_a_backend_is_left_out_in_words() {
    let stage = Stage::new();
    let list =
        r#"[{"name":"openai"},{"name":"a/b"},{"name":"zk"},{"name":"m","models":[""]},{"name":"fine"}]"#;
    let config = stage.config(&format!("hello '{{\"backends\":{list}}}'; while next; do :; done"));
    stage
        .bus
        .scope("backends")
        .provide::<dyn Backend>("zk", Arc::new(zk_core::service::BuiltInBackend))
        .unwrap();
    let notices = stage.notices.clone();
    let extension = zk_extensions::Extension::new(config, stage.path())
        .reserve_backend_names(["openai".to_owned()])
        .on_notice(move |text| notices.lock().unwrap().push(text.to_owned()));
    stage.bus.install(&extension).unwrap();
    let handle = extension.handle();
    handle.ready().await.unwrap();
    let kept: Vec<String> = handle.registered().into_iter().map(|one| one.name).collect();
    assert_eq!(kept, ["fine"], "{}", stage.notices());
    for said in ["zk has a provider of this name", "letters, digits", "`zk`", "no id of a model"] {
        assert!(stage.notices().contains(said), "{said}: {}", stage.notices());
    }
    stage.close().await;
}
