//! A handler in another process: `cargo run -p zk-hooks --example guard`.

use std::sync::Arc;

use zk_core::events::SessionBeforeSwitch;
use zk_core::kernel::Bus;
use zk_core::service::{Exec, ExecRequest};
use zk_exec::{Environment, ProcessExec};
use zk_hooks::Bridge;

/// Says no to every question. The first line is the greeting.
const GUARD: &str = r#"read hello; while read line; do id=${line#*:}
printf '{"id":%s,"reply":{"cancel":true,"reason":"not today"}}\n' "${id%%,*}"; done"#;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what happens")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bus = Bus::new();
    let exec = ProcessExec::new(Environment::filtered([("PATH", "/usr/bin:/bin")]));
    bus.scope("local").provide_service::<dyn Exec>(Arc::new(exec));
    bus.install(&Bridge::new("guard", ExecRequest::shell(GUARD, "/")).ask::<SessionBeforeSwitch>())?;
    let answer = bus.cx().emit(SessionBeforeSwitch { from: None, to: None }).await?;
    println!("{answer:?}");
    bus.close().await;
    Ok(())
}
