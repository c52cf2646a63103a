use std::sync::Arc;

use zk_core::events::TurnAfter;
use zk_core::kernel::Bus;

struct Counter;

fn main() {
    Bus::new().scope("test").handle::<TurnAfter, _>(Arc::new(Counter));
}
