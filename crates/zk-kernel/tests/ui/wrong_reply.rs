use serde::Serialize;
use zk_kernel::{Bus, Cx, Event, First};

#[derive(Serialize)]
struct PickName;

impl Event for PickName {
    const NAME: &'static str = "name:pick";
    type Reply = String;
    type Mode = First;
}

fn main() {
    Bus::new().scope("namer").on_sync(|_: &PickName, _: &Cx| 7_u8);
}
