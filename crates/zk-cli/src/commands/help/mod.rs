//! `zk help`: the pages of the documentation, and the help of commands.

mod completions;
mod pages;
#[cfg(test)]
mod tests;

use zk_tui::Style;
use zk_tui::plain::Screen;

use crate::app::terminal;
use crate::args::help;
use crate::exit::{Exit, Failure, Outcome};
pub(crate) use completions::{completions, known_words, manual_pages};
use pages::{Page, pages, text, unpack_pages, without_targets};
use zk_exec::ProgramEnv;

/// Most pages that the message about a missing topic names.
const MAX_NAMED: usize = 8;

/// Prints the page or the help of the command that `topic` names, or lists the pages.
pub(crate) fn help(env: &ProgramEnv, topic: &[String]) -> Outcome<Exit> {
    let unpacked = unpack_pages()?;
    let pages = pages(&unpacked);
    let mut screen = Screen::stdout(&terminal(env));
    let word = topic.join(" ");
    let page = pages.iter().find(|page| page.is_named(&word));
    match (page, help::text(topic)) {
        _ if topic.is_empty() => list(&pages, &mut screen),
        (Some(page), of_command) => {
            screen.write_page(&without_targets(&text(page)?));
            if of_command.is_some() {
                screen.line(Style::DIM, &format!("Options of the command: zk {word} --help"));
            }
        }
        (None, Some(of_command)) => of_command.lines().for_each(|line| screen.line(Style::PLAIN, line)),
        (None, None) => return Err(Failure::usage(missing_topic_message(&pages, &word))),
    }
    screen.finish()?;
    Ok(Exit::Done)
}

/// Names of all pages except the decision records.
fn page_names() -> Vec<String> {
    let unpacked = unpack_pages().unwrap_or_default();
    pages(&unpacked).iter().filter(|page| !page.is_decision()).map(|page| page.topic().to_owned()).collect()
}

fn list(pages: &[Page<'_>], screen: &mut Screen) {
    screen.line(Style::PLAIN, "Usage: zk help [PAGE|COMMAND]; `zk --help` lists the commands and options");
    let mut part = "";
    for page in pages.iter().filter(|page| !page.is_decision()) {
        if page.part != part {
            part = page.part;
            screen.line(Style::BOLD, &format!("\n{part}"));
        }
        screen.line(Style::PLAIN, &format!("  {:<20} {}", page.topic(), page.title));
    }
    let decisions = pages.iter().filter(|page| page.is_decision()).count();
    screen.line(
        Style::PLAIN,
        &format!("\nand {decisions} decisions with their reasons, by number: zk help 0001"),
    );
}

/// Returns the message about a missing topic, with similar page names.
fn missing_topic_message(pages: &[Page<'_>], word: &str) -> String {
    let wanted = word.to_lowercase();
    let near = pages.iter().map(|page| (strsim::osa_distance(&wanted, page.topic()), page.topic()));
    let near = near.filter(|(distance, _)| *distance <= wanted.chars().count() / 3).min();
    if let Some((_, topic)) = near {
        return format!("there is no page `{word}`; did you mean `zk help {topic}`?");
    }
    let has_word = |page: &&Page<'_>| !page.is_decision() && page.text.to_lowercase().contains(&wanted);
    let found: Vec<&str> = pages.iter().filter(has_word).map(|page| page.topic()).take(MAX_NAMED).collect();
    if found.is_empty() {
        return format!("there is no page `{word}`; `zk help` lists them");
    }
    format!("there is no page `{word}`; these speak of it: {}", found.join(", "))
}
