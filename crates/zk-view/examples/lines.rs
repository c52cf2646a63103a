//! A front-end in a few lines: prints what is said, as it closes.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::Arc;

use zk_agent::Agent;
use zk_core::kernel::Bus;
use zk_testkit::{Script, ScriptedProvider};
use zk_view::{Content, ViewDriver};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (bus, driver) = (Bus::new(), ViewDriver::new());
    bus.install(&driver)?;
    let provider = ScriptedProvider::new(Script::new().turn(|t| t.text("Hello, world.")));
    let agent = Agent::builder(Arc::new(provider)).bus(bus).model_id("scripted").build()?;
    agent.run("Say hello.")?.wait().await;
    for block in &driver.view().blocks {
        if let Content::User { text, .. } | Content::Answer { text, .. } = &block.content {
            println!("{}: {text}", block.id);
        }
    }
    Ok(())
}
