use std::rc::Rc;

use zk_core::events::TurnAfter;
use zk_core::kernel::{Bus, Cx};

fn main() {
    Bus::new().scope("test").on_async(async |_: &TurnAfter, _: &Cx| {
        let count = Rc::new(1);
        std::future::ready(()).await;
        drop(count);
    });
}
