/// Flags and operands of a command line.
#[derive(Debug, Default)]
pub(super) struct Scanned<'a> {
    pub(super) flags: Vec<(&'a str, Option<&'a str>)>,
    pub(super) operands: Vec<&'a str>,
    /// Files that are read because they are values of flags.
    pub(super) reads: Vec<&'a str>,
    /// Index of the first operand in the arguments.
    pub(super) first_operand: Option<usize>,
}

impl<'a> Scanned<'a> {
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.flags.iter().any(|(name, _)| names.contains(name))
    }

    pub(super) fn values<'s>(&'s self, names: &'s [&str]) -> impl Iterator<Item = &'a str> + 's {
        self.flags.iter().filter(move |(name, _)| names.contains(name)).filter_map(|(_, value)| *value)
    }
}

/// End of the flags in a command line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// `--`: flags may follow operands.
    Dashes,
    /// The first operand, as for programs that start others.
    Operand,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
    /// Optional value, in the same word only.
    Optional,
    /// File that is read.
    File,
    /// Value in the same word, or in the next one if there is one.
    IfAny,
    /// Value in the next word only: letters after the flag are further flags.
    Apart,
}

/// Parses arguments by the flags of `spec`, as `getopt_long` does. An unknown flag, or an abbreviated one, is
/// an error.
///
/// `spec` is a list of words. `abc` are single letters without a value, which may be joined; `ab:` take a
/// value, `ab?` one in the same word only, `ab;` one in the next word only, `ab<` a file that is read.
/// `--long` takes nothing, `--long=` a value, `--long?` one after `=` only, `--long!` one if any word
/// follows, `--long<` a file. `-name` is one flag in spite of its single dash. `#` stands for numbers such as
/// `-20`.
pub(super) fn scan<'a>(spec: &str, args: &'a [String], until: Until) -> Result<Scanned<'a>, String> {
    let mut scanned = Scanned::default();
    let mut at = 0;
    let mut only_operands = false;
    while let Some(word) = args.get(at).map(String::as_str) {
        let here = at;
        at += 1;
        if only_operands || !word.starts_with('-') || word == "-" {
            scanned.first_operand.get_or_insert(here);
            only_operands |= until == Until::Operand;
            scanned.operands.push(word);
            continue;
        }
        if word == "--" {
            only_operands = true;
            continue;
        }
        let is_last = at >= args.len();
        let mut value_behind = || {
            let value = args.get(at).map(String::as_str);
            at += 1;
            match value {
                // As a flag or as a value, the next word means the same: `head -n -5`.
                Some(value) if is_number(value) && accepts_numbers(spec) => Ok(value),
                // Another version of the program may take the word for a flag.
                Some(value) if value.len() > 1 && value.starts_with('-') => {
                    Err(format!("the value `{value}` of `{word}` looks like a flag"))
                }
                Some(value) => Ok(value),
                None => Err(format!("`{word}` needs a value")),
            }
        };
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            let Some(takes) = find_long(spec, name) else { return Err(unknown(word)) };
            let value = match (takes, value) {
                (Takes::Nothing, Some(_)) => return Err(unknown(word)),
                (Takes::Nothing, None) => None,
                (Takes::Optional, value) => value,
                (Takes::IfAny, Some(value)) => Some(value),
                (Takes::IfAny, None) if is_last => None,
                (Takes::IfAny, None) => Some(value_behind()?),
                (Takes::Value | Takes::File | Takes::Apart, Some(value)) => Some(value),
                (Takes::Value | Takes::File | Takes::Apart, None) => Some(value_behind()?),
            };
            scanned.push(name, takes, value);
        } else if spec.split_ascii_whitespace().any(|known| known == word) {
            scanned.push(word, Takes::Nothing, None);
        } else {
            let letters = word.get(1..).unwrap_or_default();
            if is_number(word) && accepts_numbers(spec) {
                continue;
            }
            for (offset, letter) in letters.char_indices() {
                let end = offset + letter.len_utf8();
                let name = letters.get(offset..end).unwrap_or_default();
                let Some(takes) = find_short(spec, letter) else { return Err(unknown(word)) };
                let rest = letters.get(end..).filter(|rest| !rest.is_empty());
                let value = match takes {
                    Takes::Nothing => None,
                    Takes::Optional => rest,
                    Takes::Apart if rest.is_some() => return Err(unknown(word)),
                    Takes::Value | Takes::File | Takes::Apart | Takes::IfAny => match rest {
                        Some(rest) => Some(rest),
                        None => Some(value_behind()?),
                    },
                };
                scanned.push(name, takes, value);
                if takes != Takes::Nothing {
                    break;
                }
            }
        }
    }
    Ok(scanned)
}

impl<'a> Scanned<'a> {
    fn push(&mut self, name: &'a str, takes: Takes, value: Option<&'a str>) {
        self.flags.push((name, value));
        if takes == Takes::File {
            self.reads.extend(value);
        }
    }
}

/// Whether a word is a number after a dash.
fn is_number(word: &str) -> bool {
    let digits = word.strip_prefix('-').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether `spec` accepts a number as a flag.
fn accepts_numbers(spec: &str) -> bool {
    spec.split_ascii_whitespace().any(|word| word == "#")
}

fn unknown(word: &str) -> String {
    format!("the flag `{word}` is not known to be harmless")
}

fn find_long(spec: &str, name: &str) -> Option<Takes> {
    spec.split_ascii_whitespace().filter_map(|word| word.strip_prefix("--")).find_map(|known| {
        let (known, takes) = match known.strip_suffix('=') {
            Some(known) => (known, Takes::Value),
            None => match known.strip_suffix('?') {
                Some(known) => (known, Takes::Optional),
                None => match (known.strip_suffix('<'), known.strip_suffix('!')) {
                    (Some(known), _) => (known, Takes::File),
                    (None, Some(known)) => (known, Takes::IfAny),
                    (None, None) => (known, Takes::Nothing),
                },
            },
        };
        (known == name).then_some(takes)
    })
}

fn find_short(spec: &str, letter: char) -> Option<Takes> {
    if !letter.is_ascii_alphanumeric() {
        return None;
    }
    spec.split_ascii_whitespace().filter(|word| !word.starts_with(['-', '#'])).find_map(|word| {
        let takes = match word.chars().next_back() {
            Some(':') => Takes::Value,
            Some('?') => Takes::Optional,
            Some('<') => Takes::File,
            Some(';') => Takes::Apart,
            _ => Takes::Nothing,
        };
        word.contains(letter).then_some(takes)
    })
}
