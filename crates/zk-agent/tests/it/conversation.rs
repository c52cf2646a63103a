//! A conversation that can be replaced: nothing of one is left in the next.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::json;
use zk_agent::{Agent, AgentBuilder, AgentConversation, Behavior, SpawnOptions};
use zk_core::events::{
    SessionBeforeCompact, SessionBeforeFork, SessionBeforeReply, SessionBeforeSwitch, SessionBeforeTree,
    SessionLoaded, SessionSwitch, SessionTree, ToolBefore,
};
use zk_core::kernel::{BoxError, Cx, Plugin, plugin_fn};
use zk_core::model::{Block, EntryId, Message, SessionId, ToolOutput};
use zk_core::service::{
    BranchPath, BranchSummary, ContextId, ContextWindow, Conversation, ConversationError, OpenedSession,
    Reduction, SessionOpener, Submitted, SwitchTarget, TreeMove, TurnEnv, WindowFill,
};
use zk_testkit::{Script, ScriptedProvider, Turn};

use crate::support::TestTool;

/// Opens sessions with one exchange about their own id, and logs the calls.
#[derive(Clone, Default)]
struct Opener {
    log: Arc<Mutex<Vec<String>>>,
    new: Arc<AtomicUsize>,
}

impl Opener {
    fn note(&self, text: String) {
        self.log.lock().unwrap().push(text);
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    fn plugins(&self, id: &str) -> Vec<Arc<dyn Plugin>> {
        let make = |what: &'static str| {
            let (this, id) = (self.clone(), id.to_owned());
            let plugin = plugin_fn(what, move |scope| {
                if id == "broken" {
                    return Err::<(), BoxError>("no place for it".into());
                }
                this.note(format!("{id}: {what} opened"));
                let (this, id) = (this.clone(), id.clone());
                scope.on_close(async move || this.note(format!("{id}: {what} closed")));
                Ok(())
            });
            Arc::new(plugin) as Arc<dyn Plugin>
        };
        vec![make("store"), make("recorder")]
    }
}

#[async_trait]
impl SessionOpener for Opener {
    async fn open(
        &self,
        target: &SwitchTarget,
        _: Option<&SessionId>,
    ) -> Result<OpenedSession, ConversationError> {
        let id = match target {
            SwitchTarget::New => format!("new-{}", self.new.fetch_add(1, Ordering::Relaxed)),
            SwitchTarget::Session(id) if id.as_str() == "gone" => {
                return Err(ConversationError::Unsupported {
                    what: "gone".into(),
                    reason: "it is gone".into(),
                });
            }
            SwitchTarget::Session(id) => id.to_string(),
            SwitchTarget::Branch(_) | SwitchTarget::Tree(_) | SwitchTarget::Fork(_) => {
                let (what, reason) = (target.to_string(), "there is no tree yet".into());
                return Err(ConversationError::Unsupported { what, reason });
            }
        };
        let messages = match target {
            SwitchTarget::New => Vec::new(),
            _ => vec![
                Message::user_text(format!("who are you, {id}?")).shared(),
                Message::assistant(vec![Block::text(format!("{id}!"))]).shared(),
            ],
        };
        Ok(OpenedSession {
            messages,
            plugins: self.plugins(&id),
            id: Some(SessionId::from(id.as_str())),
            ..OpenedSession::default()
        })
    }

    async fn find_path(&self, _: Option<&EntryId>) -> Result<BranchPath, ConversationError> {
        let left = vec![Message::user_text("what was tried").shared()];
        Ok(BranchPath { from: Some("e_9".into()), left })
    }

    async fn move_leaf(
        &self,
        to: Option<&EntryId>,
        summary: Option<String>,
    ) -> Result<OpenedSession, ConversationError> {
        self.note(format!("leaf after {to:?}"));
        let messages = summary.map(|summary| Message::injected(summary, "branch").shared());
        let is_broken = to.is_some_and(|to| to.as_str() == "e_broken");
        Ok(OpenedSession {
            messages: messages.into_iter().collect(),
            plugins: self.plugins(if is_broken { "broken" } else { "first" }),
            id: Some("first".into()),
            ..OpenedSession::default()
        })
    }
}

struct Desk {
    conversation: AgentConversation,
    provider: ScriptedProvider,
    opener: Opener,
}

async fn desk(script: Script) -> Desk {
    desk_with(script, |builder| builder).await
}

async fn desk_with(script: Script, change: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Desk {
    let (provider, opener) = (ScriptedProvider::new(script), Opener::default());
    let again: zk_agent::DedupKey = Arc::new(|_| Some("same".to_owned()));
    let behavior = Behavior { dedup_tools: [("echo".to_owned(), again)].into(), ..Behavior::default() };
    let builder = Agent::builder(Arc::new(provider.clone()))
        .unguarded()
        .tool(TestTool::echo())
        .behavior(behavior)
        .session(SessionId::from("first"));
    let agent = change(builder).build().unwrap();
    let plugins = opener.plugins("first");
    let conversation = AgentConversation::stored(agent, Arc::new(opener.clone()), &plugins).await.unwrap();
    Desk { conversation, provider, opener }
}

fn chatty() -> Script {
    Script::answering(|_| Turn::new().text("ok"))
}

fn prompt(text: &str) -> Vec<Block> {
    vec![Block::text(text)]
}

impl Desk {
    async fn say(&self, text: &str) {
        self.conversation.submit(prompt(text)).await.unwrap();
        assert!(self.conversation.idle().await.is_empty());
    }

    fn sent(&self) -> Vec<String> {
        self.provider.asked().last().unwrap().messages.iter().map(|message| message.text()).collect()
    }
}

#[tokio::test]
async fn a_switch_replaces_messages_session_and_plugins_in_order() {
    let desk = desk(chatty()).await;
    desk.say("hello").await;
    let state = desk.conversation.switch(SwitchTarget::Session("other".into())).await.unwrap();
    assert_eq!((state.session, state.messages), (Some("other".into()), 2));
    desk.say("and now?").await;
    assert_eq!(desk.sent(), ["who are you, other?", "other!", "and now?"]);
    assert_eq!(desk.provider.requests().last().unwrap().session.as_deref(), Some("other"));
    desk.conversation.switch(SwitchTarget::New).await.unwrap();
    desk.say("fresh").await;
    assert_eq!(desk.sent(), ["fresh"]);
    desk.conversation.close().await;
    assert_eq!(
        desk.opener.log(),
        [
            "first: store opened",
            "first: recorder opened",
            "first: recorder closed",
            "first: store closed",
            "other: store opened",
            "other: recorder opened",
            "other: recorder closed",
            "other: store closed",
            "new-0: store opened",
            "new-0: recorder opened",
            "new-0: recorder closed",
            "new-0: store closed",
        ]
    );
}

#[tokio::test]
async fn a_repeated_call_is_not_answered_from_the_conversation_before() {
    let script = Script::answering(|asked| match asked.results().len() {
        0 => Turn::new().call("echo", json!({"text": asked.messages[0].text()})),
        _ => Turn::new().text("ok"),
    });
    let desk = desk(script).await;
    desk.say("one").await;
    desk.conversation.switch(SwitchTarget::New).await.unwrap();
    desk.say("two").await;
    assert_eq!(desk.provider.last_results()[0].text, "two");
}

#[tokio::test]
async fn plugins_hear_of_the_new_conversation_at_its_first_run_and_get_another_context() {
    let desk = desk(chatty()).await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let kept = heard.clone();
    desk.conversation.agent().bus().scope("goals").on_sync(move |loaded: &SessionLoaded, cx: &Cx| {
        kept.lock().unwrap().push((loaded.session_id.clone(), cx.service::<ContextId>().unwrap()));
    });
    desk.say("hello").await;
    for target in [SwitchTarget::New, SwitchTarget::Session("other".into())] {
        desk.conversation.switch(target).await.unwrap();
        desk.say("again").await;
        desk.say("and again").await;
    }
    let heard = heard.lock().unwrap();
    let sessions: Vec<_> = heard.iter().map(|(id, _)| id.as_ref().unwrap().as_str()).collect();
    assert_eq!(sessions, ["new-0", "other"]);
    assert_ne!(heard[0].1, heard[1].1);
}

#[tokio::test]
async fn handlers_and_tools_find_the_new_session_after_a_switch() {
    let script = Script::answering(|asked| match asked.results().len() {
        0 => Turn::new().call("echo", json!({ "text": asked.number.to_string() })),
        _ => Turn::new().text("ok"),
    });
    let desk = desk(script).await;
    let bus = desk.conversation.agent().bus().clone();
    // As a host provides it when its program starts.
    bus.scope("session").provide_service(Arc::new(SessionId::from("first")));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let kept = heard.clone();
    bus.scope("hooks").on_sync(move |_: &ToolBefore, cx: &Cx| {
        kept.lock().unwrap().push(cx.service::<SessionId>().unwrap().to_string());
    });
    desk.say("hello").await;
    desk.conversation.switch(SwitchTarget::New).await.unwrap();
    desk.say("again").await;
    assert_eq!(*heard.lock().unwrap(), ["first", "new-0"]);
}

#[tokio::test]
async fn a_plugin_that_refuses_a_switch_keeps_the_conversation() {
    let desk = desk(chatty()).await;
    desk.say("hello").await;
    let scope = desk.conversation.agent().bus().scope("guard");
    scope.on_sync(|switch: &SessionBeforeSwitch, _: &Cx| {
        assert_eq!(switch.from.as_ref().map(SessionId::as_str), Some("first"));
        let cancel = switch.to.as_ref().is_some_and(|to| to.as_str() == "secret");
        Some(SessionBeforeReply { cancel, reason: Some("not at night".into()), data: None })
    });
    let error = desk.conversation.switch(SwitchTarget::Session("secret".into())).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "a plugin keeps this conversation from going on with session secret: not at night"
    );
    assert_eq!(desk.conversation.state().messages, 2);
    desk.conversation.switch(SwitchTarget::Session("other".into())).await.unwrap();
}

#[tokio::test]
async fn a_session_that_cannot_be_opened_leaves_the_present_one_in_place() {
    let desk = desk(chatty()).await;
    desk.say("hello").await;
    desk.opener.log();
    desk.conversation.switch(SwitchTarget::Session("gone".into())).await.unwrap_err();
    assert_eq!(desk.conversation.state().session, Some("first".into()));
    desk.say("still here").await;
    assert_eq!(desk.sent(), ["hello", "ok", "still here"]);
    assert!(desk.opener.log().is_empty(), "nothing was closed");
}

#[tokio::test]
async fn a_session_whose_plugins_fail_to_install_leaves_no_session_and_an_error() {
    let desk = desk(chatty()).await;
    desk.say("hello").await;
    let error = desk.conversation.switch(SwitchTarget::Session("broken".into())).await.unwrap_err();
    assert!(matches!(&error, ConversationError::Install(_)), "{error}");
    assert!(error.to_string().contains("no place for it"), "{error}");
    let state = desk.conversation.state();
    assert_eq!((state.session, state.messages), (None, 0));
    desk.conversation.switch(SwitchTarget::Session("other".into())).await.unwrap();
    desk.say("go on").await;
}

#[tokio::test]
async fn a_leaf_that_was_moved_is_put_back_if_a_plugin_fails_then() {
    let desk = desk(chatty()).await;
    desk.say("hello").await;
    let move_to = |to: &str| SwitchTarget::Tree(TreeMove { to: Some(to.into()), summary: None });
    let error = desk.conversation.switch(move_to("e_broken")).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, ConversationError::LeafPutBack(_)), "{text}");
    assert!(text.contains("the leaf is back where it was") && text.contains("no place for it"), "{text}");
    assert!(!text.contains("nothing is stored"), "{text}");
    let moves: Vec<_> = desk.opener.log().into_iter().filter(|line| line.starts_with("leaf")).collect();
    assert_eq!(moves, [r#"leaf after Some(EntryId("e_broken"))"#, r#"leaf after Some(EntryId("e_9"))"#]);
    assert_eq!(desk.conversation.state().session, Some("first".into()));
    desk.say("still stored").await;
    desk.conversation.switch(move_to("e_2")).await.unwrap();
}

#[tokio::test]
async fn nothing_is_replaced_while_a_run_works_and_a_prompt_waits_for_its_end() {
    let (begun, release) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let script = Script::new()
        .turn(|turn| turn.call("wait", json!({})))
        .turn(|turn| turn.text("one"))
        .turn(|turn| turn.text("two"));
    let desk = desk(script).await;
    let (told, waiting) = (begun.clone(), release.clone());
    let tool = TestTool::new("wait", move |_, _| {
        let (told, waiting) = (told.clone(), waiting.clone());
        async move {
            told.notify_one();
            waiting.notified().await;
            Ok(ToolOutput::text("waited"))
        }
    });
    desk.conversation.agent().bus().scope("waiting").provide("wait", tool.arc()).unwrap();
    let Submitted::Started(run) = desk.conversation.submit(prompt("first")).await.unwrap() else {
        panic!("no run began");
    };
    begun.notified().await;
    assert_eq!(desk.conversation.submit(prompt("second")).await.unwrap(), Submitted::Queued(run.clone()));
    for error in [
        desk.conversation.switch(SwitchTarget::New).await.unwrap_err(),
        desk.conversation.reload().await.unwrap_err(),
        desk.conversation.compact(None).await.unwrap_err(),
    ] {
        assert!(matches!(error, ConversationError::Busy), "{error}");
    }
    let state = desk.conversation.state();
    assert_eq!((state.run, state.queued), (Some(run), 1));
    release.notify_one();
    assert!(desk.conversation.idle().await.is_empty());
    assert_eq!(desk.sent().last().unwrap(), "second");
    assert_eq!(desk.conversation.agent().history().len(), 6);
}

#[tokio::test]
async fn a_cancelled_run_returns_undelivered_messages() {
    let desk = desk(Script::new().turn(|turn| turn.call("stuck", json!({})))).await;
    let bus = desk.conversation.agent().bus().clone();
    bus.scope("stuck").provide("stuck", TestTool::stuck("stuck").arc()).unwrap();
    assert!(!desk.conversation.cancel("nothing to stop"));
    assert!(desk.conversation.steer(Message::injected("hurry", "me")).is_err());
    let conversation = desk.conversation.clone();
    let canceller = async |conversation: &AgentConversation, _: &ToolBefore, _: &Cx| {
        conversation.submit(prompt("later")).await?;
        assert!(conversation.cancel("enough"));
        Ok::<_, BoxError>(())
    };
    bus.scope("canceller").on_async_with(conversation, canceller);
    desk.conversation.submit(prompt("go")).await.unwrap();
    let unsent = desk.conversation.idle().await;
    assert_eq!(unsent.iter().map(|message| message.text()).collect::<Vec<_>>(), ["later"]);
    bus.close().await;
}

#[tokio::test]
async fn branches_and_copies_ask_plugins_first_and_unsupported_ones_fail() {
    let desk = desk(chatty()).await;
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let scope = desk.conversation.agent().bus().scope("watcher");
    let kept = asked.clone();
    scope.on_sync(move |fork: &SessionBeforeFork, _: &Cx| {
        kept.lock().unwrap().push(format!("fork {} {}", fork.session_id, fork.entry));
        None::<SessionBeforeReply>
    });
    let kept = asked.clone();
    scope.on_sync(move |tree: &SessionBeforeTree, _: &Cx| {
        kept.lock().unwrap().push(format!("before {} {:?}", tree.session_id, tree.to));
        let is_kept = tree.to.is_none();
        is_kept.then(|| SessionBeforeReply { cancel: true, ..SessionBeforeReply::default() })
    });
    let kept = asked.clone();
    scope.on_sync(move |tree: &SessionTree, _: &Cx| {
        kept.lock().unwrap().push(format!("tree {:?} {}", tree.to, tree.has_summary));
    });
    let kept = asked.clone();
    scope.on_sync(move |switch: &SessionSwitch, _: &Cx| {
        kept.lock().unwrap().push(format!("switch {:?}", switch.to));
    });
    let error = desk.conversation.switch(SwitchTarget::Fork("e_1".into())).await.unwrap_err();
    assert!(error.to_string().ends_with("is not possible here: there is no tree yet"), "{error}");
    desk.conversation.switch(SwitchTarget::Branch("e_2".into())).await.unwrap();
    let refused = desk.conversation.switch(SwitchTarget::Tree(TreeMove::default())).await.unwrap_err();
    assert!(matches!(refused, ConversationError::Refused { .. }), "{refused}");
    let to = |entry: &str| format!("{:?}", Some(EntryId::from(entry)));
    let expected = [
        "fork first e_1".to_owned(),
        format!("before first {}", to("e_2")),
        format!("tree {} false", to("e_2")),
        format!("switch {:?}", Some(SessionId::from("first"))),
        "before first None".to_owned(),
    ];
    assert_eq!(*asked.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_move_adds_a_summary_of_the_branch_and_fails_without_it() {
    let desk = desk(chatty()).await;
    let summary = Some(BranchSummary { instructions: Some("short".into()) });
    let target = || SwitchTarget::Tree(TreeMove { to: Some("e_2".into()), summary: summary.clone() });
    let state = desk.conversation.switch(target()).await.unwrap();
    assert_eq!(state.messages, 1);
    let moved = |desk: &Desk| desk.opener.log().iter().any(|note| note.starts_with("leaf after"));
    assert!(moved(&desk));
    let failing = desk_with(Script::answering(|_| Turn::new().text(" ")), |builder| builder).await;
    failing.conversation.switch(target()).await.unwrap_err();
    assert!(!moved(&failing));
}

#[derive(Default)]
struct Window(Mutex<Vec<ContextId>>);

#[async_trait]
impl ContextWindow for Window {
    fn fill(&self, _: &ContextId) -> Option<WindowFill> {
        Some(WindowFill { tokens: Some(7_000), ..WindowFill::default() })
    }

    fn sent(&self, _: &ContextId, _: &[Arc<Message>]) -> Option<Vec<Arc<Message>>> {
        None
    }

    fn reduce(&self, context: &ContextId, _: Reduction) {
        self.0.lock().unwrap().push(context.clone());
    }

    async fn restore(&self, _: &ContextId, _: &Cx) -> Result<bool, BoxError> {
        Ok(false)
    }

    fn take_refusal(&self, _: &ContextId) -> Option<String> {
        None
    }
}

#[tokio::test]
async fn the_window_manager_compacts_unless_a_plugin_refuses() {
    let desk = desk(chatty()).await;
    let error = desk.conversation.compact(None).await.unwrap_err();
    assert!(error.to_string().contains("nothing owns the context window"), "{error}");
    let (window, scope) = (Arc::new(Window::default()), desk.conversation.agent().bus().scope("window"));
    scope.provide_service::<dyn ContextWindow>(window.clone());
    scope.on_sync(|compact: &SessionBeforeCompact, _: &Cx| {
        assert_eq!(compact.tokens, 7_000);
        let cancel = compact.instructions.is_none();
        Some(SessionBeforeReply { cancel, ..SessionBeforeReply::default() })
    });
    assert!(matches!(desk.conversation.compact(None).await, Err(ConversationError::Refused { .. })));
    desk.conversation.compact(Some("keep the plan".into())).await.unwrap();
    assert_eq!(window.0.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn reloading_reads_the_session_anew_and_installs_its_parts_anew() {
    let desk = desk(chatty()).await;
    desk.opener.log();
    let state = desk.conversation.reload().await.unwrap();
    assert_eq!((state.session, state.messages), (Some("first".into()), 2));
    assert_eq!(
        desk.opener.log(),
        ["first: recorder closed", "first: store closed", "first: store opened", "first: recorder opened"]
    );
}

#[tokio::test]
async fn another_directory_counts_from_the_next_turn_on() {
    let seen: Arc<Mutex<Vec<PathBuf>>> = Arc::default();
    let script = Script::new()
        .turn(|turn| turn.call("where", json!({})).call("where", json!({})))
        .turn(|turn| turn.call("where", json!({})))
        .turn(|turn| turn.text("ok"));
    let desk = desk(script).await;
    let (kept, conversation) = (seen.clone(), desk.conversation.clone());
    let tool = TestTool::new("where", move |_, cx| {
        kept.lock().unwrap().push(cx.cwd);
        conversation.set_cwd("/elsewhere".into());
        std::future::ready(Ok(ToolOutput::text("here")))
    });
    let scope = desk.conversation.agent().bus().scope("where");
    scope.provide("where", tool.arc()).unwrap();
    desk.say("go").await;
    assert_eq!(*seen.lock().unwrap(), [PathBuf::from("."), ".".into(), "/elsewhere".into()]);
    scope.close().await;
}

#[tokio::test]
async fn an_environment_variable_counts_from_the_next_turn_on_for_sub_agents_too_and_not_in_another_session()
{
    let seen: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
    let script = Script::answering(|asked| match (asked.last_user_text().as_str(), asked.results().len()) {
        ("go", 0) => Turn::new().call("look", json!({})).call("look", json!({})),
        ("go", 2) => Turn::new().call("spawn", json!({"task": "below"})),
        ("below" | "there", 0) => Turn::new().call("look", json!({})),
        _ => Turn::new().text("ok"),
    });
    let desk = desk_with(script, |builder| builder.spawn(SpawnOptions::default())).await;
    let (kept, conversation) = (seen.clone(), desk.conversation.clone());
    let tool = TestTool::new("look", move |_, cx| {
        kept.lock().unwrap().push(cx.cx.service::<TurnEnv>().and_then(|env| env.0.get("LANG").cloned()));
        conversation.set_env("LANG".into(), Some("C".into()));
        conversation.set_env("GONE".into(), None);
        std::future::ready(Ok(ToolOutput::text("looked")))
    });
    let scope = desk.conversation.agent().bus().scope("look");
    scope.provide("look", tool.arc()).unwrap();
    desk.say("go").await;
    desk.conversation.switch(SwitchTarget::New).await.unwrap();
    desk.say("there").await;
    assert_eq!(*seen.lock().unwrap(), [None, None, Some("C".to_owned()), None]);
    scope.close().await;
}

/// Number of switches; a thousand with `ZK_SWITCHES=1000`.
#[expect(clippy::disallowed_methods, reason = "the size of a campaign is set from outside")]
fn rounds() -> usize {
    std::env::var("ZK_SWITCHES").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(10)
}

#[tokio::test]
async fn switching_often_leaves_no_handler_no_task_and_no_message_behind() {
    let desk = desk(chatty()).await;
    desk.say("hello").await;
    let bus = desk.conversation.agent().bus().clone();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = (bus.describe().len(), tasks());
    for round in 0..rounds() {
        let target = match round % 3 {
            0 => SwitchTarget::New,
            one => SwitchTarget::Session(format!("s_{one}").as_str().into()),
        };
        let known = desk.conversation.switch(target).await.unwrap().messages;
        desk.say(&format!("round {round}")).await;
        let sent = desk.sent();
        assert_eq!(sent.len(), known + 1, "{sent:?}");
        assert_eq!(sent.last().unwrap(), &format!("round {round}"));
        assert_eq!((bus.describe().len(), tasks()), before);
    }
}
