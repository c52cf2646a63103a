use zk_core::service::visible_line;

use crate::goal::Goal;

/// Describes a goal and its progress in lines for a person. Control characters are visible.
#[must_use]
pub fn describe_goal(goal: &Goal) -> Vec<String> {
    let reason = goal.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let mut lines = vec![
        visible_line(&format!("goal {}: {}", goal.number, goal.spec.text())),
        visible_line(&format!("{}{reason}", goal.state)),
    ];
    let turns = match goal.spec.max_turns() {
        Some(most) => format!("{} of {most} turns", goal.turns),
        None => format!("{} turns", goal.turns),
    };
    let cost = match goal.spec.budget() {
        Some(budget) => format!("${:.4} of ${budget:.2}", goal.spent),
        None => format!("${:.4}", goal.spent),
    };
    let kind = if goal.spec.is_autonomous() { "goes on by itself" } else { "followed up by you" };
    lines.push(format!("{turns}, {cost}, {kind}"));
    lines.extend(goal.waiting.iter().map(|line| visible_line(&format!("waits for you: {line}"))));
    lines
}
