use std::fmt;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use regex_lite::Regex;
use zk_core::service::foreign_server_names;

use super::names::{Vocabulary, claude_name};

/// Pattern for the tools, or for the kinds of an event, to which a hook applies.
///
/// An absent pattern, an empty one and `*` match everything. Names separated by `|` match exactly; a pattern
/// with other characters is a regular expression that is searched anywhere.
#[derive(Clone, Debug)]
pub struct Matcher {
    text: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    All,
    Names(Vec<String>),
    Regex(Regex),
    Globs(GlobSet),
}

impl Matcher {
    /// Parses a pattern.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '|' | ' ');
        let kind = if matches!(text, "" | "*") {
            Kind::All
        } else if text.chars().all(is_name) {
            Kind::Names(text.split('|').map(|name| name.trim().to_owned()).collect())
        } else {
            Kind::Regex(Regex::new(text).map_err(|error| error.to_string())?)
        };
        Ok(Self { text: text.to_owned(), kind })
    }

    /// Parses patterns for files, separated by `|`: one with a slash is matched with the path below the project,
    /// one without with the file's name. Nothing and `*` match every file.
    pub(super) fn parse_globs(text: &str) -> Result<Self, String> {
        let mut globs = GlobSetBuilder::new();
        let mut count = 0;
        for pattern in text.split('|').map(str::trim).filter(|pattern| !pattern.is_empty()) {
            globs.add(glob(pattern)?);
            count += 1;
        }
        let kind = if count == 0 || text.trim() == "*" {
            Kind::All
        } else {
            Kind::Globs(globs.build().map_err(|error| error.to_string())?)
        };
        Ok(Self { text: text.to_owned(), kind })
    }

    /// Whether the pattern matches a word.
    #[must_use]
    pub fn is_match(&self, word: &str) -> bool {
        match &self.kind {
            Kind::All => true,
            Kind::Names(names) => names.iter().any(|name| name == word),
            Kind::Regex(regex) => regex.is_match(word),
            Kind::Globs(globs) => globs.is_match(word),
        }
    }

    /// Whether the pattern matches a tool of zk, and in which vocabulary.
    #[must_use]
    pub fn tool(&self, tool: &str) -> Option<Vocabulary> {
        if self.is_match(tool) || foreign_server_names(tool).any(|name| self.is_match(&name)) {
            Some(Vocabulary::Zk)
        } else if claude_name(tool).is_some_and(|name| self.is_match(name)) {
            Some(Vocabulary::Claude)
        } else {
            None
        }
    }
}

/// Glob over the path of a file below the project.
fn glob(pattern: &str) -> Result<Glob, String> {
    let everywhere = if pattern.contains('/') { String::new() } else { "**/".to_owned() };
    let whole = format!("{everywhere}{}", pattern.trim_start_matches("./").trim_start_matches('/'));
    let glob = GlobBuilder::new(&whole).literal_separator(true).build();
    glob.map_err(|error| format!("`{pattern}`: {}", error.kind()))
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.text.is_empty() { "*" } else { &self.text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_without_a_slash_match_names_and_others_paths_below_the_project() {
        for (globs, path, is_match) in [
            ("", "src/a.rs", true),
            ("*", ".envrc", true),
            (".envrc|.env", ".envrc", true),
            (".envrc|.env", "sub/.env", true),
            (".env", "src/.envrc", false),
            ("*.rs", "src/deep/a.rs", true),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/deep/a.rs", false),
            ("./src/**/*.{rs,toml}", "src/deep/a.toml", true),
            ("/Cargo.toml", "Cargo.toml", true),
            ("/Cargo.toml", "sub/Cargo.toml", false),
        ] {
            assert_eq!(Matcher::parse_globs(globs).unwrap().is_match(path), is_match, "{globs} {path}");
        }
        let error = Matcher::parse_globs("ok|[a").unwrap_err();
        assert!(error.contains("`[a`"), "{error}");
    }

    #[test]
    fn a_tool_is_matched_by_either_name_and_never_by_a_part_of_one() {
        use Vocabulary::{Claude, Zk};
        for (matcher, tool, expected) in [
            ("", "shell", Some(Zk)),
            ("*", "fetch", Some(Zk)),
            ("shell", "shell", Some(Zk)),
            ("Bash", "shell", Some(Claude)),
            ("Edit|Write", "write_file", Some(Claude)),
            ("write_file | edit", "edit", Some(Zk)),
            ("shel", "shell", None),
            ("bash", "shell", None),
            ("mcp__.*", "mcp_github_push", Some(Zk)),
            ("mcp__github__push|Bash", "mcp_github_push", Some(Zk)),
            ("mcp__git__.*", "mcp_github_push", None),
            ("^(Write|Edit)$", "edit", Some(Claude)),
            ("mcp__.*", "shell", None),
        ] {
            let matcher = Matcher::parse(matcher).unwrap();
            assert_eq!(matcher.tool(tool), expected, "{matcher} {tool}");
        }
        assert!(Matcher::parse("mcp__(").is_err());
    }
}
