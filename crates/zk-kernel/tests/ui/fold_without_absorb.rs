use serde::Serialize;
use zk_kernel::{Event, Fold};

#[derive(Serialize)]
struct Prompt(String);

impl Event for Prompt {
    const NAME: &'static str = "prompt";
    type Reply = String;
    type Mode = Fold;
}

fn main() {}
