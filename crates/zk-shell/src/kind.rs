use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::record::HINT_NONCE;
use crate::start::INSTANCE_VARIABLE;

/// Shell with a start script of zk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellKind {
    /// bash, from 4.4 on.
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
}

/// No shell with a start script has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no script for `{0}`; there are scripts for bash, zsh and fish")]
pub struct UnknownShell(pub String);

impl ShellKind {
    /// Finds the kind by the name of the program; `None` for other shells, which run without marks.
    #[must_use]
    pub fn of_program(program: &Path) -> Option<Self> {
        let name = program.file_name().and_then(OsStr::to_str)?;
        // A login shell may be named with a dash.
        name.trim_start_matches('-').parse().ok()
    }

    /// Script with the marks, for an instance with this nonce. A nonce is a word of letters and digits.
    ///
    /// ```
    /// let script = zk_shell::ShellKind::Bash.marks("4f2a");
    /// assert!(script.contains("__zk_nonce='4f2a'"));
    /// ```
    #[must_use]
    pub fn marks(self, nonce: &str) -> String {
        let is_word = |c: &char| c.is_ascii_alphanumeric();
        let nonce: String = nonce.chars().filter(is_word).collect();
        let lines = self.script().lines().filter(|line| !is_section_edge(line));
        let script: String = lines.flat_map(|line| [line, "\n"]).collect();
        script.replace("@NONCE@", &nonce).replace("@UNLESS@", "")
    }

    /// Script for the start file of a shell on a remote host, or in a container. Its marks are hints: everybody can
    /// write them. In a shell of zk itself it does nothing.
    ///
    /// ```
    /// assert!(zk_shell::ShellKind::Fish.hints().contains("ZK_SHELL"));
    /// ```
    #[must_use]
    pub fn hints(self) -> String {
        let mut is_local = false;
        let mut script = String::new();
        for line in self.script().lines() {
            is_local |= line.trim_start().starts_with("# @LOCAL");
            if !is_local {
                script.push_str(line);
                script.push('\n');
            }
            is_local &= line.trim_start() != "# @END";
        }
        let unless = match self {
            Self::Bash | Self::Zsh => format!(" && -z ${{{INSTANCE_VARIABLE}-}}"),
            Self::Fish => format!("; and not set -q {INSTANCE_VARIABLE}"),
        };
        script.replace("@NONCE@", HINT_NONCE).replace("@UNLESS@", &unless)
    }

    fn script(self) -> &'static str {
        match self {
            Self::Bash => include_str!("scripts/bash.sh"),
            Self::Zsh => include_str!("scripts/zsh.zsh"),
            Self::Fish => include_str!("scripts/fish.fish"),
        }
    }
}

/// Whether a line of a script begins or ends a section for local shells.
fn is_section_edge(line: &str) -> bool {
    ["# @LOCAL", "# @END"].contains(&line.trim())
}

impl FromStr for ShellKind {
    type Err = UnknownShell;

    fn from_str(name: &str) -> Result<Self, UnknownShell> {
        match name {
            "bash" => Ok(Self::Bash),
            "zsh" => Ok(Self::Zsh),
            "fish" => Ok(Self::Fish),
            _ => Err(UnknownShell(name.to_owned())),
        }
    }
}

impl fmt::Display for ShellKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_is_known_by_the_name_of_its_program() {
        for (program, kind) in [
            ("/bin/bash", Some(ShellKind::Bash)),
            ("zsh", Some(ShellKind::Zsh)),
            ("/usr/bin/fish", Some(ShellKind::Fish)),
            ("/bin/sh", None),
            ("/bin/bash5", None),
            ("/", None),
        ] {
            assert_eq!(ShellKind::of_program(Path::new(program)), kind, "{program}");
        }
        assert!("csh".parse::<ShellKind>().is_err());
    }

    #[test]
    fn a_nonce_cannot_leave_its_quotes() {
        assert!(ShellKind::Zsh.marks("a'; rm -rf /; '").contains("__zk_nonce='armrf'"));
    }
}
