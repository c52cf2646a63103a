//! Catalogue of skills for the model.

use crate::discovery::discover::SkillSet;
use crate::skill::{MAX_DESCRIPTION, Skill};

/// Maximum number of bytes of names with descriptions; further skills are listed by name only.
const MAX_BYTES: usize = 32 * 1024;

/// Maximum number of additional bytes of names without descriptions.
const MAX_NAMES_BYTES: usize = 8 * 1024;

const INTRODUCTION: &str = "\
Skills hold instructions for particular tasks. When a task matches a description, call skills_use with its name before \
you begin, and follow what it says.";

/// Section of the system prompt with names and descriptions. The bytes depend only on the skills; empty
/// without skills.
#[must_use]
pub fn catalog(set: &SkillSet) -> String {
    // Skills with globs are mentioned when a matching file comes up.
    let listed = || set.for_model().filter(|skill| skill.manifest.paths.is_empty());
    if listed().next().is_none() {
        return String::new();
    }
    let mut text = format!("{INTRODUCTION}\n<available_skills>");
    let (mut names, mut left_out) = (String::new(), 0_usize);
    for skill in listed() {
        let entry = entry(skill);
        if names.is_empty() && text.len() + entry.len() <= MAX_BYTES {
            text.push_str(&entry);
        } else if names.len() + skill.name().len() + 2 <= MAX_NAMES_BYTES {
            names.push_str(if names.is_empty() { "" } else { ", " });
            names.push_str(&escape(skill.name()));
        } else {
            left_out += 1;
        }
    }
    if !names.is_empty() {
        text.push_str(&format!("\n<more>{names}</more>"));
    }
    if left_out > 0 {
        text.push_str(&format!("\n<not_listed>{left_out}</not_listed>"));
    }
    text.push_str("\n</available_skills>");
    text
}

fn entry(skill: &Skill) -> String {
    format!("\n<skill name=\"{}\">{}</skill>", escape(skill.name()), escape(&description(skill)))
}

/// Description in one line, within the length that models see.
pub(crate) fn description(skill: &Skill) -> String {
    let line = skill.manifest.description.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_DESCRIPTION) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or(&line)),
        None => line,
    }
}

/// Escapes markup in a text.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // Invisible characters, such as tag characters.
            c if c.is_control() || ('\u{e0000}'..='\u{e007f}').contains(&c) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
