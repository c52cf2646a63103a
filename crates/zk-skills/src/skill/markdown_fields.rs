//! Lenient parser for other Markdown files with a frontmatter.

use std::collections::BTreeMap;

use crate::skill::frontmatter;
use crate::skill::tool_patterns::tools_called;
use crate::skill::yaml_fields;

/// Fields of a Markdown file's frontmatter, and the text after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkdownFields<'a> {
    /// Texts and lists of texts by name; a text is a list of one. Maps are left out.
    pub fields: BTreeMap<String, Vec<String>>,
    /// Text after the frontmatter.
    pub body: &'a str,
}

impl<'a> MarkdownFields<'a> {
    /// Parses a file; `None` without a frontmatter.
    ///
    /// ```
    /// use zk_skills::MarkdownFields;
    ///
    /// let file = MarkdownFields::read("---\nname: reviewer\ntools: Read, Grep\n---\nReview.").unwrap();
    /// assert_eq!((file.text("name"), file.body), (Some("reviewer"), "Review."));
    /// assert_eq!(file.words("tools"), ["Read", "Grep"]);
    /// ```
    #[must_use]
    pub fn read(text: &'a str) -> Option<Self> {
        let parts = frontmatter::split(text)?;
        Some(Self { fields: yaml_fields(parts.yaml), body: parts.body })
    }

    /// Field with a single text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.first().map(|text| text.trim()).filter(|text| !text.is_empty())
    }

    /// Field with a list, or a text separated by commas.
    #[must_use]
    pub fn words(&self, name: &str) -> Vec<String> {
        let items = self.fields.get(name).into_iter().flatten();
        let words = items.flat_map(|item| item.split(','));
        words.map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
    }
}

/// zk's tools for a tool name of another program: `Read` is `read_file`; zk's own names stay. Empty for a
/// name with a pattern, such as `Bash(git:*)`, which means only part of a tool.
#[must_use]
pub fn tool_names(name: &str) -> Vec<String> {
    if name.contains('(') { Vec::new() } else { tools_called(name.trim()) }
}
