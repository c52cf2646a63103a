//! The rules of single events, on the real ones.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex};

use serde_json::json;
use zk_core::events::{
    AgentBeforeStart, BashOutput, BeforeStart, CallRef, CompactionTrigger, ContextTransform, Decision, Input,
    InputReply, MessageEnd, Offer, ProviderPayload, ProviderRequest, RequestPatch, Resources,
    ResourcesDiscover, ResultPatch, Ruling, SessionBeforeCompact, SessionBeforeReply, ToolGate, ToolPrepare,
    ToolTransform, ToolsOffer, UserBash,
};
use zk_core::kernel::{Bus, Cx, EmitError, Scope, Stage};
use zk_core::model::{
    Block, Message, Model, ModelRef, Role, ThinkingRequest, ToolContent, ToolOutput, TurnId,
};
use zk_core::service::{CallPlace, ToolChoice};

/// Texts that handlers noted, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, text: impl Display) {
        self.0.lock().unwrap().push(text.to_string());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn setup() -> (Bus, Scope, Log) {
    let bus = Bus::new();
    let scope = bus.scope("test");
    (bus, scope, Log::default())
}

fn call() -> Arc<CallRef> {
    Arc::new(CallRef {
        turn_id: TurnId::from("t_1"),
        call_id: "call_1".into(),
        name: "shell".into(),
        display_name: "Bash".into(),
    })
}

fn gate() -> ToolGate {
    let place = CallPlace { cx: Bus::new().cx(), cwd: ".".into() };
    ToolGate::new(call(), json!({"command": "ls"}), None, place)
}

fn input(text: &str) -> Input {
    Input { text: text.into(), images: Vec::new(), handled: false, added: Vec::new() }
}

#[tokio::test]
async fn input_is_rewritten_step_by_step_and_keeps_its_images() {
    let (bus, scope, _) = setup();
    for suffix in [" a", " b"] {
        scope.on_sync(move |ev: &Input, _: &Cx| {
            Some(InputReply::Transform { text: format!("{}{suffix}", ev.text), images: None })
        });
    }
    let image = zk_core::model::Image::new("image/png", "AA==");
    let after = bus.cx().emit(Input { images: vec![image.clone()], ..input("hi") }).await.unwrap();
    assert_eq!((after.text.as_str(), after.images, after.handled), ("hi a b", vec![image], false));
}

#[tokio::test]
async fn a_tool_that_one_handler_hides_no_other_gives_back() {
    let (bus, scope, _) = setup();
    for offer in [Offer::Lazy, Offer::Never, Offer::Always] {
        scope.on_sync(move |_: &ToolsOffer, _: &Cx| Some(BTreeMap::from([("shell".to_owned(), offer)])));
    }
    let tools = BTreeMap::from([("shell".to_owned(), Offer::Always)]);
    let after = bus.cx().emit(ToolsOffer { model: Model::unknown("lab", "lab-1"), tools }).await.unwrap();
    assert_eq!(after.tools["shell"], Offer::Never);
}

#[tokio::test]
async fn handled_input_reaches_no_later_handler() {
    let (bus, scope, log) = setup();
    scope.on_sync(|ev: &Input, _: &Cx| ev.text.starts_with('/').then_some(InputReply::Handled));
    let seen = log.clone();
    scope.on_sync(move |ev: &Input, _: &Cx| seen.note(&ev.text));
    assert!(bus.cx().emit(input("/help")).await.unwrap().handled);
    assert!(!bus.cx().emit(input("help")).await.unwrap().handled);
    assert_eq!(log.take(), ["help"]);
}

#[tokio::test]
async fn the_first_result_replaces_a_persons_command() {
    let (bus, scope, log) = setup();
    let bash = || UserBash { command: "make".into(), private: false };
    scope.on_sync(|_: &UserBash, _: &Cx| None::<BashOutput>);
    assert_eq!(bus.cx().emit(bash()).await.unwrap(), None);
    scope.on_sync(|_: &UserBash, _: &Cx| Some(BashOutput { output: "remote".into(), exit_code: 2 }));
    let seen = log.clone();
    scope.on_sync(move |_: &UserBash, _: &Cx| seen.note("asked"));
    assert_eq!(bus.cx().emit(bash()).await.unwrap().unwrap().exit_code, 2);
    assert!(log.take().is_empty());
}

// A reply is content alone, so it has no role.
#[tokio::test]
async fn a_replaced_message_keeps_its_role_and_origin() {
    let (bus, scope, _) = setup();
    scope.on_sync(|_: &MessageEnd, _: &Cx| Some(vec![Block::text("redacted")]));
    let origin = Some(ModelRef::new("p", "m"));
    let message = Message { origin: origin.clone(), ..Message::assistant(vec![Block::text("secret")]) };
    let after = bus.cx().emit(MessageEnd { turn_id: TurnId::from("t_1"), message }).await.unwrap().message;
    assert_eq!((after.role, after.text().as_str(), after.origin), (Role::Assistant, "redacted", origin));
}

#[tokio::test]
async fn before_a_run_messages_are_collected_and_the_prompt_is_chained() {
    let (bus, scope, log) = setup();
    let seen = log.clone();
    for name in ["one", "two"] {
        let seen = seen.clone();
        scope.on_sync(move |ev: &AgentBeforeStart, _: &Cx| {
            seen.note(format_args!("{name} sees {:?} and {} messages", ev.system, ev.messages.len()));
            Some(BeforeStart {
                messages: vec![Message::user_text(name)],
                system: Some(format!("{} {name}", ev.system)),
            })
        });
    }
    scope.on_sync(|_: &AgentBeforeStart, _: &Cx| Some(BeforeStart::default()));
    let event = AgentBeforeStart { prompt: None, system: "base".into(), messages: Vec::new() };
    let after = bus.cx().emit(event).await.unwrap();
    assert_eq!(log.take(), [r#"one sees "base" and 0 messages"#, r#"two sees "base one" and 1 messages"#]);
    assert_eq!(after.system, "base one two");
    assert_eq!(after.messages.iter().map(|m| m.text()).collect::<Vec<_>>(), ["one", "two"]);
}

#[tokio::test]
async fn discovered_resources_keep_their_sources() {
    let bus = Bus::new();
    for name in ["skills", "team"] {
        bus.scope(name).on_sync(move |ev: &ResourcesDiscover, _: &Cx| {
            Some(Resources { skills: vec![ev.cwd.join(name)] })
        });
    }
    let all = bus.cx().emit(ResourcesDiscover { cwd: "/home".into() }).await.unwrap();
    let all: Vec<_> = all.iter().map(|one| format!("{}: {:?}", one.from, one.reply.skills)).collect();
    assert_eq!(all, [r#"skills: ["/home/skills"]"#, r#"team: ["/home/team"]"#]);
}

#[tokio::test]
async fn the_next_handler_gets_the_prepared_arguments() {
    let (bus, scope, log) = setup();
    scope.on_sync(|_: &ToolPrepare, _: &Cx| Some(json!({"command": "ls -a"})));
    let seen = log.clone();
    scope.on_sync(move |ev: &ToolPrepare, _: &Cx| seen.note(ev.args.to_string()));
    let gate = gate();
    let prepare = ToolPrepare { call: gate.call, args: gate.args, rewritten_by: None };
    let after = bus.cx().emit(prepare).await.unwrap();
    assert_eq!(log.take(), [r#"{"command":"ls -a"}"#]);
    assert_eq!(after.args, json!({"command": "ls -a"}));
    assert_eq!(after.rewritten_by.unwrap().as_str(), "test");
}

// Block beats result.
#[tokio::test]
async fn a_refusal_beats_a_substitute_and_ends_the_emission() {
    let (bus, scope, log) = setup();
    bus.scope("cache").on_sync(|_: &ToolGate, _: &Cx| Some(Ruling::Substitute(ToolOutput::text("cached"))));
    let seen = log.clone();
    let guard = bus.scope("guard");
    guard.on_sync_at(Stage::Framework, move |ev: &ToolGate, _: &Cx| {
        seen.note(ev.is_decided());
        Some(Ruling::refuse("not allowed"))
    });
    let late = log.clone();
    scope.on_sync_at(Stage::Late, move |_: &ToolGate, _: &Cx| late.note("asked"));
    let after = bus.cx().emit(gate()).await.unwrap();
    assert_eq!(after.decision, Some(Decision::Refuse { reason: "not allowed".into() }));
    assert_eq!(after.decided_by.unwrap().as_str(), "guard");
    assert_eq!(log.take(), ["true"]);
}

#[tokio::test]
async fn a_substitute_names_its_source_and_later_gates_are_asked() {
    let (bus, scope, log) = setup();
    bus.scope("cache").on_sync(|_: &ToolGate, _: &Cx| Some(Ruling::Substitute(ToolOutput::text("cached"))));
    let seen = log.clone();
    scope.on_sync(move |ev: &ToolGate, _: &Cx| seen.note(ev.is_decided()));
    let after = bus.cx().emit(gate()).await.unwrap();
    assert_eq!(after.decision, Some(Decision::Substitute { output: ToolOutput::text("cached") }));
    assert_eq!(after.decided_by.unwrap().as_str(), "cache");
    assert_eq!(log.take(), ["true"]);
}

// A failing gate blocks, every other failing handler is skipped.
#[tokio::test]
async fn a_failing_tool_gate_refuses_and_a_failing_transform_does_not_count() {
    let (bus, scope, _) = setup();
    scope.on_sync(|_: &ToolGate, _: &Cx| Err::<Option<Ruling>, _>("no rules"));
    scope.on_sync(|_: &ToolTransform, _: &Cx| Err::<Option<ResultPatch>, _>("no patch"));
    assert!(matches!(bus.cx().emit(gate()).await, Err(EmitError::Hook(_))));
    let after = bus.cx().emit(transform()).await.unwrap();
    assert_eq!(after.content, ToolContent::Text("output".into()));
}

fn transform() -> ToolTransform {
    ToolTransform {
        call: call(),
        content: ToolContent::Text("output".into()),
        is_error: false,
        details: Some(json!({"code": 1})),
        output_bytes: 6,
    }
}

#[tokio::test]
async fn result_patches_add_up_and_each_handler_sees_the_ones_before() {
    let (bus, scope, log) = setup();
    scope.on_sync(|_: &ToolTransform, _: &Cx| {
        Some(ResultPatch { content: Some(ToolContent::Text("short".into())), ..ResultPatch::default() })
    });
    let seen = log.clone();
    scope.on_sync(move |ev: &ToolTransform, _: &Cx| {
        seen.note(ev.content.to_text());
        Some(ResultPatch { is_error: Some(true), ..ResultPatch::default() })
    });
    let after = bus.cx().emit(transform()).await.unwrap();
    assert_eq!(log.take(), ["short"]);
    assert_eq!((after.content, after.is_error), (ToolContent::Text("short".into()), true));
    assert_eq!(after.details, Some(json!({"code": 1})), "what no patch sets stays");
    assert_eq!(after.output_bytes, 6, "the size before any patch");
}

#[tokio::test]
async fn each_context_handler_sees_the_messages_of_the_one_before() {
    let (bus, scope, _) = setup();
    scope.on_sync(|ev: &ContextTransform, _: &Cx| {
        Some(ev.messages.iter().skip(1).cloned().collect::<Vec<_>>())
    });
    scope.on_sync(|_: &ContextTransform, _: &Cx| None::<Vec<Arc<Message>>>);
    scope.on_sync(|ev: &ContextTransform, _: &Cx| {
        let mut messages = ev.messages.clone();
        messages.push(Message::user_text("last").shared());
        Some(messages)
    });
    let messages = ["first", "second"].map(|text| Message::user_text(text).shared()).to_vec();
    let after = bus.cx().emit(ContextTransform::new(TurnId::from("t_1"), messages, None)).await.unwrap();
    assert_eq!(after.messages.iter().map(|m| m.text()).collect::<Vec<_>>(), ["second", "last"]);
}

#[tokio::test]
async fn request_patches_and_payloads_are_chained() {
    let (bus, scope, _) = setup();
    scope.on_sync(|_: &ProviderRequest, _: &Cx| {
        Some(RequestPatch { max_tokens: Some(10), ..RequestPatch::default() })
    });
    scope.on_sync(|ev: &ProviderRequest, _: &Cx| {
        Some(RequestPatch { max_tokens: Some(ev.max_tokens * 2), ..RequestPatch::default() })
    });
    scope.on_sync(|ev: &ProviderPayload, _: &Cx| {
        let mut body = ev.payload.clone();
        body["extra"] = json!(1);
        Some(body)
    });
    let model = ModelRef::new("p", "m");
    let request = ProviderRequest {
        model: model.clone(),
        thinking: ThinkingRequest::default(),
        max_tokens: 4096,
        tool_choice: ToolChoice::Required,
    };
    let after = bus.cx().emit(request).await.unwrap();
    assert_eq!((after.max_tokens, after.tool_choice), (20, ToolChoice::Required));
    let after = bus.cx().emit(ProviderPayload { model, payload: json!({"a": 0}) }).await.unwrap();
    assert_eq!(after.payload, json!({"a": 0, "extra": 1}));
}

#[tokio::test]
async fn a_compaction_takes_the_last_summary_unless_one_cancels() {
    let (bus, scope, _) = setup();
    let trigger = CompactionTrigger::Hard;
    let compact = || SessionBeforeCompact { session_id: None, tokens: 9, instructions: None, trigger };
    for text in ["first", "second"] {
        scope.on_sync(move |_: &SessionBeforeCompact, _: &Cx| {
            Some(SessionBeforeReply { data: Some(json!(text)), ..SessionBeforeReply::default() })
        });
    }
    let reply = bus.cx().emit(compact()).await.unwrap().unwrap();
    assert_eq!(reply.summary().unwrap(), Some("second"));
    let given = |data| SessionBeforeReply { data: Some(data), ..SessionBeforeReply::default() };
    assert_eq!(given(json!({"summary": "short", "kept": 4})).summary().unwrap(), Some("short"));
    for no_text in [json!(7), json!({"text": "short"}), json!(" \n")] {
        assert!(given(no_text.clone()).summary().is_err(), "{no_text}");
    }
    scope.on_sync_at(Stage::Early, |_: &SessionBeforeCompact, _: &Cx| {
        Some(SessionBeforeReply { cancel: true, ..SessionBeforeReply::default() })
    });
    assert!(bus.cx().emit(compact()).await.unwrap().unwrap().cancel);
}
