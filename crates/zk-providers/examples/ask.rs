//! Sends a question to a server of the test kit, or to your own, using this crate and the core alone:

use futures_util::StreamExt;
use zk_core::kernel::Bus;
use zk_core::model::{Message, WireReady};
use zk_core::service::{Provider, Request, StreamEvent};
use zk_providers::{Compat, CompatProfile, Connection};
use zk_testkit::{FakeServer, Script};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example shows its answer")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let fake = FakeServer::start(Script::new().turn(|turn| turn.text("Because of how air scatters light.")))?;
    let mut args = std::env::args().skip(1);
    let provider = Compat::new(
        Connection::at(args.next().unwrap_or_else(|| fake.openai_url())),
        CompatProfile::default(),
    )?;
    let model = provider.model(&args.next().unwrap_or_else(|| "any".to_owned()));
    let question = Message::user_text("Why is the sky blue?").shared();
    let history = WireReady::normalise(&[question], &provider.rules(&model));
    let mut answer = provider.stream(Request::new(model, history), &Bus::new().cx());
    while let Some(event) = answer.next().await {
        if let StreamEvent::Text { delta, .. } = event? {
            print!("{delta}");
        }
    }
    println!();
    Ok(())
}
