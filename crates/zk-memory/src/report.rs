//! Lines about a memory for a person. Control characters in facts are visible.

use std::path::Path;

use zk_core::service::{visible_line, visible_lines};

use crate::fact::day;
use crate::{Fact, FactScope, FactState, Forgotten, RecallRecord};

/// Maximum number of characters of a fact in a list.
const MAX_LIST_CHARS: usize = 160;

/// Lines of a list of kept facts.
#[must_use]
pub fn list(facts: &[Fact], proposals: usize, here: &Path) -> Vec<String> {
    let mut lines: Vec<String> = facts.iter().map(|fact| fact_row(fact, here)).collect();
    if facts.is_empty() {
        lines.push("nothing is remembered here; /remember TEXT in a conversation keeps a fact".to_owned());
    }
    if proposals > 0 {
        let which = if proposals == 1 {
            "1 proposal waits".to_owned()
        } else {
            format!("{proposals} proposals wait")
        };
        lines.push(format!("{which} for you: `zk memory list --proposed`, or /memory proposed"));
    }
    lines
}

/// Lines of a list of proposals.
#[must_use]
pub fn proposals(facts: &[Fact], here: &Path) -> Vec<String> {
    if facts.is_empty() {
        return vec!["no proposal waits for you".to_owned()];
    }
    let mut lines: Vec<String> = facts.iter().map(|fact| fact_row(fact, here)).collect();
    lines.push("`accept` and `reject` with a number decide; nothing of these is recalled before".to_owned());
    lines
}

/// Lines about one fact, with its whole text.
#[must_use]
pub fn show(fact: &Fact, here: &Path) -> Vec<String> {
    let state = match fact.state {
        FactState::Kept => "kept",
        FactState::Proposed => "proposed: not recalled before you accept it",
    };
    let mut lines = vec![format!("{}  {state}", fact.id)];
    lines.extend(visible_lines(&fact.text).iter().map(|line| format!("  {line}")));
    lines.push(visible_line(&format!("from: {}, {}", fact.origin.describe(), day(fact.changed_ms))));
    lines.push(visible_line(&format!("recalled in: {}", fact.scope.describe(here))));
    if let Some(session) = &fact.session {
        lines.push(visible_line(&format!("session: {session}")));
    }
    let last = fact.used_ms.map_or(String::new(), |used| format!(", last on {}", day(used)));
    lines.push(format!("recalls: {}{last}", fact.uses));
    lines
}

/// Lines about a fact that was forgotten.
#[must_use]
pub fn forgotten(forgotten: &Forgotten) -> Vec<String> {
    let mut lines = vec![format!("{} is forgotten", forgotten.id)];
    if !forgotten.sessions.is_empty() {
        lines.push(
            "it was told in these sessions, whose own records still have it (`zk sessions redact` removes an entry, \
             `zk sessions delete` all of one):"
                .to_owned(),
        );
        lines.extend(forgotten.sessions.iter().map(|session| format!("  {}", visible_line(session))));
    }
    lines
}

/// Lines about the last recall: its words, and the facts with their words and scores.
#[must_use]
pub fn why(record: Option<&RecallRecord>, here: &Path) -> Vec<String> {
    let Some(record) = record else {
        return vec!["no prompt was looked up in the memory here yet".to_owned()];
    };
    let words = if record.words.is_empty() { "none".to_owned() } else { record.words.join(", ") };
    let mut lines = vec![visible_line(&format!("words of the prompt: {words}"))];
    if record.facts.is_empty() {
        lines.push("no fact was told to the model".to_owned());
    }
    for (recalled, place) in record.facts.iter().zip(1..) {
        lines.push(format!("{place}. {}", fact_row(&recalled.fact, here)));
        let words = if recalled.words.is_empty() {
            "(its text changed since)".to_owned()
        } else {
            recalled.words.join(", ")
        };
        let project = match recalled.fact.scope {
            FactScope::Project(_) => ", of this project",
            FactScope::Everywhere => "",
        };
        lines.push(visible_line(&format!(
            "   by: {words}; score {:.2}{project}, recalled {}",
            recalled.score,
            times(recalled.fact.uses)
        )));
    }
    lines
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn fact_row(fact: &Fact, here: &Path) -> String {
    let line = fact.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut: String = line.chars().take(MAX_LIST_CHARS).collect();
    let more = if cut.len() < line.len() { "…" } else { "" };
    visible_line(&format!("{}  {cut}{more}  ({})", fact.id, fact.provenance(here)))
}
