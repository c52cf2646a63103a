//! A provider that takes no more than so many bytes: whatever it refused is not sent again.
//! `ZK_COMPACTION_CASES=10000` runs the whole campaign.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use serde_json::json;
use zk_agent::{Agent, AgentConversation};
use zk_compaction::{Focus, Rolling, Shorten, Subgoal, Summary, Tail, ToolPairs, Window};
use zk_core::kernel::Bus;
use zk_core::model::{ErrorKind, Model, ToolOutput, ToolSpec, context_size};
use zk_core::service::Provider;
use zk_testkit::{Script, ScriptedProvider, Turn};

#[derive(Clone, Debug)]
struct Case {
    strategy: usize,
    /// Window of the model in tokens, if any, and its limit in bytes.
    window: Option<u64>,
    takes: usize,
    /// Bytes of each result, and how many calls there are for each prompt.
    result: usize,
    calls: Vec<usize>,
    prompt: usize,
}

fn case() -> impl Strategy<Value = Case> {
    let window = prop::option::of(prop_oneof![Just(1_000_000u64), 2000..40_000u64]);
    let sizes = (2000..40_000usize, 10..12_000usize, prop_oneof![6 => 5..2000usize, 1 => Just(50_000usize)]);
    (0..8usize, window, sizes, prop::collection::vec(0..6usize, 1..6)).prop_map(
        |(strategy, window, (takes, result, prompt), calls)| Case {
            strategy,
            window,
            takes,
            result,
            calls,
            prompt,
        },
    )
}

fn install(bus: &Bus, strategy: usize) {
    bus.install(&Window::default()).unwrap();
    match strategy {
        0 => {}
        1 => drop(bus.install(&Tail::default().threshold(10_000)).unwrap()),
        2 => drop(bus.install(&Rolling).unwrap()),
        3 => drop(bus.install(&Summary).unwrap()),
        4 => drop(bus.install(&Subgoal::default()).unwrap()),
        5 => drop(bus.install(&Subgoal::by_gain()).unwrap()),
        6 => drop(bus.install(&ToolPairs).unwrap()),
        _ => drop(bus.install(&Focus::default()).unwrap()),
    }
    bus.install(&Shorten).unwrap();
}

async fn run(case: &Case) -> Result<(), TestCaseError> {
    let (refused, again) = (Arc::new(Mutex::new(HashSet::new())), Arc::new(Mutex::new(0)));
    let (seen, twice, takes) = (refused.clone(), again.clone(), case.takes);
    let left = Arc::new(Mutex::new(0));
    let wanted = left.clone();
    let script = Script::answering(move |asked| {
        if asked.tools.is_empty() {
            return Turn::new().text("## Aim\nTo read what there is, as it was said.");
        }
        if context_size(&asked.messages) > takes {
            let is_new = seen.lock().unwrap().insert(serde_json::to_string(&asked.messages).unwrap());
            *twice.lock().unwrap() += usize::from(!is_new);
            return Turn::new().error(ErrorKind::ContextExceeded, "prompt is too long");
        }
        let mut left = wanted.lock().unwrap();
        if *left == 0 {
            return Turn::new().text("Done.");
        }
        *left -= 1;
        Turn::new().call("page", json!({"number": asked.number}))
    });
    let provider = ScriptedProvider::new(script);
    let bus = Bus::new();
    install(&bus, case.strategy);
    let model = Model { window: case.window, ..provider.model("scripted") };
    let spec = ToolSpec::new("page", "A page.", json!({"type": "object"}));
    let page = crate::tools::Fixed(spec, ToolOutput::text("x".repeat(case.result)));
    let agent =
        Agent::builder(Arc::new(provider)).bus(bus).model(model).tool(Arc::new(page)).build().unwrap();
    let conversation = AgentConversation::new(agent);
    for (number, calls) in case.calls.iter().enumerate() {
        *left.lock().unwrap() = *calls;
        // Any end: other tests check it.
        let ran = conversation.run(format!("{number} {}", "p".repeat(case.prompt))).await;
        if let Ok(run) = ran {
            let _ = run.wait().await;
        }
    }
    prop_assert_eq!(*again.lock().unwrap(), 0, "sent twice: {:?}", case);
    Ok(())
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how a full campaign is asked for")]
fn a_request_that_was_refused_as_too_large_is_never_sent_again() {
    let cases: u32 = match std::env::var("ZK_COMPACTION_CASES") {
        Ok(cases) => cases.parse().unwrap(),
        Err(_) => 100,
    };
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[11; 32]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    TestRunner::new_with_rng(config, rng).run(&case(), |case| runtime.block_on(run(&case))).unwrap();
}
