//! Reader of Ollama's streams, line by line over whole JSON values.

use serde_json::Value;
use zk_core::model::{StopReason, Usage};

use crate::collect::Answer;

pub(crate) fn read(body: &str) -> Answer {
    let mut answer = Answer::default();
    for line in body.lines().filter(|line| !line.trim().is_empty()) {
        let line: Value = serde_json::from_str(line).expect("recorded lines are JSON");
        answer.model = line["model"].as_str().map(str::to_owned).or(answer.model);
        let said = &line["message"];
        answer.text.push_str(said["content"].as_str().unwrap_or_default());
        answer.thinking.push_str(said["thinking"].as_str().unwrap_or_default());
        for call in said["tool_calls"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let function = &call["function"];
            answer.calls.push((
                text(&call["id"]),
                text(&function["name"]),
                Some(function["arguments"].clone()),
            ));
        }
        if line["done"] == true {
            let count = |name: &str| line[name].as_u64().unwrap_or_default();
            answer.usage =
                Usage { input: count("prompt_eval_count"), output: count("eval_count"), ..Usage::default() };
            answer.stop = Some(match line["done_reason"].as_str() {
                Some("length") => StopReason::MaxTokens,
                Some("stop") if !answer.calls.is_empty() => StopReason::ToolUse,
                Some("stop") => StopReason::EndTurn,
                other => panic!("no recording ends with {other:?}"),
            });
        }
    }
    answer
}
