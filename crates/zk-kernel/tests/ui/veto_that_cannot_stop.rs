use serde::Serialize;
use zk_kernel::{Event, Veto};

#[derive(Serialize)]
struct MayRun;

impl Event for MayRun {
    const NAME: &'static str = "may:run";
    type Reply = String;
    type Mode = Veto;
}

fn main() {}
