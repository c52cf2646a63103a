//! A scripted model inside the process: what tests and demonstrations run on.
#![expect(clippy::print_stdout, reason = "an example shows its answer")]

use futures_util::StreamExt;
use zk_core::kernel::Bus;
use zk_core::model::{Message, WireReady};
use zk_core::service::{Provider, Request, StreamEvent};
use zk_testkit::{Script, ScriptedProvider};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let provider = ScriptedProvider::new(Script::new().turn(|t| t.text("It is 42.\n")));
    let model = provider.model(ScriptedProvider::MODEL);
    let question = [Message::user_text("What is six times seven?").shared()];
    let history = WireReady::normalise(&question, &provider.rules(&model));
    let mut answer = provider.stream(Request::new(model, history), &Bus::new().cx());
    while let Some(Ok(event)) = answer.next().await {
        if let StreamEvent::Text { delta, .. } = event {
            print!("{delta}");
        }
    }
}
