//! Uses a bus without an agent: an event whose handlers may object, a plugin that does, and an observer of
//! every event.

use std::error::Error;
use std::io::{Write, stdout};

use serde::Serialize;
use zk_kernel::{Bus, Event, First, plugin_fn};

#[derive(Serialize)]
struct DeployBefore {
    branch: &'static str,
}

impl Event for DeployBefore {
    const NAME: &'static str = "deploy:before";
    type Reply = &'static str;
    type Mode = First;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let bus = Bus::new();
    bus.install(&plugin_fn("main-only", |scope| {
        scope.observe(|ev, _| drop(writeln!(stdout(), "saw {}", ev.name())));
        scope.on_sync(|ev: &DeployBefore, _| (ev.branch != "main").then_some("only main is deployed"));
        Ok(())
    }))?;
    for branch in ["main", "try"] {
        let objection = bus.cx().emit(DeployBefore { branch }).await?;
        writeln!(stdout(), "{branch}: {}", objection.unwrap_or("go"))?;
    }
    Ok(())
}
