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
    let name = String::from("zk");
    Bus::new().scope("test").on_async(async move |ev: &TurnAfter, _: &Cx| {
        std::future::ready(()).await;
        assert!(!name.is_empty() && ev.turn > 0);
    });
}
