//! Going on with another session in one process: nothing of the one before is left.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use zk_agent::{Agent, AgentConversation};
use zk_core::kernel::{BoxError, Plugin, plugin_fn};
use zk_core::model::{Block, SessionId};
use zk_core::service::{
    Conversation, ConversationError, Files, NewSession, OpenedSession, Provider, SessionOpener, SessionStore,
    SwitchTarget,
};
use zk_exec::{Environment, LocalPlugin, WorkspaceFiles};
use zk_permission::{Mode, PermissionGate};
use zk_session::{Recorder, SqliteStore, load_history};
use zk_testkit::{Script, ScriptedProvider, Turn};
use zk_tools::{Spill, ToolsOptions, ToolsPlugin};

use crate::terminal::{Terminal, counting};
use crate::zk::{Person, server};

#[test]
fn new_and_resume_go_on_with_another_session_and_back() {
    let server = counting();
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'first question'") else { return };
    terminal.expect("Answer 1 to: first question");
    terminal.expect("› ");
    terminal.keys("/resume\r");
    terminal.expect("there is no other session of this directory yet");
    terminal.expect("› ");
    let first = terminal.begin_new();
    terminal.keys("second question\r");
    terminal.expect("Answer 1 to: second question");
    terminal.expect("› ");
    terminal.keys("/resume\r");
    terminal.expect(&first);
    terminal.expect("first question");
    terminal.expect("› ");
    terminal.keys("/resume s_nothing\r");
    terminal.expect("s_nothing");
    terminal.expect("› ");
    terminal.keys(&format!("/resume {first}\r"));
    terminal.expect(&format!("session {first} continues"));
    terminal.expect("Answer 1 to: first question");
    terminal.expect("› ");
    terminal.keys("third question\r");
    terminal.expect("Answer 3 to: third question");
    terminal.expect("› ");
    // Nobody said anything in it: it is not kept.
    terminal.keys("/clear\r");
    terminal.expect("a new conversation begins");
    terminal.expect("› ");
    terminal.keys("/quit\r");
    assert!(!terminal.rest().contains("zk --resume"));
    assert_eq!(server.violations(), []);
    let listed = person.run(&["sessions"]).stdout;
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert!(listed.contains("first question") && listed.contains("second question"), "{listed}");
    let shown = person.run(&["sessions", "show", &first]).stdout;
    assert!(shown.contains("third question") && !shown.contains("second question"), "{shown}");
}

#[test]
fn the_view_begins_anew_with_another_session_and_shows_a_resumed_one() {
    let server = server(Script::answering(|asked| match asked.results().len() {
        0 if asked.last_user_text() == "list" => Turn::new().call("list_files", json!({"path": "."})),
        _ => Turn::new().text("Nothing more."),
    }));
    let person = Person::asking(&server);
    person.write("listed.txt", "x");
    let Some(mut terminal) = Terminal::open(&person, "'list'") else { return };
    terminal.expect("Nothing more.");
    terminal.expect("› ");
    terminal.keys("/show\r");
    terminal.expect("1 name in .");
    terminal.expect("› ");
    let first = terminal.begin_new();
    terminal.keys("/show\r");
    terminal.expect("nothing to show yet");
    terminal.expect("› ");
    terminal.keys("and now?\r");
    terminal.expect("Nothing more.");
    terminal.expect("› ");
    terminal.keys(&format!("/resume {first}\r"));
    terminal.expect(&format!("session {first} continues"));
    terminal.expect("› ");
    terminal.keys("/show\r");
    terminal.expect("1 name in .");
    terminal.expect("› ");
    terminal.keys("/quit\r");
    terminal.rest();
    assert_eq!(server.violations(), []);
}

/// Sessions of a real store, with everything that belongs to one.
struct Opener {
    store: SqliteStore,
    folder: PathBuf,
}

#[async_trait]
impl SessionOpener for Opener {
    async fn open(
        &self,
        target: &SwitchTarget,
        _: Option<&SessionId>,
    ) -> Result<OpenedSession, ConversationError> {
        let open = match target {
            SwitchTarget::Session(id) => self.store.open(id).await?,
            _ => self.store.create(NewSession { id: None, cwd: self.folder.clone(), parent: None }).await?,
        };
        let entries = open.entries().await?;
        let loaded = load_history(&entries);
        let recorder = Recorder::resuming(open.clone(), &loaded);
        let id = open.id().clone();
        let closing = plugin_fn("session", move |scope| {
            let open = open.clone();
            scope.on_close(async move || drop(open.close().await));
            Ok::<(), BoxError>(())
        });
        let plugins: Vec<Arc<dyn Plugin>> = vec![
            Arc::new(closing),
            Arc::new(Spill::new(self.folder.join("outputs").join(id.as_str()))),
            Arc::new(recorder),
        ];
        Ok(OpenedSession {
            id: Some(id),
            messages: loaded.messages,
            entries: entries.into(),
            plugins,
            ..OpenedSession::default()
        })
    }
}

/// Counts the files below `folder` that this process has open. Folders do not count: one is open while it is
/// synced.
fn open_files(folder: &Path) -> usize {
    let links = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .filter_map(|link| link.ok()?.path().read_link().ok());
    links.filter(|target| target.starts_with(folder) && target.is_file()).count()
}

/// Number of switches; a thousand with `ZK_SWITCHES=1000`.
#[expect(clippy::disallowed_methods, reason = "the size of a campaign is set from outside")]
fn rounds() -> usize {
    std::env::var("ZK_SWITCHES").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(14)
}

#[tokio::test]
async fn switching_often_between_stored_sessions_leaves_no_state_handler_task_or_file_behind() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::write(root.join("a.txt"), "one\n").unwrap();
    let provider = ScriptedProvider::new(Script::answering(|asked| match asked.results().len() {
        0 => Turn::new().call("read_file", json!({"path": "a.txt"})),
        _ => Turn::new().text("read"),
    }));
    let (store, paths) = (SqliteStore::new(root.join("sessions")), WorkspaceFiles::new([&root]).unwrap());
    let agent = Agent::builder(Arc::new(provider.clone()) as Arc<dyn Provider>)
        .plugin(LocalPlugin::new(Environment::filtered([("PATH", "/usr/bin:/bin")]), paths))
        .plugin(ToolsPlugin::new(ToolsOptions::default()))
        .plugin(PermissionGate::new(Mode::Ask))
        .cwd(&root)
        .build()
        .unwrap();
    let bus = agent.bus().clone();
    let opener = Arc::new(Opener { store, folder: root.clone() });
    let conversation = AgentConversation::stored(agent, opener, &[]).await.unwrap();
    let mut ids: Vec<SessionId> = Vec::new();
    let mut before = None;
    for round in 0..rounds() {
        let target = match ids.get(round % 7) {
            Some(id) if round % 3 != 0 || ids.len() >= 7 => SwitchTarget::Session(id.clone()),
            Some(_) | None => SwitchTarget::New,
        };
        let state = conversation.switch(target).await.unwrap();
        let id = state.session.unwrap();
        if !ids.contains(&id) {
            ids.push(id.clone());
        }
        conversation.submit(vec![Block::text(format!("{id} asks"))]).await.unwrap();
        assert!(conversation.idle().await.is_empty());
        let sent = provider.asked().last().unwrap().clone();
        let prompts = sent.messages.iter().filter(|message| message.text().ends_with(" asks"));
        assert!(prompts.clone().all(|prompt| prompt.text() == format!("{id} asks")), "{id}");
        assert_eq!(prompts.count(), state.messages / 4 + 1);
        assert_eq!(
            provider.last_results()[0].text,
            "1\tone\n",
            "nothing was read in this conversation before"
        );
        let now = (
            open_files(&root),
            bus.describe().len(),
            tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        );
        assert_eq!(*before.get_or_insert(now), now, "round {round}");
    }
    conversation.close().await;
    bus.close().await;
    assert_eq!(open_files(&root), 0);
}

/// Opener that gives each conversation a directory of its own.
struct Rooms {
    root: PathBuf,
}

#[async_trait]
impl SessionOpener for Rooms {
    async fn open(
        &self,
        target: &SwitchTarget,
        _: Option<&SessionId>,
    ) -> Result<OpenedSession, ConversationError> {
        let id = match target {
            SwitchTarget::Session(id) => id.clone(),
            SwitchTarget::New | SwitchTarget::Branch(_) | SwitchTarget::Tree(_) | SwitchTarget::Fork(_) => {
                SessionId::from("first")
            }
        };
        let room = self.root.join(id.as_str());
        let files = WorkspaceFiles::new([&room]).map_err(|error| ConversationError::Unsupported {
            what: room.display().to_string(),
            reason: error.to_string(),
        })?;
        let files = Arc::new(files);
        let own = plugin_fn("files", move |scope| {
            scope.provide_service::<dyn Files>(files.clone());
            Ok::<(), BoxError>(())
        });
        let plugins: Vec<Arc<dyn Plugin>> = vec![Arc::new(own)];
        Ok(OpenedSession { id: Some(id), cwd: Some(room), plugins, ..OpenedSession::default() })
    }
}

#[tokio::test]
async fn each_conversation_reaches_the_files_of_its_own_root_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["first", "second"] {
        std::fs::create_dir(root.join(name)).unwrap();
        std::fs::write(root.join(name).join("a.txt"), format!("of {name}\n")).unwrap();
    }
    // Another file than the first call reads: a repeated read of the same file returns no lines.
    let other = root.join("first/b.txt");
    std::fs::write(&other, "more of first\n").unwrap();
    let provider = ScriptedProvider::new(Script::answering(move |asked| match asked.results().len() {
        0 => Turn::new()
            .call("read_file", json!({"path": "a.txt"}))
            .call("read_file", json!({"path": other.clone()})),
        _ => Turn::new().text("read"),
    }));
    let paths = WorkspaceFiles::new([&root]).unwrap();
    let agent = Agent::builder(Arc::new(provider.clone()) as Arc<dyn Provider>)
        .unguarded()
        .plugin(LocalPlugin::new(Environment::filtered([("PATH", "/usr/bin:/bin")]), paths))
        .plugin(ToolsPlugin::new(ToolsOptions::default()))
        .cwd(&root)
        .build()
        .unwrap();
    let rooms = Arc::new(Rooms { root: root.clone() });
    let conversation = AgentConversation::stored(agent, rooms, &[]).await.unwrap();
    for (name, reaches_first) in [("first", true), ("second", false), ("first", true)] {
        conversation.switch(SwitchTarget::Session(SessionId::from(name))).await.unwrap();
        conversation.submit(vec![Block::text("read")]).await.unwrap();
        assert!(conversation.idle().await.is_empty());
        let results = provider.last_results();
        assert_eq!(results[0].text, format!("1\tof {name}\n"));
        assert_eq!(!results[1].is_error, reaches_first, "{name}: {}", results[1].text);
    }
    conversation.close().await;
}
