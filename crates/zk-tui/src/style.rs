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

/// Which colours stand for the tones. No tone says anything that a sign or a word beside it does not say too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Those of the terminal, on a dark ground.
    #[default]
    Dark,
    /// Those of the terminal, but for what cannot be read on a light ground.
    Light,
    /// Orange and blue where others have red and green.
    ColourBlind,
    /// None.
    Mono,
}

impl Theme {
    /// The code of a tone, behind `ESC [`; nothing for the terminal's own colour.
    fn code(self, tone: Tone) -> Option<&'static str> {
        match (self, tone) {
            (Self::Mono, _) | (_, Tone::Plain) => None,
            (Self::ColourBlind, Tone::Red) => Some("38;5;208"),
            (Self::ColourBlind, Tone::Green) => Some("38;5;33"),
            (Self::Light, Tone::Yellow) => Some("38;5;130"),
            (Self::Light, Tone::Cyan) => Some("34"),
            (Self::Dark | Self::Light, Tone::Red) => Some("31"),
            (Self::Dark | Self::Light, Tone::Green) => Some("32"),
            (Self::Dark | Self::ColourBlind, Tone::Yellow) => Some("33"),
            (Self::Dark | Self::ColourBlind, Tone::Cyan) => Some("36"),
            (Self::Dark | Self::Light | Self::ColourBlind, Tone::Magenta) => Some("35"),
        }
    }
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

    /// The sequence that turns this style on, after a reset.
    #[must_use]
    pub fn sequence(self, theme: Theme) -> String {
        let mut out = String::new();
        self.begin(theme, &mut out);
        out
    }

    /// Appends the sequence that turns this style on, after a reset. Without colours only weight, slant and lines.
    pub(crate) fn begin(self, theme: Theme, out: &mut String) {
        let tone = theme.code(self.tone);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(theme: Theme, style: Style) -> String {
        let mut out = String::new();
        style.begin(theme, &mut out);
        out
    }

    #[test]
    fn a_theme_chooses_colours_and_none_keeps_weight_and_lines() {
        let style = Style { bold: true, ..Style::RED };
        assert_eq!(begun(Theme::Dark, style), "\u{1b}[1;31m");
        assert_eq!(begun(Theme::ColourBlind, style), "\u{1b}[1;38;5;208m");
        assert_eq!(begun(Theme::Mono, style), "\u{1b}[1m");
        assert_ne!(begun(Theme::ColourBlind, Style::RED), begun(Theme::ColourBlind, Style::GREEN));
        assert_ne!(begun(Theme::Light, Style::YELLOW), begun(Theme::Dark, Style::YELLOW));
    }
}
