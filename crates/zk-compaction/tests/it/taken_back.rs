//! Messages that a person took back from a compaction stay as they are until the conversation is compacted
//! again.

use std::sync::{Arc, Mutex};

use serde_json::json;
use zk_compaction::{Shorten, Tail, Window, WindowOptions};
use zk_core::events::{CompactionStage, ContextCompaction, ContextTransform, SessionLoaded};
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{Block, Message, ToolCall};
use zk_core::service::{ContextId, ContextWindow, Reduction, SessionLog};

use crate::stored::{Log, entries, messages};

/// Size in bytes of each result, and of all results above which `tail` omits old ones.
const RESULT: usize = 400;
const THRESHOLD: usize = 6 * RESULT;

struct Rig {
    bus: Bus,
    cx: Cx,
    context: Arc<ContextId>,
    log: Arc<Log>,
    /// Announcements of compactions taken back: tokens before and after.
    undone: Arc<Mutex<Vec<(u64, u64)>>>,
    history: Vec<Arc<Message>>,
}

fn rig() -> Rig {
    let bus = Bus::new();
    bus.install(&Window::with(WindowOptions { keep: 100, ..WindowOptions::default() })).unwrap();
    bus.install(&Tail::default().threshold(THRESHOLD).keep_turns(2)).unwrap();
    bus.install(&Shorten).unwrap();
    let log = Arc::new(Log::default());
    bus.scope("recorder").provide_service::<dyn SessionLog>(log.clone());
    let context = Arc::new(ContextId::fresh());
    let cx = bus.cx().with_service(context.clone());
    let undone = Arc::<Mutex<Vec<_>>>::default();
    let seen = undone.clone();
    bus.scope("test").on_sync(move |event: &ContextCompaction, _: &Cx| {
        if event.stage == CompactionStage::Undone {
            seen.lock().unwrap().push((event.before, event.after));
        }
    });
    Rig { bus, cx, context, log, undone, history: vec![Message::user_text("go").identified().shared()] }
}

impl Rig {
    /// The session of this conversation, in another process.
    async fn resumed(&self) -> Self {
        let mut resumed = rig();
        let entries = entries(&self.history, &self.log);
        resumed.history = messages(&entries);
        resumed.cx.emit(SessionLoaded { session_id: None, entries: entries.into() }).await.unwrap();
        resumed
    }

    async fn turn(&mut self, window: u64) -> Vec<Arc<Message>> {
        let id = format!("c{}", self.history.len());
        let call = Block::ToolCall(ToolCall::new(&*id, "shell", json!({})));
        self.history.push(Message::assistant(vec![call]).identified().shared());
        let result = Block::result(&*id, "x".repeat(RESULT), false);
        self.history.push(Message::user(vec![result]).identified().shared());
        self.send(window).await
    }

    async fn send(&self, window: u64) -> Vec<Arc<Message>> {
        let turn_id = format!("t{}", self.history.len()).into();
        let event = ContextTransform::new(turn_id, self.history.clone(), Some(window));
        self.cx.emit(event).await.unwrap().messages
    }

    fn window(&self) -> Arc<dyn ContextWindow> {
        self.bus.service::<dyn ContextWindow>().unwrap()
    }
}

/// Number of leading messages that are sent as stored.
fn same(sent: &[Arc<Message>], history: &[Arc<Message>]) -> usize {
    sent.iter().zip(history).take_while(|(sent, stored)| sent == stored).count()
}

#[tokio::test]
async fn a_threshold_of_its_own_leaves_alone_what_a_person_took_back_also_after_a_resume() {
    let room = 1_000_000;
    let mut rig = rig();
    for _ in 0..5 {
        rig.turn(room).await;
    }
    rig.window().reduce(&rig.context, Reduction::default());
    assert!(same(&rig.turn(room).await, &rig.history) < 3, "it was compacted");
    assert!(rig.window().restore(&rig.context, &rig.cx).await.unwrap());
    rig.send(room).await;
    rig.send(room).await;
    let undone = rig.undone.lock().unwrap().clone();
    assert!(matches!(undone[..], [(before, after)] if before < after), "{undone:?}");
    for mut rig in [rig.resumed().await, rig] {
        for _ in 0..4 {
            let sent = rig.turn(room).await;
            assert_eq!(same(&sent, &rig.history), rig.history.len(), "all results together are too many");
        }
        for _ in 0..4 {
            rig.turn(room).await;
        }
        let sent = rig.send(room).await;
        // The compaction had left out the results of the first four turns.
        assert_eq!(same(&sent, &rig.history), 1 + 2 * 4 + 1, "later ones leave, as ever");
        // The conversation is compacted near its limit, like any other.
        let sent = rig.turn(1000).await;
        assert!(same(&sent, &rig.history) < 3, "{}", same(&sent, &rig.history));
    }
}
