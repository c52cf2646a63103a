//! Converts a conversation between the two formats: `cargo run -p zk-harness-providers --example convert
//! <conversation.json`.

use zk_core::model::Model;
use zk_providers::formats::{Conversation, Format};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "an example shows what it made")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = std::io::read_to_string(std::io::stdin())?;
    if text.trim().is_empty() {
        println!("usage: convert <conversation.json");
        return Ok(());
    }
    let given = serde_json::from_str(&text)?;
    let model = Model::unknown("any", "model");
    let conversation = Conversation::read(&given, &model.reference())?;
    let other = match Format::detect(&given) {
        Some(Format::AnthropicMessages) => Format::OpenAiChat,
        _ => Format::AnthropicMessages,
    };
    let written = conversation.write(other, &model)?;
    for repair in &written.repairs {
        eprintln!("mended: {repair:?}");
    }
    println!("{:#}", written.into_body());
    Ok(())
}
