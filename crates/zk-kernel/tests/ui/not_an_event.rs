use serde::Serialize;
use zk_kernel::{Bus, Cx};

#[derive(Serialize)]
struct Plain;

fn main() {
    Bus::new().scope("test").on_sync(|_: &Plain, _: &Cx| ());
}
