use zk_core::model::{Block as MessageBlock, Message, StopReason, ToolCall};

use crate::{AnswerEnd, Text};

/// Part of an answer that becomes one block.
#[derive(Clone, Debug)]
pub(super) enum Part<'a> {
    Thinking(String),
    Answer(String, AnswerEnd),
    Provider(String),
    Summary(String),
    Call(&'a ToolCall),
}

/// Parts of an answer, in order. `texts` replace the model's texts if they were shown differently.
pub(super) fn parts<'a>(message: &'a Message, texts: Option<&[String]>) -> Vec<Part<'a>> {
    let mut parts: Vec<Part<'a>> = Vec::new();
    for block in &message.content {
        match (block, parts.last_mut()) {
            (MessageBlock::Text(more), Some(Part::Answer(text, _))) => text.push_str(&more.text),
            (MessageBlock::Text(text), _) if text.text.is_empty() => {}
            (MessageBlock::Text(text), _) => parts.push(Part::Answer(text.text.clone(), AnswerEnd::Whole)),
            (MessageBlock::Thinking(more), Some(Part::Thinking(text))) => text.push_str(&more.text),
            (MessageBlock::Thinking(thinking), _) => parts.push(Part::Thinking(thinking.text.clone())),
            (MessageBlock::ToolCall(call), _) => parts.push(Part::Call(call)),
            (MessageBlock::Provider(block), _) => parts.push(Part::Provider(block.text.clone())),
            (MessageBlock::Compaction(block), _) => parts.push(Part::Summary(block.summary.clone())),
            (MessageBlock::Image(_) | MessageBlock::Document(_) | MessageBlock::ToolResult(_), _) => {}
        }
    }
    if let Some(texts) = texts {
        replace_texts(&mut parts, texts);
    }
    set_answer_end(&mut parts, message);
    parts
}

/// Replaces the model's texts by the shown ones; all go into the first if the numbers differ.
fn replace_texts(parts: &mut Vec<Part<'_>>, texts: &[String]) {
    let count = parts.iter().filter(|part| matches!(part, Part::Answer(..))).count();
    let mut shown = if count == texts.len() { texts.to_vec() } else { vec![texts.concat()] }.into_iter();
    parts.retain_mut(|part| match part {
        Part::Answer(text, _) => match shown.next() {
            Some(shown) => {
                *text = shown;
                true
            }
            None => false,
        },
        Part::Thinking(_) | Part::Provider(_) | Part::Summary(_) | Part::Call(_) => true,
    });
}

/// Sets the end of the answer on its last text. An empty answer gets a part for it.
fn set_answer_end(parts: &mut Vec<Part<'_>>, message: &Message) {
    let has_calls = parts.iter().any(|part| matches!(part, Part::Call(_)));
    let is_blank = |part: &Part<'_>| matches!(part, Part::Answer(text, _) if text.trim().is_empty());
    let says_nothing = !parts.iter().any(|part| matches!(part, Part::Answer(..)) && !is_blank(part));
    let end = match &message.stop {
        Some(StopReason::MaxTokens) => AnswerEnd::MaxTokens,
        Some(StopReason::ContextExceeded) => AnswerEnd::WindowFull,
        Some(StopReason::Refusal(_)) => AnswerEnd::Refused,
        Some(StopReason::Aborted) => AnswerEnd::Stopped,
        Some(StopReason::Error) => AnswerEnd::Broken,
        Some(StopReason::Other(reason)) => AnswerEnd::Other { reason: Text::line(reason) },
        Some(StopReason::PauseTurn | StopReason::Compaction) => AnswerEnd::Whole,
        Some(StopReason::EndTurn | StopReason::ToolUse | StopReason::StopSequence(_)) | None => {
            if says_nothing && !has_calls {
                AnswerEnd::Empty
            } else {
                AnswerEnd::Whole
            }
        }
    };
    if end == AnswerEnd::Whole {
        return;
    }
    let last = parts.iter_mut().rev().find_map(|part| match part {
        Part::Answer(_, end) => Some(end),
        Part::Thinking(_) | Part::Provider(_) | Part::Summary(_) | Part::Call(_) => None,
    });
    match last {
        Some(last) => *last = end,
        None => parts.push(Part::Answer(String::new(), end)),
    }
}
