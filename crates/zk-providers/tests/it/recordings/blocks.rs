//! Every recorded answer as a run of an agent, with a session and a view: the blocks that are made of the session are
//! those that were seen while the answer came.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use zk_agent::Agent;
use zk_core::kernel::{Bus, Cx};
use zk_core::model::Model;
use zk_core::model::wire::WireRules;
use zk_core::service::{EventStream, NewSession, Provider, Request, SessionStore};
use zk_session::{MemoryStore, Recorder};
use zk_testkit::{Script, ScriptedProvider, Turn};
use zk_view::{Block, View, ViewDriver, rebuild};

use super::{Dialect, Exchange, exchanges};

/// Answers with a recording first, and with a word after that.
struct Recorded {
    body: String,
    dialect: Dialect,
    was_asked: AtomicBool,
    then: ScriptedProvider,
}

#[async_trait]
impl Provider for Recorded {
    fn name(&self) -> &str {
        self.then.name()
    }

    fn inner(&self) -> Option<&dyn Provider> {
        Some(&self.then)
    }

    fn model(&self, id: &str) -> Model {
        self.then.model(id)
    }

    fn rules(&self, model: &Model) -> WireRules {
        self.then.rules(model)
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        if self.was_asked.swap(true, Ordering::AcqRel) {
            return self.then.stream(request, cx);
        }
        let mut replay = self.dialect.replay();
        replay.feed(self.body.as_bytes());
        replay.finish();
        let events: Vec<_> = std::iter::from_fn(|| replay.next().transpose()).collect();
        Box::pin(futures_util::stream::iter(events))
    }
}

/// Difference, if any, between the blocks of the session and those seen live, or between the patches and the
/// view.
async fn difference(exchange: &Exchange) -> Option<String> {
    let new = NewSession { id: None, cwd: "/".into(), parent: None };
    let session = MemoryStore::new().create(new).await.expect("a session in memory");
    let (bus, driver) = (Bus::new(), ViewDriver::new());
    bus.install(&Recorder::new(session.clone())).expect("a new bus");
    bus.install(&driver).expect("a new bus");
    let provider = Recorded {
        body: exchange.body.clone(),
        dialect: exchange.dialect,
        was_asked: AtomicBool::new(false),
        then: ScriptedProvider::new(Script::new().forever(|_| Turn::new().text("Done."))),
    };
    let agent = Agent::builder(Arc::new(provider)).bus(bus).model_id("recorded").build().expect("an agent");
    let mut reader = driver.reader();
    // A recorded failure is a run that failed: it has blocks as well.
    let _ = agent.run("Go.").expect("nothing else runs").wait().await;
    let view = driver.view();
    let mut replayed = View::default();
    reader.next().await.expect("the bus is open").iter().for_each(|patch| replayed.apply(patch));
    let live: Vec<Arc<Block>> = view.blocks.iter().filter(|block| block.is_stored()).cloned().collect();
    let stored = rebuild(&session.entries().await.expect("in memory"));
    agent.close().await;
    if stored != live {
        return Some(format!("{}\n  live   {live:?}\n  stored {stored:?}", exchange.place()));
    }
    (replayed != view).then(|| format!("{}: the patches make another view", exchange.place()))
}

#[tokio::test]
async fn the_blocks_of_every_recorded_answer_are_the_same_live_and_from_the_session() {
    let (mut count, mut wrong) = (0, Vec::new());
    for exchange in exchanges() {
        wrong.extend(difference(&exchange).await);
        count += 1;
    }
    println!("{count} recorded answers");
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}
