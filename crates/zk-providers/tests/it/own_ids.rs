//! Ids of calls, on their way back to the model that gave them and to others.

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{Block, Message, ModelRef};
use zk_core::service::Provider;
use zk_providers::{Compat, Connection};

use crate::collect::{collect, question, request};
use crate::server::{Reply, Server};
use crate::vendor_quirks::profile;

const KIMI: [&str; 2] = ["functions.now:0", "functions.now:1"];

/// An answer with two calls, as Kimi numbers them.
fn called() -> String {
    let call = |index: usize| {
        let function = json!({"name": "now", "arguments": "{}"});
        json!({"index": index, "id": KIMI[index], "type": "function", "function": function})
    };
    let chunk =
        json!({"choices": [{"delta": {"tool_calls": [call(0), call(1)]}, "finish_reason": "tool_calls"}]});
    format!("data: {chunk}\n\ndata: [DONE]\n\n")
}

fn ids(body: &Value) -> [Vec<&str>; 2] {
    let messages = body["messages"].as_array().expect("messages");
    let calls = messages.iter().flat_map(|message| message["tool_calls"].as_array().into_iter().flatten());
    let results = messages.iter().filter_map(|message| message["tool_call_id"].as_str());
    [calls.filter_map(|call| call["id"].as_str()).collect(), results.collect()]
}

#[tokio::test]
async fn ids_that_kimi_gave_go_back_to_it_unchanged_at_every_vendor_and_to_no_other_model() {
    for (vendor, model) in [
        ("moonshot", "kimi-k2-thinking"),
        ("groq", "moonshotai/kimi-k2-instruct-0905"),
        ("huggingface", "moonshotai/Kimi-K2-Instruct"),
        ("openrouter", "moonshotai/kimi-k2"),
    ] {
        let server = Server::start([Reply::sse(called())]).await;
        let connection = Connection::at(&server.url).named(vendor);
        let provider = Compat::new(connection, profile(vendor)).expect("valid options");
        let answer = collect(provider.stream(question(&provider, model), &Bus::new().cx())).await;
        let content = answer.expect("the server answers").blocks;
        let origin = Some(ModelRef::new(vendor, model));
        let results = KIMI.map(|id| Block::result(id, "12:00", false));
        let history = [
            Message::user_text("What time is it?").shared(),
            Message { origin, ..Message::assistant(content) }.shared(),
            Message::user(results.to_vec()).shared(),
        ];
        for (asked, is_own) in [(model, true), ("another-model", false)] {
            let request = request(&provider, asked, &history);
            collect(provider.stream(request, &Bus::new().cx())).await.expect("the server answers");
            let body = server.received().pop().expect("a request").json();
            let [calls, results] = ids(&body);
            assert_eq!(calls, results, "{vendor}");
            assert_eq!(calls == KIMI, is_own, "{vendor}/{asked}: {calls:?}");
        }
    }
}
