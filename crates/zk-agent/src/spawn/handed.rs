use std::sync::Arc;

use serde::Deserialize;
use zk_core::model::{Message, Role, ToolError};

/// Maximum number of the parent's turns that a sub-agent begins with.
pub(super) const MAX_HANDED_TURNS: usize = 20;

/// Part of the parent's conversation that a sub-agent begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HandedContext {
    /// Nothing: the task alone.
    #[default]
    None,
    /// The last answer of the parent.
    LastAnswer,
    /// The last turns of the parent, with the prompt that they answer.
    LastTurns,
}

impl HandedContext {
    /// Returns the messages that the sub-agent begins with, oldest first. The first is a user message, as
    /// providers require.
    pub(super) fn messages(
        self,
        history: &[Arc<Message>],
        turns: Option<u32>,
    ) -> Result<Vec<Arc<Message>>, ToolError> {
        let turns = match self {
            Self::None => return Ok(Vec::new()),
            Self::LastAnswer => return Ok(last_answer(history)),
            Self::LastTurns => turns.map_or(1, |turns| turns as usize),
        };
        if !(1..=MAX_HANDED_TURNS).contains(&turns) {
            let text = format!("`turns` is {turns}; it may be 1 to {MAX_HANDED_TURNS}");
            return Err(ToolError::invalid(text));
        }
        let answers = history.iter().enumerate().rev();
        let answers = answers.filter(|(_, message)| message.role == Role::Assistant).map(|(at, _)| at);
        let Some(from) = answers.take(turns).last() else { return Ok(Vec::new()) };
        let is_prompt = |message: &&Arc<Message>| message.role == Role::User && !has_results(message);
        let prompt = history.iter().take(from).rev().find(is_prompt);
        Ok(prompt.into_iter().chain(history.iter().skip(from)).cloned().collect())
    }
}

/// Returns the last answer with text, as a user message.
fn last_answer(history: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let answers = history.iter().rev().filter(|message| message.role == Role::Assistant);
    let text = answers.map(|message| message.text()).find(|text| !text.trim().is_empty());
    let said =
        |text| Message::injected(format!("The last answer of the agent that asks you:\n\n{text}"), "spawn");
    text.map(|text| said(text).identified().shared()).into_iter().collect()
}

fn has_results(message: &Message) -> bool {
    message.content.iter().any(|block| block.as_result().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zk_core::model::Block;

    fn history() -> Vec<Arc<Message>> {
        let said = |text: &str| Message::assistant(vec![Block::text(text)]).shared();
        let asked = |text: &str| Message::user_text(text).shared();
        vec![asked("one"), said("1"), asked("two"), said("2"), asked("three"), said("")]
    }

    fn texts(handed: HandedContext, turns: Option<u32>) -> Vec<String> {
        handed.messages(&history(), turns).unwrap().iter().map(|message| message.text()).collect()
    }

    #[test]
    fn the_last_turns_begin_with_the_prompt_that_they_answer() {
        assert!(texts(HandedContext::None, Some(3)).is_empty());
        assert_eq!(texts(HandedContext::LastTurns, None), ["three", ""]);
        assert_eq!(texts(HandedContext::LastTurns, Some(2)), ["two", "2", "three", ""]);
        assert_eq!(texts(HandedContext::LastTurns, Some(20)).len(), 6);
        assert!(texts(HandedContext::LastAnswer, None)[0].ends_with("asks you:\n\n2"));
        for turns in [0, 21] {
            assert!(HandedContext::LastTurns.messages(&history(), Some(turns)).is_err());
        }
        assert!(HandedContext::LastTurns.messages(&[], Some(1)).unwrap().is_empty());
    }
}
