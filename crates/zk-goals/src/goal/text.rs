use super::{Goal, GoalRules};

/// Message that has the model go on with a goal.
pub(super) fn go_on(goal: &Goal, rules: &GoalRules) -> String {
    let mut text = format!("The goal is not reached yet:\n\n{}\n\nGo on with it.", goal.spec.text());
    if let Some(missing) = &goal.supervision.missing {
        text.push_str(&format!(" A reviewer found: {missing}"));
    }
    if !goal.waiting.is_empty() {
        text.push_str(" Nobody decides now on what was refused: do what is possible without it.");
    }
    text.push_str(&format!(" {}", instruction(rules)));
    text
}

/// Sentence that tells the model the phrase.
pub(super) fn instruction(rules: &GoalRules) -> String {
    format!(
        "Once the goal is reached, and only then, end your answer with this line, without a call of a tool:\n{}",
        rules.phrase
    )
}
