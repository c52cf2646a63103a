use super::{Goal, GoalRules};

/// Maximum length of the goal's text in a message, in characters. The system prompt has the whole text.
const MAX_REPEATED_CHARS: usize = 300;

/// Returns the message with which the model continues a goal.
pub(super) fn continue_message(goal: &Goal, rules: &GoalRules) -> String {
    let text = goal.spec.text();
    let repeated = match text.char_indices().nth(MAX_REPEATED_CHARS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    };
    let mut message = format!("The goal is not reached yet: {repeated}\nGo on with it.");
    if let Some(missing) = &goal.supervision.missing {
        message.push_str(&format!(" A reviewer found: {}.", missing.trim_end_matches('.')));
    }
    if !goal.waiting.is_empty() {
        message.push_str(" Nobody decides now on calls that were refused: do what is possible without them.");
    }
    message.push_str(&format!(
        " Only once the goal is reached, end your answer with the line: {}",
        rules.phrase
    ));
    message
}

/// Returns the sentence that tells the model the phrase.
pub(super) fn phrase_instruction(rules: &GoalRules) -> String {
    format!(
        "Once the goal is reached, and only then, end your answer with this line, without a call of a tool:\n{}",
        rules.phrase
    )
}
