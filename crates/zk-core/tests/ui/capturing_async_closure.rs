use zk_core::events::TurnAfter;
use zk_core::kernel::{Bus, Cx};

fn main() {
    let name = String::from("zk");
    Bus::new().scope("test").on_async(async move |ev: &TurnAfter, _: &Cx| {
        std::future::ready(()).await;
        assert!(!name.is_empty() && ev.turn > 0);
    });
}
