use super::{Goal, GoalRules};

/// Longest part of a goal's text that is repeated, in characters. All of it stands in the system prompt.
const MAX_REPEATED_CHARS: usize = 300;

/// Message that has the model go on with a goal.
pub(super) fn go_on(goal: &Goal, rules: &GoalRules) -> String {
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

/// Sentence that tells the model the phrase.
pub(super) fn instruction(rules: &GoalRules) -> String {
    format!(
        "Once the goal is reached, and only then, end your answer with this line, without a call of a tool:\n{}",
        rules.phrase
    )
}
