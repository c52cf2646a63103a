use std::sync::Arc;

use serde::Serialize;
use zk_kernel::{Bus, Event, Notify};

#[derive(Serialize)]
struct TurnAfter {
    turn: u32,
}

impl Event for TurnAfter {
    const NAME: &'static str = "turn:after";
    type Reply = ();
    type Mode = Notify;
}

struct Counter;

fn main() {
    Bus::new().scope("test").handle::<TurnAfter, _>(Arc::new(Counter));
}
