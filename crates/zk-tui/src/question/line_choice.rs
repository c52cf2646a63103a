use crate::row::{Row, Style};

/// Meaning of a line for a question with numbered options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineChoice {
    /// The option at this place, from 0.
    Option(usize),
    /// None of them.
    None,
    /// Nothing that the question has: the person may type again.
    Mistyped,
}

impl LineChoice {
    /// The choice of a line among so many options.
    #[must_use]
    pub fn of(line: &str, options: usize) -> Self {
        match (line.parse::<usize>(), line.to_ascii_lowercase().as_str()) {
            (Ok(number), _) if (1..=options).contains(&number) => Self::Option(number - 1),
            (Err(_), "n" | "no" | "none") => Self::None,
            (Ok(_) | Err(_), _) => Self::Mistyped,
        }
    }

    /// Returns the remark on a line that was [mistyped](Self::Mistyped).
    #[must_use]
    pub fn remark(options: usize) -> Row {
        Row::of(Style::YELLOW, &format!("└ Type a number from 1 to {options}, or n for none of them"))
    }
}
