use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use rusqlite::Connection;
use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{Block, Message, MessageId, ModelRef, ThinkingLevel, ToolCall, TurnUsage, Usage};
use zk_core::service::{
    Audience, COMPACTION_ENTRY, COMPACTION_VERSION, CustomEntry, Durability, Entry, EntryKind, LiveEntries,
    OpenSession, RunStatus, SKILL_TOOL, SessionLog, SessionStore, StoreError, WINDOW_OWNER,
};
use zk_session::{SqliteStore, load_history, load_live, resume_conversation};

use crate::support::{Add, at, file};

fn store(dir: &Path) -> SqliteStore {
    SqliteStore::new(dir.join("s")).read_back(0)
}

fn named(id: &str, message: Message) -> Message {
    Message { id: Some(id.into()), ..message }
}

pub(crate) fn said(id: &str, message: Message) -> EntryKind {
    EntryKind::Message { message: named(id, message).shared(), usage: None }
}

/// An answer that cost half a dollar.
fn answer(id: &str) -> EntryKind {
    let usage = TurnUsage {
        turn_id: format!("t_{id}").as_str().into(),
        model: ModelRef::new("p", "m"),
        usage: Usage { input: 10, output: 2, ..Usage::default() },
        cost: Some(0.5),
    };
    let message = named(id, Message::assistant(vec![Block::text(format!("answer {id}"))])).shared();
    EntryKind::Message { message, usage: Some(Box::new(usage)) }
}

fn custom(source: &str, kind: &str, data: Value) -> EntryKind {
    EntryKind::Custom(CustomEntry {
        source: source.to_owned(),
        kind: kind.to_owned(),
        version: COMPACTION_VERSION,
        data: data.into(),
        audience: Audience::Hidden,
    })
}

fn record(data: Value) -> EntryKind {
    custom(WINDOW_OWNER, COMPACTION_ENTRY, data)
}

/// Compaction that omits the messages before `first`, and sends `stored` and a summary instead.
pub(crate) fn compaction(number: u32, first: &str, stored: &[&str]) -> EntryKind {
    let stored = stored.iter().map(|id| json!({"stored": id}));
    let head: Vec<Value> = stored.chain([json!({"message": Message::user_text("all before")})]).collect();
    record(json!({
        "what": "plan", "number": number, "strategy": "a", "trigger": "hard", "cut": {"first": first, "head": head},
    }))
}

/// Run number `n`: a prompt and its answer.
pub(crate) fn run(n: usize) -> Vec<EntryKind> {
    let id = format!("r_{n}");
    vec![
        EntryKind::RunStart { run_id: id.as_str().into() },
        said(&format!("p_{n}"), Message::user_text(format!("prompt {n}"))),
        answer(&format!("a_{n}")),
        custom("goals", "progress", json!({ "done": n })),
        EntryKind::RunEnd { run_id: id.as_str().into(), status: RunStatus::Completed },
    ]
}

/// Entries of any age that affect a conversation.
fn beginning() -> Vec<EntryKind> {
    let call = ToolCall::new("c_1", SKILL_TOOL, json!({"skill": "review"}));
    vec![
        EntryKind::Thinking { level: ThinkingLevel::High },
        said("first", Message::user_text("Please do it.\nRemember: never push.")),
        said("asks", Message::assistant(vec![Block::ToolCall(call)])),
        said("skill", Message::user(vec![Block::result("c_1", "<skill>Look twice.</skill>", false)])),
    ]
}

/// Stores a session of `old` runs, a compaction and two more runs.
async fn compacted(store: &SqliteStore, dir: &Path, old: usize) -> Arc<dyn OpenSession> {
    let session = store.create(at(dir)).await.unwrap();
    session.add(beginning()).await.unwrap();
    let runs: Vec<EntryKind> = (0..old).flat_map(run).collect();
    session.add(runs).await.unwrap();
    let kept = format!("p_{}", old - 1);
    session.add(vec![compaction(1, &kept, &["first"])]).await.unwrap();
    session.add(run(old)).await.unwrap();
    session.add(run(old + 1)).await.unwrap();
    session.close().await.unwrap();
    session
}

fn spent(entries: &[Entry]) -> (u64, u64, f64) {
    let usages = entries.iter().filter_map(|entry| match &entry.kind {
        EntryKind::Message { usage, .. } => usage.as_deref(),
        EntryKind::Usage { usage, .. } => Some(&**usage),
        _ => None,
    });
    usages.fold((0, 0, 0.0), |(read, output, usd), turn| {
        (read + turn.usage.read(), output + turn.usage.output, usd + turn.cost.unwrap_or_default())
    })
}

fn texts(entries: &[Entry]) -> Vec<String> {
    let message = |entry: &Entry| match &entry.kind {
        EntryKind::Message { message, .. } => Some(message.text()),
        _ => None,
    };
    entries.iter().filter_map(message).collect()
}

/// Overwrites all unneeded data in the rows.
fn destroy(dir: &Path, kept: &[Entry]) -> usize {
    let conn = Connection::open(file(dir, ".db")).unwrap();
    let ids: Vec<&str> = kept.iter().map(|entry| entry.id.as_str()).collect();
    let ids = serde_json::to_string(&ids).unwrap();
    let sql = "UPDATE entries SET kind = '{' WHERE id NOT IN (SELECT value FROM json_each(?1))";
    conn.execute(sql, [ids]).unwrap()
}

#[tokio::test]
async fn opening_looks_at_no_row_that_a_compaction_left_out_however_many_there_are() {
    let mut seen = Vec::new();
    for old in [1_000, 20_000] {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let id = compacted(&store, dir.path(), old).await.id().clone();
        let session = store.open(&id).await.unwrap();
        let (live, all) = (session.live().await.unwrap(), session.entries().await.unwrap());
        session.close().await.unwrap();
        assert_eq!(all.len(), old * 5 + 15, "the session has them all");
        // The rows that were left out can be read no more.
        let destroyed = destroy(dir.path(), &live.entries);
        assert!(destroyed > old * 4, "{destroyed}");
        let session = store.open(&id).await.unwrap();
        assert_eq!(session.notices(), Vec::<String>::new());
        assert_eq!(session.live().await.unwrap(), live);
        assert_eq!(store.read_live(&id).await.unwrap(), live, "also without a lock");
        // They are reported when read.
        let mut told = session.scan(Box::new(|_, _| std::ops::ControlFlow::Continue(()))).await.unwrap();
        assert!(told.remove(0).contains("cannot be read"), "{told:?}");
        session.add(run(old + 2)).await.unwrap();
        session.close().await.unwrap();
        seen.push((live.entries.len(), live.tail().len(), texts(live.tail())[1..].len()));
    }
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].0 < 80, "{seen:?}");
}

#[tokio::test]
async fn what_goes_on_equals_what_all_entries_say() {
    const OLD: usize = 60;
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = compacted(&store, dir.path(), OLD).await.id().clone();
    let session = store.open(&id).await.unwrap();
    let (live, all) = (session.live().await.unwrap(), session.entries().await.unwrap());
    let (part, whole) = (load_live(&live), load_history(&all));
    assert_eq!((&part.model, part.thinking), (&whole.model, Some(ThinkingLevel::High)));
    assert_eq!(part.unfinished, whole.unfinished);
    let tail = whole.messages.len() - part.messages.len();
    assert_eq!(part.messages, whole.messages[tail..]);
    assert_eq!(part.messages[0].id, Some(MessageId::from(format!("p_{}", OLD - 1).as_str())));
    let earlier = part.earlier.unwrap();
    assert_eq!(earlier.messages, tail as u64);
    assert_eq!(spent(&live.entries), spent(&all), "the usage of what is left out counts");
    let looked_up = texts(LiveEntries::looked_up(&live.entries));
    assert!(looked_up[0].contains("never push"), "a line to remember, and stored in the place of others");
    assert_eq!(looked_up.len(), 3, "the skill and who asked for it: {looked_up:?}");
    let last = |entries: &[Entry]| {
        let of = |entry: &Entry| match &entry.kind {
            EntryKind::Custom(own) if own.source == "goals" => Some(own.data.value()),
            _ => None,
        };
        entries.iter().rev().find_map(of)
    };
    assert_eq!(last(&live.entries), last(&all));
}

#[tokio::test]
async fn a_plugin_reads_all_its_entries_and_the_messages_before_those_that_were_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = compacted(&store, dir.path(), 60).await.id().clone();
    let stored = resume_conversation(store.open(&id).await.unwrap()).await.unwrap();
    let bus = Bus::new();
    bus.install(&*stored.recorder).unwrap();
    let log = bus.service::<dyn SessionLog>().unwrap();
    let goals = log.entries(&bus.scope("goals")).await.unwrap();
    assert_eq!(goals.len(), 62);
    let earlier: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = earlier.clone();
    let visit = Box::new(move |message: &Arc<Message>| {
        seen.lock().unwrap().push(message.text());
        std::ops::ControlFlow::Continue(())
    });
    log.visit_earlier(visit).await.unwrap();
    let earlier = std::mem::take(&mut *earlier.lock().unwrap());
    assert_eq!(earlier.len() as u64, log.earlier());
    let read = earlier.into_iter().chain(stored.messages.iter().map(|message| message.text()));
    let snapshot = store.read(&id).await.unwrap();
    let all: Vec<String> =
        load_history(&snapshot.entries).messages.iter().map(|message| message.text()).collect();
    assert_eq!(read.collect::<Vec<_>>(), all);
}

#[tokio::test]
async fn a_session_of_a_program_without_an_index_is_read_once_and_not_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = compacted(&store, dir.path(), 60).await.id().clone();
    let expected = store.read_live(&id).await.unwrap();
    let conn = Connection::open(file(dir.path(), ".db")).unwrap();
    assert_eq!(conn.execute("DELETE FROM meta WHERE key = 'index'", []).unwrap(), 1);
    drop(conn);
    assert_eq!(store.read_live(&id).await.unwrap(), expected, "whoever may not write reads it all");
    let session = store.open(&id).await.unwrap();
    assert_eq!(session.live().await.unwrap(), expected);
    session.close().await.unwrap();
    destroy(dir.path(), &expected.entries);
    let session = store.open(&id).await.unwrap();
    assert_eq!((session.live().await.unwrap(), session.notices()), (expected, Vec::new()));
}

#[tokio::test]
async fn damage_behind_a_compaction_is_found_and_kept_as_in_any_session() {
    for column in ["kind = '{'", "sum = sum + 1", "parent = 7"] {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let id = compacted(&store, dir.path(), 60).await.id().clone();
        let all = store.read(&id).await.unwrap().entries;
        let conn = Connection::open(file(dir.path(), ".db")).unwrap();
        let sql = format!("UPDATE entries SET {column} WHERE seq = (SELECT max(seq) - 2 FROM entries)");
        conn.execute(&sql, []).unwrap();
        drop(conn);
        let session = store.open(&id).await.unwrap();
        assert!(session.notices()[0].contains("1 entry of session"), "{:?}", session.notices());
        let live = session.live().await.unwrap();
        assert!(live.is_whole(), "nobody knows what it said");
        assert_eq!(live.entries.len(), all.len() - 1);
        assert!(!fs::read(file(dir.path(), ".quarantine")).unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_compaction_that_was_taken_back_is_followed_by_what_it_had_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = compacted(&store, dir.path(), 60).await.id().clone();
    let begin = async |kinds: Vec<EntryKind>| {
        let session = store.open(&id).await.unwrap();
        session.add(kinds).await.unwrap();
        let now = load_live(&session.live().await.unwrap());
        session.close().await.unwrap();
        let session = store.open(&id).await.unwrap();
        let again = load_live(&session.live().await.unwrap());
        session.close().await.unwrap();
        assert_eq!(now, again, "a session that is open knows as much as one that is opened");
        again.messages[0].id.clone().unwrap().to_string()
    };
    assert_eq!(begin(vec![compaction(2, "p_61", &["first"])]).await, "p_61");
    assert_eq!(begin(vec![record(json!({"what": "undo"}))]).await, "p_59");
    assert_eq!(begin(vec![compaction(3, "a_60", &["first", "p_3"])]).await, "a_60");
    assert_eq!(begin(vec![record(json!({"what": "undo"})), record(json!({"what": "undo"}))]).await, "first");
    assert_eq!(begin(vec![compaction(4, "p_60", &[])]).await, "p_60");
    assert_eq!(begin(vec![record(json!({"what": "whole"}))]).await, "first");
    assert_eq!(begin(vec![compaction(5, "nobody", &[])]).await, "first", "a message that is not there");
}

#[tokio::test]
async fn what_is_small_is_read_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = compacted(&store, dir.path(), 60).await.id().clone();
    let session = store.open(&id).await.unwrap();
    assert!(session.live().await.unwrap().is_whole());
    session.close().await.unwrap();
    let some = SqliteStore::new(dir.path().join("s")).read_back(2_000);
    let live = some.read_live(&id).await.unwrap();
    let first = texts(live.tail())[0].clone();
    assert!(!live.is_whole() && first != "prompt 59", "a little more than is sent: {first}");
}

/// Steps of a session.
#[derive(Clone, Debug)]
enum Step {
    Run,
    Model(u8),
    Remember,
    Skill(u8),
    Told(u8),
    /// Omits all but this number of messages, and keeps one of the earlier ones.
    Compact {
        keep: usize,
        stored: usize,
    },
    Undo,
    Whole,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Run),
        1 => (0..3u8).prop_map(Step::Model),
        1 => Just(Step::Remember),
        1 => (0..2u8).prop_map(Step::Skill),
        1 => (0..2u8).prop_map(Step::Told),
        3 => (1..6usize, 0..40usize).prop_map(|(keep, stored)| Step::Compact { keep, stored }),
        1 => Just(Step::Undo),
        1 => Just(Step::Whole),
        2 => Just(Step::Reopen),
    ];
    proptest::collection::vec(step, 1..40)
}

/// Number of the first sent message according to the records: the valid plans, with their messages.
fn begin_of(entries: &[Entry]) -> Option<String> {
    let mut plans: Vec<(u64, String)> = Vec::new();
    for entry in entries {
        let EntryKind::Custom(own) = &entry.kind else { continue };
        if own.kind != COMPACTION_ENTRY {
            continue;
        }
        let data = own.data.value();
        match data["what"].as_str().unwrap() {
            "plan" => plans
                .push((data["number"].as_u64().unwrap(), data["cut"]["first"].as_str().unwrap().to_owned())),
            "undo" => {
                if let Some(last) = plans.last().map(|plan| plan.0) {
                    plans.retain(|plan| plan.0 < last);
                }
            }
            _ => plans.clear(),
        }
    }
    let is_cut = |id: &MessageId| plans.iter().any(|plan| plan.1 == id.as_str());
    let mut ids = entries.iter().filter_map(|entry| match &entry.kind {
        EntryKind::Message { message, .. } => message.id.clone(),
        _ => None,
    });
    ids.rfind(is_cut).map(|id| id.to_string())
}

async fn play(steps: &[Step], dir: &Path) -> Result<(), TestCaseError> {
    let store = store(dir);
    let mut session = store.create(at(dir)).await.unwrap();
    session.add(run(0)).await.unwrap();
    let (mut ids, mut number) = (vec!["p_0".to_owned(), "a_0".to_owned()], 0);
    // Index of the first message that the present opening has read; later compactions leave out no fewer messages.
    let mut read = 0;
    let mut is_unknown = false;
    for (n, step) in (1..).zip(steps) {
        let kinds = match step {
            Step::Run => {
                ids.extend([format!("p_{n}"), format!("a_{n}")]);
                run(n)
            }
            Step::Model(model) => vec![EntryKind::Model { model: ModelRef::new("p", format!("m{model}")) }],
            Step::Remember => {
                ids.push(format!("m_{n}"));
                vec![said(&format!("m_{n}"), Message::user_text(format!("remember {n}")))]
            }
            Step::Skill(of) => {
                let call = ToolCall::new(&*format!("c_{n}"), SKILL_TOOL, json!({"skill": format!("s{of}")}));
                ids.extend([format!("k_{n}"), format!("l_{n}")]);
                vec![
                    said(&format!("k_{n}"), Message::assistant(vec![Block::ToolCall(call)])),
                    said(
                        &format!("l_{n}"),
                        Message::user(vec![Block::result(&*format!("c_{n}"), "text", false)]),
                    ),
                ]
            }
            Step::Told(by) => {
                ids.push(format!("t_{n}"));
                vec![said(&format!("t_{n}"), Message::injected(format!("told {n}"), format!("by{by}")))]
            }
            Step::Compact { keep, stored } => {
                number += 1;
                let at = ids.len() - (*keep).min(ids.len());
                is_unknown |= at < read;
                let first = &ids[at];
                vec![compaction(number, first, &[&ids[stored % ids.len()]])]
            }
            Step::Undo => vec![record(json!({"what": "undo"}))],
            Step::Whole => vec![record(json!({"what": "whole"}))],
            Step::Reopen => {
                session.close().await.unwrap();
                session = store.open(session.id()).await.unwrap();
                Vec::new()
            }
        };
        session.append(kinds, Durability::Process).await.unwrap();
        if !matches!(step, Step::Compact { .. } | Step::Undo | Step::Whole | Step::Reopen) {
            continue;
        }
        let (live, all) = (session.live().await.unwrap(), session.entries().await.unwrap());
        let (part, whole) = (load_live(&live), load_history(&all));
        let begin = begin_of(&all).filter(|first| *first != ids[0]);
        let at = begin.and_then(|first| {
            whole
                .messages
                .iter()
                .position(|message| message.id.as_ref().is_some_and(|id| id.as_str() == first))
        });
        let at = at.unwrap_or_default();
        let from = if part.earlier.is_some() { at } else { 0 };
        prop_assert_eq!(&part.messages[..], &whole.messages[from..], "{:?}", step);
        prop_assert!(part.earlier.is_some() || at == 0 || is_unknown, "{:?} {} {}", step, at, read);
        if matches!(step, Step::Reopen) {
            read = from;
        }
        prop_assert_eq!((&part.model, part.unfinished), (&whole.model, whole.unfinished));
        prop_assert_eq!(spent(&live.entries), spent(&all));
        prop_assert_eq!(part.earlier.map_or(0, |earlier| earlier.messages), from as u64);
        let lines = |entries: &[Entry]| {
            let mut lines = texts(entries);
            lines.retain(|text| text.starts_with("remember"));
            lines
        };
        prop_assert_eq!(lines(&live.entries), lines(&all));
    }
    session.close().await.unwrap();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_session_goes_on_as_all_of_its_entries_say(steps in steps()) {
        let dir = tempfile::tempdir().unwrap();
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(play(&steps, dir.path()))?;
    }
}

#[tokio::test]
async fn an_index_that_nobody_can_read_is_made_anew() -> Result<(), StoreError> {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = compacted(&store, dir.path(), 60).await.id().clone();
    let expected = store.read_live(&id).await?;
    for index in ["'{'", "7", "'[]'", "'{\"to\": 999999999}'", "x'00ff'"] {
        let conn = Connection::open(file(dir.path(), ".db")).unwrap();
        conn.execute(&format!("UPDATE meta SET value = {index} WHERE key = 'index'"), []).unwrap();
        drop(conn);
        let session = store.open(&id).await?;
        let live = session.live().await?;
        assert!(live == expected || live.is_whole(), "{index}");
        assert_eq!((session.notices(), session.entries().await?.len()), (Vec::new(), 60 * 5 + 15), "{index}");
        session.close().await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_index_that_is_wrong_is_not_believed() -> Result<(), StoreError> {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = compacted(&store, dir.path(), 60).await.id().clone();
    let expected = store.read_live(&id).await?;
    let index = |of: &Path| {
        let conn = Connection::open(file(of, ".db")).unwrap();
        conn.query_row("SELECT value FROM meta WHERE key = 'index'", [], |row| row.get::<_, String>(0))
            .unwrap()
    };
    // A session that has one message more.
    let other = tempfile::tempdir().unwrap();
    let session = SqliteStore::new(other.path().into()).create(at(other.path())).await?;
    let more = [said("more", Message::user_text("Hello."))];
    let runs = more.into_iter().chain(beginning()).chain((0..60).flat_map(run));
    session.add(runs.chain([compaction(1, "p_59", &["first"])]).collect()).await?;
    session.close().await?;
    let own = index(dir.path());
    let row = own.replace("\"row\":301", "\"row\":306");
    for wrong in [row, own.replace("\"output\":1", "\"output\":9"), index(other.path())] {
        assert_ne!(wrong, own);
        let conn = Connection::open(file(dir.path(), ".db")).unwrap();
        conn.execute("UPDATE meta SET value = ?1 WHERE key = 'index'", [&wrong]).unwrap();
        drop(conn);
        assert_eq!(store.read_live(&id).await?, expected, "{wrong}");
        let session = store.open(&id).await?;
        assert_eq!(session.live().await?, expected, "{wrong}");
        session.close().await?;
        assert_ne!(index(dir.path()), wrong, "it is stored anew");
    }
    Ok(())
}

#[tokio::test]
async fn a_skill_that_is_only_said_to_be_in_use_is_looked_up_with_its_text() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let session = store.create(at(dir.path())).await.unwrap();
    let call = ToolCall::new("c_2", SKILL_TOOL, json!({"skill": "review"}));
    let again = "The skill review is in use; its text is above, unchanged.";
    let again = [
        said("again", Message::assistant(vec![Block::ToolCall(call)])),
        said("same", Message::user(vec![Block::result("c_2", again, false)])),
    ];
    let runs = beginning().into_iter().chain(again).chain((0..9).flat_map(run));
    session.add(runs.chain([compaction(1, "p_8", &["first"])]).collect()).await.unwrap();
    let id = session.id().clone();
    session.close().await.unwrap();
    let live = store.read_live(&id).await.unwrap();
    assert!(!live.is_whole());
    let ids = LiveEntries::looked_up(&live.entries).iter().filter_map(|entry| match &entry.kind {
        EntryKind::Message { message, .. } => message.id.as_ref().map(|id| id.as_str().to_owned()),
        _ => None,
    });
    let ids: Vec<String> = ids.collect();
    assert!(ids.contains(&"skill".to_owned()) && !ids.contains(&"same".to_owned()), "{ids:?}");
}
