//! Images and documents, in what the user says and in what tools give, at servers that look at them.

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{Block, Document, Image, Message, ToolCall, ToolContent, ToolSpec};
use zk_core::service::Request;
use zk_testkit::{Script, Turn};

use crate::collect::{collect, request};
use crate::switching::station::STATIONS;

const PNG: &str = "cG5n";
const PDF: &str = "JVBERg==";
const NOTES: &str = "[document notes.md]\n# Notes";

fn image(media_type: &str) -> Block {
    Block::Image(Image::new(media_type, PNG))
}

fn document(media_type: &str, name: &str, data: &str) -> Block {
    Block::Document(Document { media_type: media_type.into(), name: Some(name.into()), data: data.into() })
}

fn pdf() -> Block {
    document("application/pdf", "report.pdf", PDF)
}

/// Request of a conversation in which the user sends every kind of media, one tool returns an image and a
/// document, and a failed one an image.
async fn sent(station: &str, model: &str) -> Value {
    let station = STATIONS.iter().find(|known| known.name == station).expect("a station");
    let server = station.server(Script::new().forever(|_| Turn::new().text("ok")));
    let provider = station.provider(&server);
    let call = |id: &str| Block::ToolCall(ToolCall::new(id, "look", json!({})));
    let given = |text: &str, more: Vec<Block>| ToolContent::Blocks([vec![Block::text(text)], more].concat());
    let history = [
        Message::user(vec![
            Block::text("see"),
            image("image/png"),
            image("image/svg+xml"),
            pdf(),
            document("text/markdown", "notes.md", "IyBOb3Rlcw=="),
            document("application/zip", "all.zip", "UEs="),
        ]),
        Message::assistant(vec![call("call_aaaa"), call("call_bbbb")]),
        Message::user(vec![
            Block::result("call_aaaa", given("seen", vec![image("image/png"), pdf()]), false),
            Block::result("call_bbbb", given("failed", vec![image("image/png")]), true),
            Block::text("and?"),
        ]),
    ];
    let history = history.map(Message::shared);
    let tools = [ToolSpec::new("look", "Looks.", json!({"type": "object"}))].into();
    let asked = Request { tools, ..request(&*provider, model, &history) };
    let answer = collect(provider.stream(asked, &Bus::new().cx())).await;
    answer.unwrap_or_else(|(error, _)| panic!("{}: {error}", station.name));
    assert!(server.violations().is_empty(), "{:?}", server.violations());
    server.bodies().remove(0)
}

/// Parts of a content: their text, or else their kind.
fn parts(content: &Value, kind: impl Fn(&Value) -> Value) -> Vec<Value> {
    content.as_array().into_iter().flatten().map(kind).collect()
}

const NO_SVG: &str = "[image omitted: image/svg+xml is not taken here]";
const NO_ZIP: &str = "[document all.zip omitted: application/zip is not taken here]";
const NO_PDF: &str = "[document report.pdf omitted: application/pdf is not taken here]";
const BLIND: &str = "[image omitted: this model cannot see images]";
const IMAGE_FOLLOWS: &str = "[image: attached after the tool results]";
const DOCUMENT_FOLLOWS: &str = "[document: attached after the tool results]";

#[tokio::test]
async fn anthropic_takes_them_as_blocks_also_in_results() {
    let body = sent("anthropic", "claude-sonnet-5").await;
    let block = |block: &Value| match block["type"].as_str() {
        Some("text") => block["text"].clone(),
        Some("tool_result") => block["content"].clone(),
        _ => block.clone(),
    };
    let png = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}});
    let pdf = json!({"type": "document", "title": "report.pdf",
        "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}});
    let notes = json!({"type": "document", "title": "notes.md",
        "source": {"type": "text", "media_type": "text/plain", "data": "# Notes"}});
    assert_eq!(
        parts(&body["messages"][0]["content"], block),
        [json!("see"), png.clone(), json!(NO_SVG), pdf.clone(), notes, json!(NO_ZIP)]
    );
    let results = parts(&body["messages"][2]["content"], block);
    assert_eq!(parts(&results[0], block), [json!("seen"), png.clone(), pdf]);
    assert_eq!(parts(&results[1], block), [json!("failed"), json!(IMAGE_FOLLOWS)], "only text in an error");
    assert_eq!(results[2], png);
}

#[tokio::test]
async fn responses_take_them_as_input_also_in_outputs() {
    let body = sent("responses", "gpt-5.2").await;
    let part = |part: &Value| match part["type"].as_str() {
        Some("input_text") => part["text"].clone(),
        Some("input_file") => json!([part["filename"], part["file_data"]]),
        _ => part["image_url"].clone(),
    };
    let png = json!(format!("data:image/png;base64,{PNG}"));
    let pdf = json!(["report.pdf", format!("data:application/pdf;base64,{PDF}")]);
    let zip = json!(["all.zip", "data:application/zip;base64,UEs="]);
    assert_eq!(
        parts(&body["input"][0]["content"], part),
        [json!("see"), png.clone(), json!(NO_SVG), pdf.clone(), json!(NOTES), zip]
    );
    assert_eq!(parts(&body["input"][3]["output"], part), [json!("seen"), png.clone(), pdf]);
    assert_eq!(body["input"][4]["output"], format!("failed\n{IMAGE_FOLLOWS}"));
    assert_eq!(parts(&body["input"][5]["content"], part), [png, json!("and?")]);
}

#[tokio::test]
async fn chat_takes_what_tools_gave_after_all_results() {
    let body = sent("openai", "gpt-5.4").await;
    let part = |part: &Value| match part["type"].as_str() {
        Some("text") => part["text"].clone(),
        Some("file") => json!([part["file"]["filename"], part["file"]["file_data"]]),
        _ => part["image_url"]["url"].clone(),
    };
    let png = json!(format!("data:image/png;base64,{PNG}"));
    let pdf = json!(["report.pdf", format!("data:application/pdf;base64,{PDF}")]);
    let messages = body["messages"].as_array().expect("messages");
    assert_eq!(
        parts(&messages[0]["content"], part),
        [json!("see"), png.clone(), json!(NO_SVG), pdf.clone(), json!(NOTES), json!(NO_ZIP)]
    );
    assert_eq!(messages[2]["content"], format!("seen\n{IMAGE_FOLLOWS}\n{DOCUMENT_FOLLOWS}"));
    assert_eq!(messages[3]["content"], format!("failed\n{IMAGE_FOLLOWS}"));
    assert_eq!(messages[4]["role"], "user");
    assert_eq!(parts(&messages[4]["content"], part), [png.clone(), pdf, png, json!("and?")]);
}

#[tokio::test]
async fn a_model_that_takes_only_text_is_told_of_everything_else() {
    let body = sent("deepseek", "deepseek-v4-pro").await;
    let messages = body["messages"].as_array().expect("messages");
    let said = ["see", BLIND, BLIND, NO_PDF, NOTES, NO_ZIP].join("\n\n");
    assert_eq!(messages[0]["content"], said);
    assert_eq!(messages[2]["content"], format!("seen\n{BLIND}\n{NO_PDF}"));
    assert_eq!(messages[3]["content"], format!("failed\n{BLIND}"));
    assert_eq!(messages[4]["content"], "and?");
}

#[tokio::test]
async fn gemini_takes_them_inside_results_from_the_third_generation_on() {
    let part = |part: &Value| match part.get("text") {
        Some(text) => text.clone(),
        None => part["inlineData"].clone(),
    };
    let png = json!({"mimeType": "image/png", "data": PNG});
    let pdf = json!({"mimeType": "application/pdf", "data": PDF});
    let notes = json!({"mimeType": "text/markdown", "data": "IyBOb3Rlcw=="});
    let body = sent("gemini", "gemini-3.5-flash").await;
    let contents = body["contents"].as_array().expect("contents");
    assert_eq!(
        parts(&contents[0]["parts"], part),
        [json!("see"), png.clone(), json!(NO_SVG), pdf.clone(), notes, json!(NO_ZIP)]
    );
    let answer = |at: usize| &contents[2]["parts"][at]["functionResponse"];
    assert_eq!(answer(0)["response"], json!({"output": "seen"}));
    assert_eq!(parts(&answer(0)["parts"], part), [png.clone(), pdf.clone()]);
    assert_eq!(answer(1)["response"], json!({"error": format!("failed\n{IMAGE_FOLLOWS}")}));
    assert_eq!(parts(&contents[3]["parts"], part), [png.clone(), json!("and?")]);

    let body = sent("gemini-2.5", "gemini-2.5-flash").await;
    let contents = body["contents"].as_array().expect("contents");
    let answer = &contents[2]["parts"][0]["functionResponse"];
    let said = format!("seen\n{IMAGE_FOLLOWS}\n{DOCUMENT_FOLLOWS}");
    assert_eq!((&answer["response"], &answer["parts"]), (&json!({"output": said}), &Value::Null));
    assert_eq!(parts(&contents[3]["parts"], part), [png.clone(), pdf, png, json!("and?")]);
}

#[tokio::test]
async fn ollama_takes_images_beside_the_text_and_no_documents() {
    let body = sent("ollama", "qwen3:4b").await;
    let messages = body["messages"].as_array().expect("messages");
    let said = ["see", NO_SVG, NO_PDF, NOTES, NO_ZIP].join("\n\n");
    assert_eq!((&messages[0]["content"], &messages[0]["images"]), (&json!(said), &json!([PNG])));
    assert_eq!(messages[2]["content"], format!("seen\n{IMAGE_FOLLOWS}\n{NO_PDF}"));
    assert_eq!(messages[3]["content"], format!("failed\n{IMAGE_FOLLOWS}"));
    assert_eq!((&messages[4]["content"], &messages[4]["images"]), (&json!("and?"), &json!([PNG, PNG])));
}

#[tokio::test]
async fn an_image_that_anthropic_would_refuse_is_named_instead() {
    let station = STATIONS.iter().find(|known| known.name == "anthropic").expect("a station");
    let server = station.server(Script::new().forever(|_| Turn::new().text("ok")));
    let provider = station.provider(&server);
    let image = |length: usize| Block::Image(Image::new("image/png", "A".repeat(length)));
    let most = 5 << 20;
    let seen = ToolContent::Blocks(vec![image(most + 4)]);
    let history = [
        Message::user(vec![Block::text("see"), image(most), image(most + 4)]),
        Message::assistant(vec![Block::ToolCall(ToolCall::new("c", "look", json!({})))]),
        Message::user(vec![Block::result("c", seen, false)]),
    ];
    let tools = [ToolSpec::new("look", "Looks.", json!({"type": "object"}))].into();
    let history = history.map(Message::shared);
    let asked = Request { tools, ..request(&*provider, "claude-sonnet-5", &history) };
    collect(provider.stream(asked, &Bus::new().cx())).await.expect("an answer");
    assert!(server.violations().is_empty(), "{:?}", server.violations());
    let body = server.bodies().remove(0);
    let told = "[image omitted: it has 3.93 MB, and no more than 3.93 MB are taken here]";
    let content = &body["messages"][0]["content"];
    assert_eq!((&content[1]["type"], &content[2]["text"]), (&json!("image"), &json!(told)));
    assert_eq!(body["messages"][2]["content"][0]["content"][0]["text"], told);
}
