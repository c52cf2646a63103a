use std::fmt;
use std::path::{Path, PathBuf};

use zk_core::service::{HostFileError, HostFiles, HostRead};

use super::style::{Theme, Tone};

/// Size limit of a palette's file, in bytes.
const MAX_FILE_BYTES: usize = 64 * 1024;

/// Palette: the person's own colours, by meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Palette {
    /// Theme for the meanings to which the palette gives no colour.
    base: &'static Theme,
    failure: Option<Colour>,
    success: Option<Colour>,
    warning: Option<Colour>,
    work: Option<Colour>,
    keyword: Option<Colour>,
}

/// Colour of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colour {
    /// The terminal's own colour.
    Plain,
    /// One of the sixteen basic colours.
    Basic(u8),
    /// One of 256 colours.
    Indexed(u8),
    Rgb(u8, u8, u8),
}

/// Names of the eight basic colours, in order; the prefix `bright-` names the other eight.
const BASIC: [&str; 8] = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/// Meanings to which a palette file gives colours, by name.
const ROLES: [&str; 5] = ["failure", "success", "warning", "work", "keyword"];

/// Themes that a palette file can build on, by name.
const BASES: [(&str, &Theme); 4] = [
    ("dark", &Theme::Dark),
    ("light", &Theme::Light),
    ("colour-blind", &Theme::ColourBlind),
    ("mono", &Theme::Mono),
];

/// Line of a palette file that is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaletteError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Explanation, with the key.
    pub why: String,
}

impl fmt::Display for PaletteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for PaletteError {}

/// Failure to read a palette from a file.
#[derive(Debug, thiserror::Error)]
pub enum PaletteFileError {
    /// There is no such file.
    #[error("there is no theme `{name}`: neither a built-in one nor {}", path.display())]
    Missing {
        /// Name of the file without its extension.
        name: String,
        /// Path of the file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        source: HostFileError,
    },
    /// A line of the file is invalid.
    #[error("{}: {source}", path.display())]
    Invalid {
        /// Path of the file.
        path: PathBuf,
        /// The invalid line.
        source: PaletteError,
    },
}

impl Palette {
    /// Reads a palette from a file that belongs to the person.
    ///
    /// # Errors
    /// [`PaletteFileError`] when the file is missing, cannot be read, or has an invalid line.
    pub fn read(files: &dyn HostFiles, path: &Path) -> Result<Self, PaletteFileError> {
        let path = path.to_owned();
        match files.read(&path, &HostRead::whole(MAX_FILE_BYTES).own_only()) {
            Ok(file) => Self::parse(&String::from_utf8_lossy(&file.bytes))
                .map_err(|source| PaletteFileError::Invalid { path, source }),
            Err(error) if error.is_missing() => {
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                Err(PaletteFileError::Missing { name, path })
            }
            Err(source) => Err(PaletteFileError::Unreadable { path, source }),
        }
    }

    /// Theme for all colours that the palette does not define.
    pub(super) fn base(&self) -> &'static Theme {
        self.base
    }

    /// Parses lines of `KEY = "COLOUR"`, as in TOML; `#` starts a comment, `base` names the base theme.
    ///
    /// ```
    /// use zk_tui::Palette;
    ///
    /// assert!(Palette::parse("base = \"light\"\nfailure = \"#cc2222\"\nwork = \"bright-blue\"\n").is_ok());
    /// let error = Palette::parse("failure = \"crimson\"\n").unwrap_err();
    /// assert!(error.to_string().starts_with("line 1: `failure` cannot be `crimson`"));
    /// ```
    ///
    /// # Errors
    /// [`PaletteError`] for the first invalid line.
    pub fn parse(text: &str) -> Result<Self, PaletteError> {
        let (failure, success, warning, work, keyword) = (None, None, None, None, None);
        let mut palette = Self { base: &Theme::Dark, failure, success, warning, work, keyword };
        let lines = text.trim_start_matches('\u{feff}').lines().zip(1..);
        for (text, line) in lines.map(|(text, line)| (text.trim(), line)) {
            if !text.is_empty() && !text.starts_with('#') {
                palette.read_line(text).map_err(|why| PaletteError { line, why })?;
            }
        }
        Ok(palette)
    }

    fn read_line(&mut self, line: &str) -> Result<(), String> {
        let not_a_line = || format!("`{}` is no `KEY = \"COLOUR\"`", shortened(line));
        let (key, value) = line.split_once('=').ok_or_else(not_a_line)?;
        let (key, value) = (key.trim(), value.trim());
        let (value, rest) =
            value.strip_prefix('"').and_then(|value| value.split_once('"')).ok_or_else(not_a_line)?;
        if !rest.trim().is_empty() && !rest.trim().starts_with('#') {
            return Err(not_a_line());
        }
        if key == "base" {
            let base = BASES.iter().find(|(name, _)| *name == value);
            let names = BASES.map(|(name, _)| name).join(", ");
            self.base = base.map(|(_, theme)| *theme).ok_or_else(|| format!("`base` is one of {names}"))?;
            return Ok(());
        }
        let place = match key {
            "failure" => &mut self.failure,
            "success" => &mut self.success,
            "warning" => &mut self.warning,
            "work" => &mut self.work,
            "keyword" => &mut self.keyword,
            _ => return Err(format!("there is no `{}`: use base, {}", shortened(key), ROLES.join(", "))),
        };
        *place = Some(Colour::parse(value).ok_or_else(|| {
            format!(
                "`{key}` cannot be `{}`: use \"#rrggbb\", a number up to 255, none, or a name such as red or bright-red",
                shortened(value)
            )
        })?);
        Ok(())
    }

    /// SGR code of a tone, after `ESC [`; `None` for the terminal's default colour.
    pub(super) fn code(&self, tone: Tone) -> Option<String> {
        let own = match tone {
            Tone::Plain => None,
            Tone::Red => self.failure,
            Tone::Green => self.success,
            Tone::Yellow => self.warning,
            Tone::Cyan | Tone::Blue => self.work,
            Tone::Magenta => self.keyword,
        };
        match own {
            Some(colour) => colour.code(),
            None => self.base.code(tone).map(Into::into),
        }
    }
}

impl Colour {
    fn parse(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self::Plain);
        }
        if let Some(hex) = text.strip_prefix('#') {
            let part = |range| u8::from_str_radix(hex.get(range)?, 16).ok();
            let is_hex = hex.len() == 6 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
            return is_hex.then_some(Self::Rgb(part(0..2)?, part(2..4)?, part(4..6)?));
        }
        if let Ok(number) = text.parse() {
            return Some(Self::Indexed(number));
        }
        let (name, bright) = text.strip_prefix("bright-").map_or((text, 0), |name| (name, 8));
        let number = BASIC.iter().position(|known| *known == name)?;
        Some(Self::Basic(u8::try_from(number).ok()? + bright))
    }

    fn code(self) -> Option<String> {
        Some(match self {
            Self::Plain => return None,
            Self::Basic(number @ ..8) => format!("3{number}"),
            Self::Basic(number) => format!("9{}", number - 8),
            Self::Indexed(number) => format!("38;5;{number}"),
            Self::Rgb(red, green, blue) => format!("38;2;{red};{green};{blue}"),
        })
    }
}

/// Beginning of a file's text, sanitised.
fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_colours_changes_the_meanings_that_it_names() {
        let text = "# mine\nbase = \"light\"\nfailure = \"#ff8000\" # orange\nsuccess = \"33\"\nwork = \"bright-blue\"\nwarning = \"none\"\n";
        let palette = Palette::parse(text).unwrap();
        let codes =
            [Tone::Red, Tone::Green, Tone::Cyan, Tone::Yellow, Tone::Magenta].map(|tone| palette.code(tone));
        assert_eq!(codes.map(Option::unwrap_or_default), ["38;2;255;128;0", "38;5;33", "94", "", "35"]);
        assert_eq!(palette.code(Tone::Plain), None);
    }

    #[test]
    fn garbage_in_a_file_of_colours_is_said_with_its_line_and_its_key() {
        for (text, said) in [
            ("success = \"green\"\nfailure = \"crimson\"", "line 2: `failure` cannot be `crimson`"),
            ("\u{1b}]0;x\u{7}", "line 1: `]0;x` is no `KEY = \"COLOUR\"`"),
            ("\n\nshine = \"red\"", "line 3: there is no `shine`: use base, failure"),
            ("base = \"solar\"", "line 1: `base` is one of dark, light"),
            ("failure = 3", "is no `KEY = \"COLOUR\"`"),
            ("failure = \"#12345é\"", "`failure` cannot be"),
            ("failure = \"256\"", "`failure` cannot be `256`"),
            ("failure = \"red\" x", "is no `KEY"),
        ] {
            let error = Palette::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text:?}: {error}");
            assert!(!error.contains('\u{1b}'), "{error:?}");
        }
    }
}
