use std::rc::Rc;

use serde::Serialize;
use zk_kernel::{Bus, Cx, Event, Notify};

#[derive(Serialize)]
struct TurnAfter {
    turn: u32,
}

impl Event for TurnAfter {
    const NAME: &'static str = "turn:after";
    type Reply = ();
    type Mode = Notify;
}

fn main() {
    Bus::new().scope("test").on_async(async |_: &TurnAfter, _: &Cx| {
        let count = Rc::new(1);
        std::future::ready(()).await;
        drop(count);
    });
}
