use std::borrow::Cow;

use super::palette::Palette;

/// Meaning of a colour; palette and terminal decide the colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Default colour of the terminal.
    #[default]
    Plain,
    /// Failure or removal.
    Red,
    /// Success or addition.
    Green,
    /// Warning.
    Yellow,
    /// Code, names and keys.
    Cyan,
    /// Work in progress.
    Blue,
    /// Keyword.
    Magenta,
}

/// Background of a row by meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ground {
    /// Default background of the terminal.
    #[default]
    None,
    /// Added line.
    Added,
    /// Removed line.
    Removed,
}

/// Theme: colours for the tones. A sign or a word beside a colour always has the same meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Colours of the terminal, on a dark ground.
    #[default]
    Dark,
    /// Colours of the terminal, except those unreadable on a light background.
    Light,
    /// The sixteen basic colours, without backgrounds, for a terminal that has no more.
    Sixteen,
    /// Orange and blue instead of red and green, readable on dark and light backgrounds.
    ColourBlind,
    /// No colours.
    Mono,
    /// Colours of a palette file.
    Own(Palette),
}

impl Theme {
    /// Names of the themes, with descriptions.
    pub const NAMES: [(&str, &str); 5] = [
        ("auto", "dark or light, as the terminal says"),
        ("dark", "colours of the terminal, on a dark ground"),
        ("light", "colours that can be read on a light ground"),
        ("colour-blind", "orange and blue in the place of red and green"),
        ("mono", "no colours"),
    ];

    /// SGR code of a tone, after `ESC [`; `None` for the terminal's default colour.
    pub(super) fn code(self, tone: Tone) -> Option<Cow<'static, str>> {
        if let Self::Own(palette) = self {
            return palette.code(tone).map(Cow::Owned);
        }
        let code = match (self, tone) {
            (Self::Mono | Self::Own(_), _) | (_, Tone::Plain) => None,
            (Self::ColourBlind, Tone::Red) => Some("38;5;166"),
            (Self::ColourBlind, Tone::Green) => Some("38;5;33"),
            (Self::ColourBlind, Tone::Yellow) => Some("38;5;136"),
            (Self::ColourBlind, Tone::Cyan) => Some("38;5;30"),
            (Self::Light, Tone::Green) => Some("38;5;28"),
            (Self::Light, Tone::Yellow) => Some("38;5;130"),
            (Self::ColourBlind, Tone::Blue) => Some("38;5;98"),
            (Self::Light, Tone::Cyan) => Some("38;5;30"),
            (Self::Light, Tone::Blue) => Some("34"),
            (Self::Dark | Self::Sixteen | Self::Light, Tone::Red) => Some("31"),
            (Self::Dark | Self::Sixteen, Tone::Green) => Some("32"),
            (Self::Dark | Self::Sixteen, Tone::Yellow) => Some("33"),
            (Self::Dark | Self::Sixteen, Tone::Cyan) => Some("36"),
            (Self::Dark | Self::Sixteen, Tone::Blue) => Some("94"),
            (Self::Dark | Self::Sixteen | Self::Light | Self::ColourBlind, Tone::Magenta) => Some("35"),
        };
        code.map(Cow::Borrowed)
    }

    /// SGR code of a background with readable text, after `ESC [`; `None` if signs and text colour suffice.
    fn ground_code(self, ground: Ground) -> Option<&'static str> {
        match (self, ground) {
            (_, Ground::None) | (Self::Sixteen | Self::ColourBlind | Self::Mono, _) => None,
            (Self::Dark, Ground::Added) => Some("38;5;255;48;5;22"),
            (Self::Dark, Ground::Removed) => Some("38;5;255;48;5;52"),
            (Self::Light, Ground::Added) => Some("38;5;16;48;5;194"),
            (Self::Light, Ground::Removed) => Some("38;5;16;48;5;224"),
            (Self::Own(palette), ground) => palette.base().ground_code(ground),
        }
    }

    /// Whether the theme has backgrounds for rows.
    pub(crate) fn has_grounds(self) -> bool {
        self.ground_code(Ground::Added).is_some()
    }
}

/// Style of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Colour of the text.
    pub tone: Tone,
    /// Background of the text.
    pub ground: Ground,
    /// Bold text.
    pub bold: bool,
    /// Dim text.
    pub dim: bool,
    /// Italic text.
    pub italic: bool,
    /// Underlined text.
    pub underline: bool,
    /// Struck-through text.
    pub strike: bool,
}

impl Style {
    /// Default style of the terminal.
    pub const PLAIN: Self = Self {
        tone: Tone::Plain,
        ground: Ground::None,
        bold: false,
        dim: false,
        italic: false,
        underline: false,
        strike: false,
    };
    /// Bold text.
    pub const BOLD: Self = Self { bold: true, ..Self::PLAIN };
    /// Dim text.
    pub const DIM: Self = Self { dim: true, ..Self::PLAIN };
    /// Text in red.
    pub const RED: Self = Self { tone: Tone::Red, ..Self::PLAIN };
    /// Text in green.
    pub const GREEN: Self = Self { tone: Tone::Green, ..Self::PLAIN };
    /// Text in yellow.
    pub const YELLOW: Self = Self { tone: Tone::Yellow, ..Self::PLAIN };
    /// Text in cyan.
    pub const CYAN: Self = Self { tone: Tone::Cyan, ..Self::PLAIN };
    /// Text in blue.
    pub const BLUE: Self = Self { tone: Tone::Blue, ..Self::PLAIN };

    /// The sequence that turns this style on, after a reset.
    #[must_use]
    pub fn sequence(self, theme: Theme) -> String {
        let mut out = String::new();
        self.begin(theme, &mut out);
        out
    }

    /// Appends the sequence that turns this style on, after a reset. Without colours only weight, slant and lines.
    pub(crate) fn begin(self, theme: Theme, out: &mut String) {
        let tone = theme.ground_code(self.ground).map(Cow::Borrowed).or_else(|| theme.code(self.tone));
        let flags = [
            (self.bold, "1"),
            (self.dim, "2"),
            (self.italic, "3"),
            (self.underline, "4"),
            (self.strike, "9"),
        ];
        let flags = flags.into_iter().filter_map(|(is_on, code)| is_on.then_some(code));
        let codes = flags.chain(tone.as_deref());
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

    fn begin_sequence(theme: Theme, style: Style) -> String {
        let mut out = String::new();
        style.begin(theme, &mut out);
        out
    }

    #[test]
    fn a_theme_has_colours_and_mono_only_weight_and_lines() {
        let style = Style { bold: true, ..Style::RED };
        assert_eq!(begin_sequence(Theme::Dark, style), "\u{1b}[1;31m");
        assert_eq!(begin_sequence(Theme::ColourBlind, style), "\u{1b}[1;38;5;166m");
        assert_eq!(begin_sequence(Theme::Mono, style), "\u{1b}[1m");
        assert_ne!(
            begin_sequence(Theme::ColourBlind, Style::RED),
            begin_sequence(Theme::ColourBlind, Style::GREEN)
        );
        assert_ne!(begin_sequence(Theme::Light, Style::YELLOW), begin_sequence(Theme::Dark, Style::YELLOW));
    }
    /// RGB value of an SGR colour code, in xterm's palette.
    fn rgb_of(code: &str) -> [u8; 3] {
        match code {
            "31" => [205, 0, 0],
            "32" => [0, 205, 0],
            "33" => [205, 205, 0],
            "34" => [0, 0, 238],
            "35" => [205, 0, 205],
            "36" => [0, 205, 205],
            "94" => [92, 92, 255],
            code => {
                let number: u8 = code.strip_prefix("38;5;").unwrap().parse().unwrap();
                if let Some(grey) = number.checked_sub(232) {
                    return [8 + 10 * grey; 3];
                }
                let level = |of: u8| if of == 0 { 0 } else { 55 + 40 * of };
                let cube = number.checked_sub(16).filter(|cube| *cube < 216).unwrap();
                [level(cube / 36), level(cube / 6 % 6), level(cube % 6)]
            }
        }
    }

    /// Relative luminance of a colour, as WCAG 2 defines it.
    fn luminance(colour: [u8; 3]) -> f64 {
        let [red, green, blue] = colour.map(|part| {
            let part = f64::from(part) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        one.max(other) / one.min(other)
    }

    #[test]
    fn each_colour_of_a_theme_can_be_read_on_its_ground_and_told_from_the_others() {
        const DARK: [u8; 3] = [0; 3];
        const LIGHT: [u8; 3] = [255; 3];
        let tones = [Tone::Red, Tone::Green, Tone::Yellow, Tone::Cyan, Tone::Blue, Tone::Magenta];
        let grounds: [(Theme, &[[u8; 3]]); 4] = [
            (Theme::Dark, &[DARK]),
            (Theme::Sixteen, &[DARK]),
            (Theme::Light, &[LIGHT]),
            (Theme::ColourBlind, &[DARK, LIGHT]),
        ];
        for (theme, grounds) in grounds {
            let codes = tones.map(|tone| theme.code(tone).unwrap());
            for (code, ground) in
                codes.iter().flat_map(|code| grounds.iter().map(move |ground| (code, ground)))
            {
                let contrast = contrast(rgb_of(code), *ground);
                assert!(contrast >= 3.0, "{theme:?}: {code} on {ground:?} has {contrast:.2}");
            }
            for (at, code) in codes.iter().enumerate() {
                assert!(!codes[..at].contains(code), "{theme:?}: {code} stands for two tones");
            }
            // The colour of plain text on a background is the terminal's.
            assert_eq!(theme.code(Tone::Plain), None);
        }
        assert!(tones.iter().all(|tone| Theme::Mono.code(*tone).is_none()));
    }

    #[test]
    fn text_on_a_ground_can_be_read_and_themes_of_few_colours_have_no_grounds() {
        for (theme, ground) in [Theme::Dark, Theme::Light]
            .iter()
            .flat_map(|theme| [Ground::Added, Ground::Removed].map(|ground| (theme, ground)))
        {
            let code = theme.ground_code(ground).unwrap();
            let (text, ground) = code.split_once(";48;5;").unwrap();
            let contrast = contrast(rgb_of(text), rgb_of(&format!("38;5;{ground}")));
            assert!(contrast >= 4.5, "{theme:?}: {code} has {contrast:.2}");
        }
        for theme in [Theme::Sixteen, Theme::ColourBlind, Theme::Mono] {
            let added = Style { ground: Ground::Added, ..Style::GREEN };
            assert_eq!(begin_sequence(theme, added), begin_sequence(theme, Style::GREEN), "{theme:?}");
        }
    }
}
