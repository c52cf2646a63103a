//! Abilities that servers of the newest revision have and those before did not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use zk_core::model::ToolErrorKind;
use zk_core::service::{Question, Questions, UiAnswer};
use zk_mcp::{McpPlugin, ServerConfig};

use crate::calls::stop_with_form;
use crate::rpc::{count, host, serve, text};
use crate::support::{Host, LONG};

/// Tools whose argument is a header of this name.
fn with_header(name: &str) -> Value {
    let place = json!({"type": "string", "x-mcp-header": name});
    let schema = json!({"type": "object", "properties": {"place": place}});
    json!({"tools": [{"name": "t", "inputSchema": schema}]})
}

#[tokio::test]
async fn a_call_whose_headers_are_out_of_date_is_repeated_once_with_those_of_a_new_list() {
    let lists = AtomicUsize::new(0);
    let web = serve(move |method, _, asked| match method {
        "tools/list" => {
            let name = if lists.fetch_add(1, Ordering::SeqCst) == 0 { "Region" } else { "Zone" };
            Some(Ok(with_header(name)))
        }
        "tools/call" if asked.headers.get("mcp-param-zone").is_some_and(|zone| zone == "north") => {
            Some(Ok(text("called")))
        }
        "tools/call" => Some(Err((-32020, "the header Mcp-Param-Zone is missing"))),
        _ => None,
    })
    .await;
    let far = host(&web, json!({"pin": false})).await;
    assert_eq!(far.text("mcp_far_t", json!({"place": "north"})).await, "called");
    assert_eq!(count(&web, "tools/call"), 2);
    far.bus.close().await;
}

#[tokio::test]
async fn a_new_list_for_a_repeated_call_is_compared_with_the_accepted_one() {
    let lists = AtomicUsize::new(0);
    let web = serve(move |method, _, _| match method {
        "tools/list" => {
            let name = if lists.fetch_add(1, Ordering::SeqCst) == 0 { "Region" } else { "Zone" };
            Some(Ok(with_header(name)))
        }
        "tools/call" => Some(Err((-32020, "the header Mcp-Param-Zone is missing"))),
        _ => None,
    })
    .await;
    let far = host(&web, json!({})).await;
    let error = far.call("mcp_far_t", json!({"place": "north"})).await.unwrap_err();
    assert_eq!(error.kind, ToolErrorKind::Denied, "{error}");
    assert_eq!(count(&web, "tools/call"), 1);
    far.bus.close().await;
}

#[tokio::test]
async fn a_server_that_is_never_content_with_headers_is_asked_twice() {
    let web = serve(|method, _, _| {
        (method == "tools/call").then_some(Err((-32020, "the header Mcp-Name is another one")))
    })
    .await;
    let far = host(&web, json!({})).await;
    let error = far.call("mcp_far_t", json!({})).await.unwrap_err();
    assert!(error.message.contains("Mcp-Name is another one"), "{error}");
    assert_eq!((count(&web, "tools/call"), count(&web, "tools/list")), (2, 2));
    far.bus.close().await;
}

#[tokio::test]
async fn templates_of_resources_are_listed_beside_them() {
    let web = serve(|method, _, _| {
        let template = json!({"uriTemplate": "note://{id}", "name": "note", "description": "One note"});
        (method == "resources/templates/list").then(|| Ok(json!({"resourceTemplates": [template]})))
    })
    .await;
    let far = host(&web, json!({})).await;
    let listed = far.text("mcp_list_resources", json!({})).await;
    assert!(listed.contains("far: note://{id} note (a template") && listed.contains("One note"), "{listed}");
    far.bus.close().await;
    // Most servers know none.
    let web = serve(|_, _, _| None).await;
    let far = host(&web, json!({})).await;
    assert_eq!(far.text("mcp_list_resources", json!({})).await, "");
    far.bus.close().await;
}

/// Server that sends `params` as a request during a call, and returns the answer.
async fn asking(params: Value) -> crate::web::Web {
    serve(move |method, given, _| {
        let answered = given["inputResponses"].get("e");
        (method == "tools/call").then(|| match answered {
            Some(answer) => Ok(text(&answer.to_string())),
            None => {
                let request = json!({"method": "elicitation/create", "params": params});
                Ok(json!({"resultType": "input_required", "inputRequests": {"e": request}}))
            }
        })
    })
    .await
}

#[tokio::test]
async fn a_person_chooses_several_values_is_asked_again_for_what_does_not_fit_and_warned_of_secrets() {
    let colours = json!({"type": "array", "minItems": 1, "items": {"type": "string", "enum": ["red", "green", "blue"]}});
    let schema = json!({"type": "object", "properties": {
        "colours": colours,
        "number": {"type": "integer", "minimum": 1, "maximum": 9},
        "password": {"type": "string"},
    }, "required": ["colours", "number", "password"]});
    let web = asking(json!({"mode": "form", "message": "Fill it in", "requestedSchema": schema})).await;
    let far = host(&web, json!({})).await;
    let questions = Arc::new(Questions::new());
    far.bus.scope("person").provide_service(questions.clone());
    let person = questions.attach();
    let answering = async {
        let mut texts = Vec::new();
        let mut typed = ["1, pink", "1, blue", "12", "7", "hunter2"].into_iter();
        loop {
            let asked = person.next().await;
            let answer = match &asked.question {
                Question::Confirm { text } => {
                    texts.push(text.clone());
                    UiAnswer::Once
                }
                Question::Input { text } => {
                    texts.push(text.clone());
                    UiAnswer::Text { text: typed.next().unwrap().to_owned() }
                }
                other => panic!("{other:?}"),
            };
            person.answer(asked.id, asked.digest, answer).unwrap();
            if texts.len() == 6 {
                return texts;
            }
        }
    };
    let (told, texts) = tokio::join!(far.text("mcp_far_t", json!({})), answering);
    let told: Value = serde_json::from_str(&told).unwrap();
    let content = json!({"colours": ["red", "blue"], "number": 7, "password": "hunter2"});
    assert_eq!((&told["action"], &told["content"]), (&json!("accept"), &content));
    assert!(texts[0].contains("never ask for secrets like this: password"), "{}", texts[0]);
    assert!(texts[2].contains("pink is not"), "{}", texts[2]);
    assert!(texts[4].contains("at most 9"), "{}", texts[4]);
    far.bus.close().await;
}

#[tokio::test]
async fn a_form_ends_with_the_call_whose_answer_asks_for_it() {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let web = asking(json!({"mode": "form", "message": "Who?", "requestedSchema": schema})).await;
    let far = host(&web, json!({})).await;
    stop_with_form(&far, "mcp_far_t").await;
    assert_eq!(count(&web, "tools/call"), 1);
    far.bus.close().await;
}

#[tokio::test]
async fn tools_that_are_left_out_for_their_headers_are_named_in_the_log() {
    let web = serve(|method, _, _| {
        (method == "tools/list").then(|| {
            let mut list = with_header("Region");
            let mut wrong = with_header("")["tools"][0].clone();
            wrong["name"] = json!("wrong");
            list["tools"].as_array_mut().unwrap().push(wrong);
            Ok(list)
        })
    })
    .await;
    let config = ServerConfig::read("far", &json!({"url": format!("{}/mcp", web.url)})).unwrap();
    let log: Arc<Mutex<String>> = Arc::default();
    let sink = log.clone();
    let host = Host::new(McpPlugin::new([config], "/").on_log(move |server, bytes| {
        sink.lock().unwrap().push_str(&format!("{server}: {}", String::from_utf8_lossy(bytes)));
    }));
    host.servers.warm_up(LONG).await;
    assert_eq!(host.servers.status().remove(0).tools, ["mcp_far_t"]);
    let expected = "far: zk: its tool wrong is left out: an `x-mcp-header` in its schema is not valid\n";
    assert_eq!(*log.lock().unwrap(), expected);
    host.bus.close().await;
}

#[tokio::test]
async fn a_server_that_would_have_a_person_open_an_address_is_declined() {
    let params =
        json!({"mode": "url", "message": "Go there", "url": "https://evil.example", "elicitationId": "1"});
    let web = asking(params).await;
    let far = host(&web, json!({})).await;
    let questions = Arc::new(Questions::new());
    far.bus.scope("person").provide_service(questions.clone());
    let _person = questions.attach();
    let told = far.text("mcp_far_t", json!({})).await;
    assert!(told.contains("decline"), "{told}");
    far.bus.close().await;
}
