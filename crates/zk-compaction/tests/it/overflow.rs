use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_agent::{Agent, AgentBuilder};
use zk_compaction::{Shorten, Window};
use zk_core::model::{
    AgentError, Approved, Block, Effects, ErrorKind, Message, Model, Phase, ProviderError, StopReason,
    ToolError, ToolOutput, ToolSpec, context_size,
};
use zk_core::service::{CallPlace, Provider, Tool, ToolCx};
use zk_testkit::{Asked, Recorder, Script, ScriptedProvider, Turn};

/// Window of these tests in units of [`context_size`].
const WINDOW: usize = 40_000;

struct Page(Arc<ToolSpec>);

#[async_trait]
impl Tool for Page {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    async fn call(&self, call: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        let bytes = call.args()["bytes"].as_u64().unwrap_or(6000);
        Ok(ToolOutput::text("x".repeat(usize::try_from(bytes).unwrap())))
    }
}

struct Rig {
    agent: Agent,
    provider: ScriptedProvider,
    recorder: Recorder,
}

fn rig(script: Script, change: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Rig {
    let (provider, recorder) = (ScriptedProvider::new(script), Recorder::new());
    let spec = ToolSpec::new("page", "A page.", json!({"type": "object"}));
    let builder =
        Agent::builder(Arc::new(provider.clone())).tool(Arc::new(Page(spec))).plugin(recorder.clone());
    Rig { agent: change(builder).build().unwrap(), provider, recorder }
}

/// Model that reads `pages` pages, then finishes, and accepts only its window.
fn reader(pages: usize) -> Script {
    Script::answering(move |asked| {
        if context_size(&asked.messages) > WINDOW {
            return Turn::new().error(ErrorKind::ContextExceeded, "prompt is too long");
        }
        match read(asked) {
            read if read < pages => Turn::new().call("page", json!({"number": read})),
            _ => Turn::new().text("Done."),
        }
    })
}

/// The number after that of the page read last.
fn read(asked: &Asked) -> usize {
    let calls = asked.messages.iter().flat_map(|message| message.calls());
    calls.last().and_then(|call| call.args["number"].as_u64()).map_or(0, |last| last as usize + 1)
}

#[tokio::test]
async fn a_conversation_that_does_not_fit_is_made_shorter_and_the_model_asked_again_at_once() {
    let rig = rig(reader(30), |builder| builder.plugin(Window::default()).plugin(Shorten));
    let outcome = rig.agent.run("read the book").unwrap().wait().await;
    outcome.result.unwrap();
    assert_eq!((outcome.text.as_str(), outcome.stats.turns), ("Done.", 31));
    let overflows = rig.recorder.named("context:overflow");
    assert!(overflows.len() >= 3, "{}", overflows.len());
    assert_eq!(rig.recorder.named("context:reduced").len(), overflows.len());
    assert_eq!(rig.recorder.named("turn:before").len(), 31, "asking again is no second turn");
    assert_eq!(rig.recorder.named("turn:after").len(), 31);
    assert_eq!(rig.provider.asked().len(), 31 + overflows.len());
    let history = rig.agent.history();
    assert_eq!(history.len(), 2 + 2 * 30);
    assert!(context_size(&history) > 30 * 6000, "what is stored is whole");
}

#[tokio::test]
async fn without_anybody_who_makes_it_shorter_the_run_ends_with_the_error() {
    let rig = rig(reader(30), |builder| builder);
    let outcome = rig.agent.run("read the book").unwrap().wait().await;
    assert!(matches!(outcome.result, Err(AgentError::ContextExceeded(_))));
    assert_eq!(rig.recorder.named("context:overflow").len(), 1);
    assert_eq!(rig.recorder.named("context:reduced").len(), 0);
}

// Once, then it is an error.
#[tokio::test]
async fn a_request_that_still_does_not_fit_is_not_sent_a_third_time() {
    let script = Script::answering(|asked| match asked.number {
        1..=4 => Turn::new().call("page", json!({"number": asked.number})),
        _ => Turn::new().error(ErrorKind::ContextExceeded, "prompt is too long"),
    });
    let rig = rig(script, |builder| builder.plugin(Window::default()).plugin(Shorten));
    let outcome = rig.agent.run("read").unwrap().wait().await;
    assert!(matches!(outcome.result, Err(AgentError::ContextExceeded(_))));
    assert_eq!(rig.provider.asked().len(), 6);
    assert_eq!(rig.recorder.named("turn:after").len(), 5);
    assert_eq!(rig.recorder.named("context:reduced").len(), 1);
}

#[tokio::test]
async fn a_prompt_that_alone_does_not_fit_is_sent_once() {
    let rig = rig(reader(0), |builder| builder.plugin(Window::default()).plugin(Shorten));
    let outcome = rig.agent.run("x".repeat(WINDOW + 1)).unwrap().wait().await;
    assert!(matches!(outcome.result, Err(AgentError::ContextExceeded(_))));
    assert_eq!(rig.provider.asked().len(), 1);
}

#[tokio::test]
async fn results_of_one_turn_that_do_not_fit_lose_their_middle() {
    let script = Script::answering(|asked| {
        if context_size(&asked.messages) > WINDOW {
            return Turn::new().error(ErrorKind::ContextExceeded, "prompt is too long");
        }
        if read(asked) == 0 {
            let page = |turn: Turn, number| turn.call("page", json!({"number": number, "bytes": 30_000}));
            return (0..4).fold(Turn::new(), page);
        }
        Turn::new().text("Done.")
    });
    let rig = rig(script, |builder| builder.plugin(Window::default()).plugin(Shorten));
    rig.agent.run("read").unwrap().wait().await.result.unwrap();
    let last = rig.provider.asked().pop().unwrap();
    let results = last.results();
    assert_eq!(results.len(), 4);
    for result in results {
        assert!(result.text.contains("bytes were left out to save context"), "{}", result.text.len());
        assert!(result.text.starts_with("xxx") && result.text.ends_with("xxx"));
    }
}

/// A long talk without tools.
fn talk() -> Vec<Arc<Message>> {
    let pairs = (0..40).flat_map(|number| {
        let say = |what: &str| format!("{what} {number}: {}", "y".repeat(1500));
        [
            Message::user_text(if number == 0 { "The task".into() } else { say("question") }).shared(),
            Message::assistant(vec![Block::text(say("answer"))]).shared(),
        ]
    });
    pairs.collect()
}

/// Model that accepts only its window, and reports the window's size.
fn telling() -> Script {
    Script::answering(|asked| {
        if context_size(&asked.messages) <= WINDOW {
            return Turn::new().text("Done.");
        }
        let error = ProviderError::new(
            ErrorKind::ContextExceeded,
            "scripted",
            "scripted-1",
            Phase::Response,
            "too long",
        );
        Turn::new().fail(ProviderError { window: Some(WINDOW as u64 / 3), ..error })
    })
}

#[tokio::test]
async fn a_talk_without_tools_loses_its_oldest_messages_but_not_the_first() {
    let rig = rig(telling(), |builder| builder.plugin(Window::default()).plugin(Shorten).history(talk()));
    assert!(context_size(&rig.agent.history()) > WINDOW * 2, "to halve it would not do");
    rig.agent.run("And now?").unwrap().wait().await.result.unwrap();
    let asked = rig.provider.asked().pop().unwrap();
    let first = asked.messages.first().unwrap().text();
    assert!(
        first.starts_with("The task") && first.contains("earlier messages were left out here"),
        "{first}"
    );
    assert_eq!(asked.last_user_text(), "And now?");
    assert!(context_size(&asked.messages) > WINDOW / 3, "no more than needed is left out");
}

#[tokio::test]
async fn between_two_overflows_every_request_begins_with_the_one_before() {
    let rig = rig(reader(40), |builder| builder.plugin(Window::default()).plugin(Shorten));
    rig.agent.run("read the book").unwrap().wait().await.result.unwrap();
    let asked = rig.provider.asked();
    let fits = |asked: &&Asked| context_size(&asked.messages) <= WINDOW;
    let sent: Vec<&Asked> = asked.iter().filter(fits).collect();
    let broken = sent.windows(2).filter(|pair| !pair[1].messages.starts_with(&pair[0].messages)).count();
    assert_eq!(broken, rig.recorder.named("context:reduced").len());
}

/// Model whose window is full in the middle of the answers `which`.
fn cut(which: &'static [usize]) -> Script {
    Script::answering(move |asked| match asked.number {
        number if which.contains(&number) => {
            Turn::new().text("Once upon a").stop(StopReason::ContextExceeded)
        }
        number if number < 6 => Turn::new().call("page", json!({"number": number})),
        _ => Turn::new().text(" time."),
    })
}

#[tokio::test]
async fn an_answer_that_the_full_window_cut_is_gone_on_with() {
    let rig = rig(cut(&[6]), |builder| builder.plugin(Window::default()).plugin(Shorten));
    let outcome = rig.agent.run("tell").unwrap().wait().await;
    outcome.result.unwrap();
    assert_eq!(outcome.text, " time.");
    let last = rig.provider.asked().pop().unwrap();
    let said: Vec<String> = last.messages.iter().map(|message| message.text()).collect();
    assert_eq!(said[said.len() - 2..], ["Once upon a", "Continue."]);
    assert_eq!(rig.recorder.named("context:reduced").len(), 1);
}

#[tokio::test]
async fn an_answer_that_is_cut_again_at_once_ends_the_run() {
    let rig = rig(cut(&[6, 7]), |builder| builder.plugin(Window::default()).plugin(Shorten));
    let outcome = rig.agent.run("tell").unwrap().wait().await;
    assert!(matches!(outcome.result, Err(AgentError::ContextExceeded(_))));
    assert_eq!(rig.provider.asked().len(), 7);
}

#[tokio::test]
async fn another_model_gets_the_whole_conversation_again() {
    let script = Script::answering(|asked| match asked.number {
        1..=5 => Turn::new().call("page", json!({"number": asked.number})),
        6 => Turn::new().error(ErrorKind::ContextExceeded, "prompt is too long"),
        _ => Turn::new().text("Done."),
    });
    let rig = rig(script, |builder| builder.plugin(Window::default()).plugin(Shorten));
    rig.agent.run("read").unwrap().wait().await.result.unwrap();
    rig.agent.set_model(rig.provider.model("larger")).await.unwrap();
    rig.agent.run("again").unwrap().wait().await.result.unwrap();
    let sizes: Vec<usize> = rig.provider.asked().iter().map(|asked| context_size(&asked.messages)).collect();
    assert!(sizes[6] < sizes[5] && sizes[7] > sizes[5], "{sizes:?}");
}

#[tokio::test]
async fn a_conversation_is_compacted_before_it_overflows_where_the_window_is_known() {
    let small = Model { window: Some(4000), ..ScriptedProvider::new(Script::new()).model("small") };
    let rig = rig(reader(12), |builder| builder.plugin(Window::default()).plugin(Shorten).model(small));
    rig.agent.run("read").unwrap().wait().await.result.unwrap();
    assert_eq!(rig.recorder.named("context:overflow").len(), 0);
    let sizes: Vec<usize> = rig.provider.asked().iter().map(|asked| context_size(&asked.messages)).collect();
    assert!(sizes.iter().all(|size| *size < 3000 * 4), "{sizes:?}");
    let stages = rig.recorder.named("context:compaction");
    assert!(stages.iter().any(|event| event["stage"] == "done"), "{stages:?}");
}
