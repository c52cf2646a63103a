//! A team's own zk: its vendor, and a plugin that counts turns.

use zk_core::events::TurnAfter;
use zk_core::kernel::plugin_fn;

fn main() -> std::process::ExitCode {
    let count = plugin_fn("count", |scope| {
        scope.on_sync(|turn: &TurnAfter, _| eprintln!("turn {} done", turn.turn));
        Ok(())
    });
    zk_cli::Zk::builder().vendor(own_provider::AVIARY).plugin(count).run()
}
