use crate::row::{Row, Style};

/// Meaning of a line for a question with numbered options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineChoice {
    /// Option with this index.
    Option(usize),
    /// None of the options.
    None,
    /// No valid answer: the person may type again.
    Mistyped,
}

impl LineChoice {
    /// Parses a line for a number of options.
    #[must_use]
    pub fn of(line: &str, options: usize) -> Self {
        match (line.parse::<usize>(), line.to_ascii_lowercase().as_str()) {
            (Ok(number), _) if (1..=options).contains(&number) => Self::Option(number - 1),
            (Err(_), "n" | "no" | "none") => Self::None,
            (Ok(_) | Err(_), _) => Self::Mistyped,
        }
    }

    /// Remark on a [mistyped](Self::Mistyped) line.
    #[must_use]
    pub fn remark(options: usize) -> Row {
        Row::of(Style::YELLOW, &format!("└ Type a number from 1 to {options}, or n for none of them"))
    }
}
