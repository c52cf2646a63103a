//! A command as a hook of compactions: `cargo run -p zk-harness-hooks --example guard`.

use std::sync::Arc;

use serde_json::json;
use zk_core::events::{CompactionTrigger, SessionBeforeCompact};
use zk_core::kernel::Bus;
use zk_exec::{Environment, ProcessExec};
use zk_hooks::{CommandHooks, HookSet, HookSource};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what happens")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hooks = json!({ "PreCompact": [{ "command": "echo 'not today' >&2; exit 2" }] });
    let source = HookSource { place: "settings.toml".into(), is_claude: false, may_allow: true };
    let exec = ProcessExec::new(Environment::filtered([("PATH", "/usr/bin:/bin")]));
    let bus = Bus::new();
    bus.install(&CommandHooks::new(HookSet::read(&hooks, source)?, "/").exec(Arc::new(exec)))?;
    let trigger = CompactionTrigger::Manual;
    let event = SessionBeforeCompact { session_id: None, tokens: 0, instructions: None, trigger };
    println!("{:?}", bus.cx().emit(event).await?);
    bus.close().await;
    Ok(())
}
