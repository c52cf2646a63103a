use std::fmt;

use anyhow::{Context, Result};

/// Version of the workspace: three numbers, and the name of a pre-release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version {
    numbers: [u64; 3],
    /// A pre-release comes before the version without one.
    is_final: bool,
    /// Parts of the pre-release: numbers come before words.
    before: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

impl Version {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let wrong = || format!("`{text}` is no version: write three numbers, as in 0.2.0 or 0.2.0-rc.1");
        let (numbers, before) = match text.split_once('-') {
            Some((numbers, before)) => (numbers, Some(before)),
            None => (text, None),
        };
        let numbers: Vec<u64> = numbers.split('.').map(number).collect::<Option<_>>().with_context(wrong)?;
        let numbers: [u64; 3] = numbers.try_into().ok().with_context(wrong)?;
        let part = |part: &str| {
            let is_word = !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            number(part).map(Part::Number).or_else(|| is_word.then(|| Part::Word(part.to_owned())))
        };
        let is_final = before.is_none();
        let before = before.into_iter().flat_map(|before| before.split('.')).map(part);
        let before = before.collect::<Option<_>>().with_context(wrong)?;
        Ok(Self { numbers, is_final, before })
    }

    /// Whether nothing was left out between this version and the next one: one of the three numbers grew by one,
    /// and those behind it are zero.
    pub(super) fn is_followed_by(&self, next: &Self) -> bool {
        let [major, minor, patch] = self.numbers;
        let steps = [[major, minor, patch + 1], [major, minor + 1, 0], [major + 1, 0, 0]];
        self < next && (self.numbers == next.numbers || steps.contains(&next.numbers))
    }
}

/// Number without a sign and without leading zeros.
fn number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain)
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        for (index, part) in self.before.iter().enumerate() {
            let sign = if index == 0 { '-' } else { '.' };
            match part {
                Part::Number(number) => write!(f, "{sign}{number}")?,
                Part::Word(word) => write!(f, "{sign}{word}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_an_order_and_say_which_may_follow() {
        let parse = |text| Version::parse(text).unwrap();
        let ordered =
            ["0.1.0-1", "0.1.0-alpha", "0.1.0-rc.2", "0.1.0-rc.10", "0.1.0", "0.1.1", "0.2.0", "1.0.0"];
        for pair in ordered.windows(2) {
            assert!(parse(pair[0]) < parse(pair[1]), "{pair:?}");
            assert_eq!(parse(pair[0]).to_string(), pair[0]);
        }
        for (from, to, may) in [
            ("0.1.0", "0.1.1", true),
            ("0.1.4", "0.2.0", true),
            ("0.1.0", "0.2.0-rc.1", true),
            ("0.2.0-rc.1", "0.2.0", true),
            ("0.9.3", "1.0.0", true),
            ("0.1.0", "0.1.0", false),
            ("0.1.1", "0.1.0", false),
            ("0.1.0", "0.3.0", false),
            ("0.1.0", "0.2.1", false),
            ("0.2.0", "0.2.0-rc.1", false),
        ] {
            assert_eq!(parse(from).is_followed_by(&parse(to)), may, "{from} {to}");
        }
        for wrong in ["", "1", "1.2", "1.2.3.4", "v1.2.3", "01.2.3", "1.2.x", "1.2.3-", "1.2.3-a b", "+1.0.0"]
        {
            assert!(Version::parse(wrong).is_err(), "{wrong}");
        }
    }
}
