/// Colour of text, by meaning of the palette: a terminal chooses what it looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// The terminal's own colour.
    #[default]
    Plain,
    /// Failure, and what was removed.
    Red,
    /// Success, and what was added.
    Green,
    /// A warning, or something to look at.
    Yellow,
    /// What the agent does, and code.
    Cyan,
    /// Words of a language.
    Magenta,
}

/// How text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Its colour.
    pub tone: Tone,
    /// Heavy.
    pub bold: bool,
    /// Faint.
    pub dim: bool,
    /// Slanted.
    pub italic: bool,
    /// Underlined.
    pub underline: bool,
    /// Struck through.
    pub strike: bool,
}

impl Style {
    /// As the terminal shows text.
    pub const PLAIN: Self =
        Self { tone: Tone::Plain, bold: false, dim: false, italic: false, underline: false, strike: false };
    /// Heavy.
    pub const BOLD: Self = Self { bold: true, ..Self::PLAIN };
    /// Faint.
    pub const DIM: Self = Self { dim: true, ..Self::PLAIN };
    /// Red.
    pub const RED: Self = Self { tone: Tone::Red, ..Self::PLAIN };
    /// Green.
    pub const GREEN: Self = Self { tone: Tone::Green, ..Self::PLAIN };
    /// Yellow.
    pub const YELLOW: Self = Self { tone: Tone::Yellow, ..Self::PLAIN };
    /// Cyan.
    pub const CYAN: Self = Self { tone: Tone::Cyan, ..Self::PLAIN };

    /// Appends the sequence that turns this style on, after a reset. Without `colour` only weight, slant and lines.
    pub(crate) fn begin(self, colour: bool, out: &mut String) {
        let tone = match self.tone {
            _ if !colour => None,
            Tone::Plain => None,
            Tone::Red => Some("31"),
            Tone::Green => Some("32"),
            Tone::Yellow => Some("33"),
            Tone::Cyan => Some("36"),
            Tone::Magenta => Some("35"),
        };
        let flags = [
            (self.bold, "1"),
            (self.dim, "2"),
            (self.italic, "3"),
            (self.underline, "4"),
            (self.strike, "9"),
        ];
        let codes = flags.into_iter().filter_map(|(is_on, code)| is_on.then_some(code)).chain(tone);
        out.push_str("\u{1b}[");
        for (at, code) in codes.enumerate() {
            if at > 0 {
                out.push(';');
            }
            out.push_str(code);
        }
        out.push('m');
    }
}
