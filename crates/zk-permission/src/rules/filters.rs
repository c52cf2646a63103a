use crate::shell::{Command, Connector, Redirect, Script};

/// Options of a filter: flags, and options with a number.
struct Filter {
    name: &'static str,
    /// Short options that may be combined in one word, as letters.
    letters: &'static str,
    /// Short options that take a number, in the same word or the next one, as letters.
    numbers: &'static str,
    /// Whether one word that is no option is a pattern.
    has_pattern: bool,
}

/// Programs that write a part of their input, without files.
const FILTERS: [Filter; 5] = [
    Filter { name: "tail", letters: "q", numbers: "nc", has_pattern: false },
    Filter { name: "head", letters: "q", numbers: "nc", has_pattern: false },
    Filter { name: "cat", letters: "nbs", numbers: "", has_pattern: false },
    Filter { name: "grep", letters: "EFivnocwx", numbers: "ABCm", has_pattern: true },
    Filter { name: "wc", letters: "lwcm", numbers: "", has_pattern: false },
];

/// Words of the first command of a text in which only filters follow: `npm test 2>&1 | tail -n 20`. Also
/// returns the filters' programs.
pub(crate) fn filtered_command(text: &str) -> Option<(Vec<String>, Vec<String>)> {
    let script = Script::parse(text).ok()?;
    let (first, filters) = script.commands.split_first()?;
    if !is_bare(first) || !filters.iter().all(is_filter) {
        return None;
    }
    let names = filters.iter().filter_map(|filter| filter.words.first().cloned()).collect();
    Some((first.words.clone(), names))
}

/// Whether a command sets no variable and redirects only to `/dev/null`.
fn is_bare(command: &Command) -> bool {
    let keeps_nothing = |redirect: &Redirect| match redirect {
        Redirect::Duplicate => true,
        Redirect::Write { path, .. } => path == "/dev/null",
        Redirect::Read { .. } => false,
    };
    command.assignments.is_empty() && command.redirects.iter().all(keeps_nothing)
}

fn is_filter(command: &Command) -> bool {
    let Some((name, arguments)) = command.words.split_first() else { return false };
    let known = FILTERS.iter().find(|filter| filter.name == name);
    command.connector == Connector::Pipe
        && is_bare(command)
        && known.is_some_and(|filter| filter.takes_no_file(arguments))
}

impl Filter {
    fn takes_no_file(&self, arguments: &[String]) -> bool {
        let mut patterns = usize::from(self.has_pattern);
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let Some(option) = word.strip_prefix('-').filter(|option| !option.is_empty()) else {
                if patterns == 0 {
                    return false;
                }
                patterns -= 1;
                continue;
            };
            let letters = option.trim_start_matches(|letter| self.letters.contains(letter));
            let mut rest = letters.chars();
            let is_whole = match rest.next() {
                None => true,
                Some(letter) if self.numbers.contains(letter) => {
                    let number = rest.as_str();
                    if number.is_empty() {
                        words.next().is_some_and(|word| is_number(word))
                    } else {
                        is_number(number)
                    }
                }
                // `-20` is the number of lines.
                Some(_) => !self.numbers.is_empty() && option == letters && is_digits(letters),
            };
            if !is_whole {
                return false;
            }
        }
        // A pattern that is missing is an error of the program.
        true
    }
}

/// Whether a word is a count, from the end or the start.
fn is_number(word: &str) -> bool {
    is_digits(word.strip_prefix(['+', '-']).unwrap_or(word))
}

fn is_digits(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}
