//! Parts of a Gemini answer that have to come back in the next request.

use std::collections::BTreeMap;
use std::sync::Arc;

use zk_core::kernel::Bus;
use zk_core::model::{Block, Message};
use zk_providers::Clocks;

use super::naive::gemini::echo;
use super::{Dialect, Form, exchanges_of};
use crate::collect::{collect, request};
use crate::server::{Reply, Server};

#[tokio::test]
async fn every_recorded_response_goes_back_part_by_part_with_its_signatures() {
    let mut counts = BTreeMap::<&str, usize>::new();
    let mut wrong = Vec::new();
    let server = Server::start([Reply::sse(
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"ok\"}]},\"finishReason\":\"STOP\"}]}\n\n",
    )])
    .await;
    for exchange in exchanges_of(Dialect::Gemini) {
        if exchange.form == Form::Error {
            continue;
        }
        let (model, body) = (exchange.model(), &exchange.body);
        let answer = exchange.ask(exchange.reply()).await.expect("it is no error");
        let results = answer.calls.iter().map(|(id, ..)| Block::result(id.as_str(), "done", false)).collect();
        let mut history = vec![Message::user_text("hello").shared()];
        history.push(Message::assistant(answer.blocks).shared());
        history.push(if answer.calls.is_empty() {
            Message::user_text("go on").shared()
        } else {
            Arc::new(Message::user(results))
        });
        let provider = Dialect::Gemini.provider(&server.url, Clocks::remote());
        let request = request(&*provider, &model, &history);
        collect(provider.stream(request, &Bus::new().cx())).await.expect("the server answers");
        let sent = server.received().pop().expect("a request").json();
        let mut expected = echo(body);
        expected.retain(|part| {
            let is_thought = part["thought"] == true && part["thoughtSignature"].is_null();
            let is_blank = part["thoughtSignature"].is_null()
                && part["text"].as_str().is_some_and(|text| text.trim().is_empty());
            !is_thought && !is_blank && part["unknown"].is_null()
        });
        // A message of thoughts alone is no message.
        let says_something = expected.iter().any(|part| part["thought"] != true);
        let parts = match &sent["contents"][1]["role"] {
            role if role == "model" => sent["contents"][1]["parts"].as_array().cloned().unwrap_or_default(),
            _ => Vec::new(),
        };
        let is_new = model.starts_with("gemini-3");
        let mut normal = parts.clone();
        for part in &mut normal {
            if is_new && part["thoughtSignature"] == "skip_thought_signature_validator" {
                part.as_object_mut().expect("a part").remove("thoughtSignature");
            }
        }
        if says_something && normal != expected {
            wrong.push(format!("{}\n  got      {normal:?}\n  expected {expected:?}", exchange.place()));
        }
        let signed = expected.iter().any(|part| part["thoughtSignature"].is_string());
        *counts.entry(if signed { "with signatures" } else { "without" }).or_default() += 1;
    }
    println!("{counts:#?}");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
