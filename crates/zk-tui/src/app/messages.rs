//! Hints and messages of the drawn screens, in one list.

/// Maximum width of a hint in columns, within the margin of a screen of 60 columns.
#[cfg(test)]
const MAX_HINT_COLUMNS: usize = 58;

// Questions.
pub(crate) const QUESTION_WAITS: &str = "a question waits: answer it first";
pub(crate) const NO_QUESTION: &str = "no question waits";
pub(crate) const DRAFT_KEPT: &str = "draft kept · question waits: Alt-Q answers, Enter sends it";
pub(crate) const UNMARKED: &str = "no choice is marked: ↑↓ marks one, a letter answers";
pub(crate) const EARLY_ENTER: &str = "Enter came right behind the arrow: press it again";
pub(crate) const NO_ROWS_BELOW: &str = "no more rows below: Page Up goes back";
pub(crate) const NO_ROWS_ABOVE: &str = "no rows above: Page Down goes on";
pub(crate) const QUESTION_IS_WHOLE: &str = "the whole question is shown";

// Ends and stops.
pub(crate) const PRESS_AGAIN_TO_QUIT: &str = "Ctrl-C again, or Ctrl-D, ends the conversation";
pub(crate) const STOP_BEFORE_QUIT: &str = "Esc stops the run, then Ctrl-D ends the conversation";
pub(crate) const QUITS_LATER: &str = "the conversation ends once this is done: Esc stops it";
pub(crate) const NOTHING_TO_STOP: &str = "nothing runs that Esc could stop";
pub(crate) const ESCAPE_CLEARS: &str = "Esc again clears the text; ↑ brings it back";
pub(crate) const ESCAPE_GOES_BACK: &str = "Esc again goes back to an earlier prompt";

// Texts.
pub(crate) const NOTHING_TYPED: &str = "nothing is typed: ? lists the keys";
pub(crate) const TAB_AT_NOTHING: &str = "Tab completes what is typed, and queues it during a run";
pub(crate) const NOTHING_FITS: &str = "nothing fits what is typed";
pub(crate) const NOTHING_BEFORE: &str = "nothing was typed before this";
pub(crate) const NOTHING_AFTER: &str = "nothing was typed after this";
pub(crate) const NOTHING_CUT: &str = "nothing was cut: Ctrl-K and Ctrl-U cut";
pub(crate) const NOTHING_TO_UNDO: &str = "there is nothing to undo";
pub(crate) const NOTHING_HELD: &str = "no text waits that could be taken back";
pub(crate) const TEXT_DROPPED: &str = "dropped: ↑ brings it back";
pub(crate) const COPIED: &str = "in the clipboard of the terminal now, if it allows that";
pub(crate) const TOO_LONG_TO_COPY: &str = "too long for the clipboard of a terminal";
pub(crate) const NO_ANSWER: &str = "there is no answer yet";
pub(crate) const TEXT_PUT_ASIDE: &str = "the text is put aside: Ctrl-S on an empty line has it back";
pub(crate) const NOTHING_ASIDE: &str = "no text was put aside: Ctrl-S does that with what is typed";

// Commands.
pub(crate) const COMMAND_BEFORE_WORKS: &str = "the command before is at work: Enter again";
pub(crate) const COMMAND_NEEDS_EMPTY_LINE: &str = "a command begins an empty line";
pub(crate) const NO_COMMAND_RUNS: &str = "no command runs that could go on in the background";

/// Hint on a command that does not work during a run.
pub(crate) fn works_later(name: &str) -> String {
    format!("{name} works when the run is over (Esc stops it)")
}

/// Hint on a key without a meaning.
pub(crate) fn no_meaning(key: &str) -> String {
    format!("{key} has no meaning here: ?? lists the keys")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::columns;

    /// All messages of the list.
    fn all() -> Vec<String> {
        let source = include_str!("messages.rs");
        let list = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let constants = list.lines().filter_map(|line| line.split_once("&str = \"")?.1.strip_suffix("\";"));
        constants.map(str::to_owned).chain([works_later("/compact"), no_meaning("Ctrl-L")]).collect()
    }

    #[test]
    fn every_message_is_a_hint_that_fits_a_narrow_screen() {
        let all = all();
        assert!(all.len() > 30 && all.contains(&DRAFT_KEPT.to_owned()), "{all:?}");
        for message in all {
            assert!(columns(&message) <= MAX_HINT_COLUMNS, "{} columns: {message}", columns(&message));
            let first = message.chars().next().unwrap_or_default();
            let names_key = ["Esc ", "Ctrl-", "Enter ", "Tab "].iter().any(|key| message.starts_with(key));
            assert!(names_key || !first.is_uppercase(), "a sentence in the status row: {message}");
            assert!(!message.ends_with('.') && !message.contains("please"), "{message}");
        }
    }

    #[test]
    fn no_message_of_the_list_is_written_elsewhere() {
        let sources = [
            include_str!("asking.rs"),
            include_str!("composing.rs"),
            include_str!("idle_keys.rs"),
            include_str!("picking.rs"),
            include_str!("setting_aside.rs"),
            include_str!("../question/card.rs"),
        ];
        let hint = ["set_hint(\"", "set_brief_hint(\"", "Told(\"", "set_hint(format!"];
        for source in sources {
            let written: Vec<&str> =
                source.lines().filter(|line| hint.iter().any(|begin| line.contains(begin))).collect();
            assert_eq!(written, Vec::<&str>::new());
        }
    }
}
