//! Every recorded error, and the class it gets.

use std::collections::BTreeMap;

use zk_core::model::ErrorKind;

use super::{Exchange, Form, exchanges, print_table};

/// Permitted classes of an error response, by status and message.
fn classes(exchange: &Exchange) -> &'static [ErrorKind] {
    const OVERFLOW: &[&str] = &[
        "too long",
        "context length",
        "context_length_exceeded",
        "context window",
        "context size",
        "too large for model",
        "input token count",
    ];
    const KEY: &[&str] = &["incorrect api key", "invalid api key", "api_key_invalid"];
    let text = exchange.body.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    match exchange.recorded.status {
        429 => &[ErrorKind::Rate, ErrorKind::Quota],
        _ if says(OVERFLOW) => &[ErrorKind::ContextExceeded],
        400 if says(&["insufficient_quota"]) => &[ErrorKind::Quota],
        400 if says(KEY) => &[ErrorKind::Auth],
        401 | 403 => &[ErrorKind::Auth],
        // llama.cpp answers a template that cannot be filled in with 500, each time.
        500 if exchange.provider() == "llamacpp" => &[ErrorKind::Overloaded, ErrorKind::Rejected],
        500.. => &[ErrorKind::Overloaded],
        _ => &[ErrorKind::Rejected],
    }
}

#[tokio::test]
async fn every_recorded_error_gets_its_class() {
    let mut counts = BTreeMap::new();
    let mut wrong = Vec::new();
    for exchange in exchanges().iter().filter(|exchange| exchange.form == Form::Error) {
        let (error, _) = exchange.ask(exchange.reply()).await.expect_err("an error status is an error");
        let row = format!("{:?} {}", exchange.dialect, exchange.provider()).to_lowercase();
        *counts.entry((row, format!("{} {:?}", exchange.recorded.status, error.kind))).or_default() += 1;
        let is_clean =
            !error.message.is_empty() && !error.message.contains('\n') && !error.message.starts_with('{');
        let says_wait = error.kind != ErrorKind::Rate
            || !exchange.body.contains("retryDelay")
            || error.retry_after.is_some();
        let is_whole = error.status == Some(exchange.recorded.status) && error.model == exchange.model();
        if !classes(exchange).contains(&error.kind) || !is_clean || !says_wait || !is_whole {
            wrong.push(format!("{}\n  {error}\n  {}", exchange.place(), exchange.body));
        }
    }
    print_table("errors", &counts);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
