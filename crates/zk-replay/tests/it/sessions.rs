use serde_json::Value;
use zk_core::kernel::Bus;
use zk_core::service::{EntryKind, NewSession, SessionStore};
use zk_replay::{Recording, compare, replay};
use zk_session::{MemoryStore, Recorder};

use crate::support::{Shape, record, replayed, stored};

/// Number of recorded sessions.
const SESSIONS: u64 = 200;

/// Seeds that spread over all shapes.
fn shapes() -> impl Iterator<Item = Shape> {
    (0..SESSIONS).map(|seed| Shape(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7))
}

#[tokio::test]
async fn recorded_sessions_replay_to_the_events_that_they_were_stored_from() {
    for shape in shapes() {
        let live = record(shape).await;
        let events: Vec<(String, Value)> =
            replay(&live.entries).iter().filter_map(|event| stored(event.as_event())).collect();
        for (at, (one, other)) in live.events.iter().zip(&events).enumerate() {
            assert_eq!(one, other, "{shape:?}, event {at}");
        }
        assert_eq!(live.events.len(), events.len(), "{shape:?}");
    }
}

#[tokio::test]
async fn a_recorder_stores_replayed_events_as_the_same_entries() {
    for shape in shapes().take(60) {
        let live = record(shape).await;
        let session =
            MemoryStore::new().create(NewSession { id: None, cwd: "/".into(), parent: None }).await.unwrap();
        let bus = Bus::new();
        bus.install(&Recorder::new(session.clone())).unwrap();
        for event in replay(&live.entries) {
            event.emit(&bus.cx()).await.unwrap();
        }
        let kinds = |entries: &[zk_core::service::Entry]| -> Vec<EntryKind> {
            let mut kinds: Vec<EntryKind> = entries.iter().map(|entry| entry.kind.clone()).collect();
            // Plugins store their entries themselves.
            kinds.retain(|kind| !matches!(kind, EntryKind::Custom(_)));
            kinds
        };
        let (one, other) = (kinds(&live.entries), kinds(&session.entries().await.unwrap()));
        assert_eq!(one.len(), other.len(), "{shape:?}");
        for kind in &one {
            assert!(other.contains(kind), "{shape:?}: {kind:?}");
        }
    }
}

#[tokio::test]
async fn replayed_entries_show_the_blocks_that_were_seen_live() {
    for shape in shapes().take(60) {
        let live = record(shape).await;
        let rebuilt: Vec<Value> = zk_view::rebuild(&live.entries)
            .iter()
            .map(|block| serde_json::to_value(block).unwrap())
            .collect();
        assert_eq!(live.blocks, rebuilt, "{shape:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn recorded_answers_drive_the_loop_to_the_same_session() {
    for shape in shapes() {
        let recording = Recording::of(&record(shape).await.entries);
        assert!(recording.has_requests(), "{shape:?}");
        let run = replayed(&recording, shape).await.unwrap();
        let found: Vec<String> = compare(&recording, &run).iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{shape:?}: {found:#?}");
        // A replay can be replayed.
        let again = replayed(&run, shape).await.unwrap();
        assert_eq!(compare(&run, &again), [], "{shape:?}");
    }
}
