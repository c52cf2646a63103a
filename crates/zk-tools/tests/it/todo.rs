use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::events::SessionLoaded;
use zk_core::kernel::{Cx, Scope};
use zk_core::model::{CheckItem, CheckState, Display, EntryId};
use zk_core::service::{
    ContextId, ContextProducer, CustomEntry, Entry, EntryKind, NewEntry, PinnedContext, SessionLog,
    StoreError,
};

use crate::support::Desk;

/// Keeps the entries that plugins append.
#[derive(Default)]
struct Log(Mutex<Vec<CustomEntry>>);

#[async_trait]
impl SessionLog for Log {
    async fn append(&self, scope: &Scope, entry: NewEntry) -> Result<EntryId, StoreError> {
        self.0.lock().unwrap().push(entry.by(scope.source()));
        Ok("e".into())
    }

    async fn entries(&self, _: &Scope) -> Result<Vec<CustomEntry>, StoreError> {
        Ok(self.0.lock().unwrap().clone())
    }
}

fn desk() -> (Desk, Arc<Log>) {
    let desk = Desk::new();
    let log = Arc::new(Log::default());
    desk.bus.scope("recorder").provide_service::<dyn SessionLog>(log.clone());
    (desk, log)
}

fn list(todos: &[(&str, &str)]) -> Value {
    let todos: Vec<_> =
        todos.iter().map(|(content, status)| json!({ "content": content, "status": status })).collect();
    json!({ "todos": todos })
}

fn loaded(entries: Vec<CustomEntry>) -> SessionLoaded {
    let entry = |kind| Entry { id: "e".into(), parent: None, time_ms: 0, kind };
    let entries = entries.into_iter().map(|own| entry(EntryKind::Custom(own))).collect();
    SessionLoaded { session_id: None, entries }
}

async fn reminder(cx: &Cx) -> Option<String> {
    cx.item::<dyn ContextProducer>("todo").unwrap().text(cx).await.unwrap()
}

#[tokio::test]
async fn a_list_is_shown_to_person_and_model_and_read_back() {
    let (desk, _) = desk();
    assert_eq!(reminder(&desk.bus.cx()).await, None);
    let todos = list(&[("read <it>", "completed"), ("change it", "in_progress"), ("test it", "pending")]);
    let output = desk.output("todo_write", todos).await.unwrap();
    assert_eq!(output.content.to_text(), "3 to-dos: 1 done, 1 in progress, 1 pending");
    let lines = ["[x] read <it>", "[~] change it", "[ ] test it"];
    let item = |text: &str, state| CheckItem { text: text.to_owned(), state };
    let items = vec![
        item("read <it>", CheckState::Done),
        item("change it", CheckState::Current),
        item("test it", CheckState::Open),
    ];
    assert_eq!(output.display, Some(Display::Checklist { items, reshaped: true }));
    assert_eq!(desk.ok("todo_read", json!({})).await, lines.join("\n"));
    let told = reminder(&desk.bus.cx()).await.unwrap();
    assert_eq!(told, "to-do list, 1 of 3 done: [~] change it; [ ] test it");
    let cx = desk.bus.cx();
    let pinned = cx.item::<dyn PinnedContext>("todo").unwrap().text(&cx).await.unwrap().unwrap();
    assert!(pinned.ends_with(&lines.join("\n")), "{pinned}");
}

#[tokio::test]
async fn a_list_comes_back_with_its_session_and_goes_with_it() {
    let (desk, log) = desk();
    desk.ok("todo_write", list(&[("first", "pending")])).await;
    desk.ok("todo_write", list(&[("second", "pending")])).await;
    let stored = log.0.lock().unwrap().clone();
    assert_eq!(stored.len(), 2);

    let later = Desk::new();
    later.bus.cx().emit(loaded(stored)).await.unwrap();
    assert_eq!(later.ok("todo_read", json!({})).await, "[ ] second");
    later.bus.cx().emit(loaded(Vec::new())).await.unwrap();
    assert!(later.ok("todo_read", json!({})).await.contains("no to-dos"));
}

#[tokio::test]
async fn entries_of_other_plugins_are_no_list() {
    let desk = Desk::new();
    let data = json!({ "todos": [{ "content": "theirs", "status": "pending" }] });
    let theirs = NewEntry::hidden("todo", 1, data);
    let by = desk.bus.scope("somebody").source().clone();
    desk.bus.cx().emit(loaded(vec![theirs.by(&by)])).await.unwrap();
    assert!(desk.ok("todo_read", json!({})).await.contains("no to-dos"));
}

#[tokio::test]
async fn a_sub_agent_has_a_list_of_its_own_which_the_session_does_not_keep() {
    let (desk, log) = desk();
    let own = desk.bus.cx().with_service(Arc::new(ContextId::fresh()));
    let child = desk.bus.child("child");
    let theirs = child.cx().with_service(Arc::new(ContextId::fresh()));
    desk.output_in(&own, "todo_write", list(&[("mine", "pending")])).await.unwrap();
    desk.output_in(&theirs, "todo_write", list(&[("theirs", "pending")])).await.unwrap();
    let mine = desk.output_in(&own, "todo_read", json!({})).await.unwrap();
    assert_eq!(mine.content.to_text(), "[ ] mine");
    assert_eq!(log.0.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn empty_and_endless_lists_are_told_apart_from_usable_ones() {
    let (desk, _) = desk();
    assert!(desk.ok("todo_write", list(&[])).await.contains("empty"));
    let error = desk.err("todo_write", list(&[("a", "pending"), (" ", "pending")])).await;
    assert!(error.message.contains("to-do 2"), "{error}");
    let many: Vec<(&str, &str)> = vec![("a", "pending"); 101];
    assert!(desk.err("todo_write", list(&many)).await.message.contains("join some"));
    let error = desk.err("todo_write", list(&[("a", "begun")])).await;
    assert!(error.message.contains("in_progress"), "{error}");
}
