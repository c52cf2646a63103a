//! Markdown files of other kinds with a frontmatter, read as leniently as skills.

use std::collections::BTreeMap;

use crate::skill::frontmatter;
use crate::skill::tool_patterns::tools_called;
use crate::skill::yaml_fields;

/// The fields of a Markdown file's frontmatter and the text behind it; nothing where it has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkdownFields<'a> {
    /// Texts, each alone, and lists of texts. Maps are left out.
    pub fields: BTreeMap<String, Vec<String>>,
    /// Text behind the frontmatter.
    pub body: &'a str,
}

impl<'a> MarkdownFields<'a> {
    /// Reads a file.
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

    /// A field that is one text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.first().map(|text| text.trim()).filter(|text| !text.is_empty())
    }

    /// A field that is a list, or texts with commas between.
    #[must_use]
    pub fn words(&self, name: &str) -> Vec<String> {
        let items = self.fields.get(name).into_iter().flatten();
        let words = items.flat_map(|item| item.split(','));
        words.map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
    }
}

/// The tools of zk that other programs call `name`: `Read` is `read_file`; a name of zk's is itself. Nothing for a name
/// with a pattern behind it, such as `Bash(git:*)`, which is less than the tool.
#[must_use]
pub fn tool_names(name: &str) -> Vec<String> {
    if name.contains('(') { Vec::new() } else { tools_called(name.trim()) }
}
