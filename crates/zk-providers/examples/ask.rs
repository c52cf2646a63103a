//! Asks a model one question, with this crate and the core alone.
//!
//! `cargo run -p zk-providers --example ask -- http://127.0.0.1:8080/v1 model "why is the sky blue?"`

use futures_util::StreamExt;
use zk_core::kernel::Bus;
use zk_core::model::{Message, WireReady};
use zk_core::service::{Provider, Request, StreamEvent};
use zk_providers::{Compat, CompatOptions};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example shows its answer")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut arg = |name: &str| args.next().ok_or(format!("usage: ask BASE_URL MODEL QUESTION (no {name})"));
    let provider = Compat::new(CompatOptions::at(arg("base URL")?))?;
    let model = provider.model(&arg("model")?);
    let question = Message::user_text(arg("question")?).shared();
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
