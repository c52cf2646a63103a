//! Amount of reasoning that a model is asked for.

use serde_json::json;
use zk_agent::{Behavior, RunOptions, ThinkingDecay};
use zk_core::events::{PartLeftOut, ProviderRequest, RequestPatch, ThinkingSelect};
use zk_core::kernel::Cx;
use zk_core::model::{Block, Capabilities, Model, ModelRef, ThinkingLevel, ThinkingRequest, ThinkingSupport};
use zk_core::service::RunControl;
use zk_testkit::{Script, ScriptedProvider, Turn};

use crate::support::{Rig, rig, rig_on, rig_with};

fn exact(level: ThinkingLevel, budget: u32) -> ThinkingRequest {
    ThinkingRequest { level, budget: Some(budget) }
}

fn requested_thinking(rig: &Rig) -> Vec<(ThinkingLevel, Option<u32>)> {
    rig.provider.requests().iter().map(|one| (one.thinking.level, one.thinking.budget)).collect()
}

fn calling(turns: usize) -> Script {
    let script =
        (1..turns).fold(Script::new(), |script, _| script.turn(|t| t.call("echo", json!({"text": "x"}))));
    script.turn(|t| t.text("ok"))
}

#[test]
fn the_levels_have_their_budgets_and_an_exact_one_goes_over_them() {
    let budget = |level| ThinkingRequest { level, budget: None }.budget();
    use ThinkingLevel::*;
    assert_eq!(
        [Off, Minimal, Low, Medium, High, Adaptive].map(budget),
        [None, Some(1024), Some(4096), Some(10_240), Some(32_768), None]
    );
    assert_eq!(exact(Low, 500).budget(), Some(500));
    assert_eq!(exact(Off, 500).budget(), None);
}

// The default decay, through real turns.
#[tokio::test]
async fn an_exact_budget_decays_over_the_turns_of_a_run() {
    let decay = ThinkingDecay::Geometric { after_turn: 2, factor: 0.5, floor: 1024 };
    let behavior = Behavior { thinking_decay: Some(decay), ..Behavior::default() };
    let rig = rig_with(calling(6), |b| b.behavior(behavior).thinking(exact(ThinkingLevel::High, 8192)));
    rig.run("go").await.result.unwrap();
    let budgets: Vec<u32> = requested_thinking(&rig).iter().filter_map(|(_, budget)| *budget).collect();
    assert_eq!(budgets, [8192, 8192, 4096, 2048, 1024, 1024]);
    let told: Vec<_> =
        rig.recorder.named("turn:before").iter().map(|e| e["thinking"]["budget"].clone()).collect();
    assert_eq!(told, [8192, 8192, 4096, 2048, 1024, 1024]);
}

#[tokio::test]
async fn a_level_without_an_exact_budget_does_not_decay() {
    let decay = ThinkingDecay::Geometric { after_turn: 0, factor: 0.5, floor: 0 };
    let behavior = Behavior { thinking_decay: Some(decay), ..Behavior::default() };
    let level = ThinkingRequest { level: ThinkingLevel::High, budget: None };
    let rig = rig_with(calling(2), |b| b.behavior(behavior).thinking(level));
    rig.run("go").await.result.unwrap();
    assert_eq!(requested_thinking(&rig), [(ThinkingLevel::High, None); 2]);
}

// With a budget, the output limit is the smaller of the two; only where the model decides by itself.
#[tokio::test]
async fn an_adaptive_budget_bounds_the_output_of_models_that_decide_themselves() {
    for (support, limit) in [(ThinkingSupport::Adaptive, 2000), (ThinkingSupport::Budget, 16_384)] {
        let model = Model {
            capabilities: Capabilities { thinking: support, ..Capabilities::default() },
            ..Model::unknown("scripted", "m")
        };
        let provider = ScriptedProvider::new(Script::new().turn(|t| t.text("ok"))).with_model(model);
        let rig = rig_on(provider, |b| b.thinking(exact(ThinkingLevel::Adaptive, 2000)));
        rig.run("go").await.result.unwrap();
        assert_eq!(rig.provider.requests()[0].max_tokens, limit, "{support:?}");
    }
}

#[tokio::test]
async fn a_run_and_the_agent_can_change_the_thinking() {
    let rig = rig(Script::answering(|_| Turn::new().text("ok")));
    rig.run("one").await.result.unwrap();
    let low = ThinkingRequest { level: ThinkingLevel::Low, budget: None };
    rig.run(RunOptions::from("two").thinking(low)).await.result.unwrap();
    rig.agent.set_thinking(ThinkingRequest { level: ThinkingLevel::High, budget: None }).await.unwrap();
    rig.run("three").await.result.unwrap();
    let levels: Vec<ThinkingLevel> = requested_thinking(&rig).into_iter().map(|(level, _)| level).collect();
    assert_eq!(levels, [ThinkingLevel::Off, ThinkingLevel::Low, ThinkingLevel::High]);
    assert_eq!(rig.recorder.of::<ThinkingSelect>()[0], json!({"from": "off", "to": "high", "cause": "set"}));
}

#[tokio::test]
async fn a_handler_changes_the_parameters_of_one_request() {
    let rig = rig(calling(2));
    let scope = rig.scope("patcher");
    scope.on_sync(|_: &ProviderRequest, _: &Cx| {
        Some(RequestPatch { max_tokens: Some(100), ..RequestPatch::default() })
    });
    scope.on_sync(|request: &ProviderRequest, _: &Cx| {
        let thinking = exact(ThinkingLevel::Low, request.max_tokens * 2);
        Some(RequestPatch { thinking: Some(thinking), ..RequestPatch::default() })
    });
    rig.run("go").await.result.unwrap();
    let requests = rig.provider.requests();
    assert_eq!((requests[0].max_tokens, requests[0].thinking), (100, exact(ThinkingLevel::Low, 200)));
    assert_eq!(rig.agent.thinking(), ThinkingRequest::default(), "the agent's own setting stays");
}

#[tokio::test]
async fn a_handler_has_another_known_model_answer_a_turn_and_an_unknown_one_is_told_of_once() {
    let rig = rig_with(calling(4), |builder| builder.model(Model::unknown("scripted", "own-model")));
    rig.scope("chooser").on_sync(|event: &ProviderRequest, cx: &Cx| {
        assert_eq!(event.model.model, "own-model", "each turn begins with the model of the run");
        let turn = cx.service::<dyn RunControl>().unwrap().state().turn;
        // A part of its id, then an unknown one, twice.
        let name = ["scripted", "nobody", "nobody"].get(turn as usize - 1)?;
        let model = Some(ModelRef::new("scripted", *name));
        Some(RequestPatch { model, ..RequestPatch::default() })
    });
    rig.run("go").await.result.unwrap();
    let models: Vec<String> =
        rig.provider.requests().iter().map(|request| request.model.id.clone()).collect();
    assert_eq!(models[..4], ["scripted-1", "own-model", "own-model", "own-model"]);
    let left_out = rig.recorder.of::<PartLeftOut>();
    assert_eq!(left_out.len(), 1, "{left_out:?}");
    assert_eq!((&left_out[0]["kind"], &left_out[0]["name"]), (&json!("model"), &json!("scripted/nobody")));
    assert_eq!(rig.agent.model().id, "own-model");
}

// Reasoning is kept with its signature and origin.
#[tokio::test]
async fn thinking_is_kept_in_the_history() {
    let rig = rig(Script::new().turn(|t| t.signed_thinking("Hm.", "sig").text("ok")));
    rig.run("go").await.result.unwrap();
    let history = rig.agent.history();
    let Block::Thinking(thinking) = &history[1].content[0] else { panic!("{:?}", history[1]) };
    assert_eq!((thinking.text.as_str(), thinking.signature.as_deref()), ("Hm.", Some("sig")));
    assert_eq!(thinking.origin.as_ref().map(|origin| origin.model.as_str()), Some("scripted-1"));
}
