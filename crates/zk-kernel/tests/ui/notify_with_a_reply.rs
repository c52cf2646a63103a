use serde::Serialize;
use zk_kernel::{Event, Notify};

#[derive(Serialize)]
struct PickName;

impl Event for PickName {
    const NAME: &'static str = "name:pick";
    type Reply = String;
    type Mode = Notify;
}

fn main() {}
