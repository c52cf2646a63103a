use super::entities;

/// Elements whose content is not parsed as HTML.
const RAW: [&str; 5] = ["script", "style", "textarea", "title", "xmp"];

/// Maximum number of attributes of a tag that are read.
const MAX_ATTRIBUTES: usize = 64;

/// Token of HTML.
pub(super) enum Token<'a> {
    Text(&'a str),
    Start(Tag),
    /// End tag with this name.
    End(String),
    /// Element with raw content.
    Raw {
        name: String,
        text: &'a str,
    },
}

/// Start tag.
pub(super) struct Tag {
    pub(super) name: String,
    /// Whether the tag closes itself.
    pub(super) is_closed: bool,
    attributes: Vec<(String, String)>,
}

impl Tag {
    /// Value of an attribute; empty if it is missing.
    pub(super) fn value(&self, name: &str) -> &str {
        self.attributes.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// Programming language in the element's class.
    pub(super) fn language(&self) -> &str {
        let classes = self.value("class").split_ascii_whitespace();
        let mut named = classes
            .filter_map(|class| class.strip_prefix("language-").or_else(|| class.strip_prefix("lang-")));
        named
            .find(|name| {
                name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'+')
            })
            .unwrap_or("")
    }
}

/// Tokenizer.
pub(super) struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(html: &'a str) -> Self {
        Self { rest: html }
    }

    fn take(&mut self, end: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    /// Skips past `end`, or to the end of the page.
    fn skip_past(&mut self, end: &str) {
        let at = self.rest.find(end).map_or(self.rest.len(), |at| at + end.len());
        self.take(at);
    }

    /// Content of a raw element, without its end tag.
    fn raw(&mut self, name: &str) -> &'a str {
        let mut from = 0;
        while let Some(at) = self.rest.get(from..).and_then(|rest| rest.find("</")).map(|at| from + at) {
            let found = self.rest.get(at + 2..at + 2 + name.len());
            if found.is_some_and(|found| found.eq_ignore_ascii_case(name)) {
                let text = self.take(at);
                self.skip_past(">");
                return text;
            }
            from = at + 2;
        }
        self.take(self.rest.len())
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let Some(after) = self.rest.strip_prefix('<') else {
                let end = self.rest.find('<').unwrap_or(self.rest.len());
                return Some(Token::Text(self.take(end)));
            };
            if after.starts_with("!--") {
                self.take(4);
                self.skip_past("-->");
                continue;
            }
            if after.starts_with(['!', '?']) {
                self.skip_past(">");
                continue;
            }
            let (is_end, name_at) = if after.starts_with('/') { (true, 2) } else { (false, 1) };
            let begins = self
                .rest
                .get(name_at..)
                .is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()));
            if !begins {
                // A literal `<` in text.
                let end = after.find('<').map_or(self.rest.len(), |at| at + 1);
                return Some(Token::Text(self.take(end)));
            }
            let (tag, length) = tag(self.rest.get(name_at..).unwrap_or_default());
            self.take(name_at + length);
            if is_end {
                return Some(Token::End(tag.name));
            }
            if RAW.contains(&tag.name.as_str()) && !tag.is_closed {
                let text = self.raw(&tag.name);
                return Some(Token::Raw { name: tag.name, text });
            }
            return Some(Token::Start(tag));
        }
    }
}

/// Parses the tag whose name `text` begins with; returns its length up to the bracket.
fn tag(text: &str) -> (Tag, usize) {
    let end_of_name =
        text.find(|c: char| c.is_ascii_whitespace() || c == '>' || c == '/').unwrap_or(text.len());
    let name = text.get(..end_of_name).unwrap_or_default().to_ascii_lowercase();
    let mut tag = Tag { name, is_closed: false, attributes: Vec::new() };
    let mut at = end_of_name;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let skipped = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_whitespace()).len();
        at += skipped;
        let rest = text.get(at..).unwrap_or_default();
        if rest.is_empty() {
            return (tag, text.len());
        }
        if rest.starts_with('>') {
            return (tag, at + 1);
        }
        if rest.starts_with('/') {
            tag.is_closed = rest.starts_with("/>");
            at += 1;
            continue;
        }
        at += attribute(rest, &mut tag);
    }
}

/// Parses one attribute; returns its length, at least one byte.
fn attribute(text: &str, tag: &mut Tag) -> usize {
    let ends = |c: char| c.is_ascii_whitespace() || matches!(c, '>' | '/' | '=');
    // A leading `=` belongs to the name.
    let first = text.chars().next().map_or(1, char::len_utf8);
    let end = text.get(first..).and_then(|rest| rest.find(ends)).map_or(text.len(), |at| at + first);
    let name = text.get(..end).unwrap_or_default().to_ascii_lowercase();
    let rest = text.get(end..).unwrap_or_default();
    let spaces = rest.len() - rest.trim_start().len();
    let Some(value) = rest.trim_start().strip_prefix('=') else {
        keep_attribute(tag, name, "");
        return end;
    };
    let mut at = end + spaces + 1;
    let spaces = value.len() - value.trim_start().len();
    at += spaces;
    let value = value.trim_start();
    let (value, length) = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let inside = value.get(1..).unwrap_or_default();
            let end = inside.find(quote);
            (
                inside.get(..end.unwrap_or(inside.len())).unwrap_or_default(),
                end.map_or(value.len(), |end| end + 2),
            )
        }
        Some(_) | None => {
            let end = value.find(|c: char| c.is_ascii_whitespace() || c == '>').unwrap_or(value.len());
            (value.get(..end).unwrap_or_default(), end)
        }
    };
    keep_attribute(tag, name, value);
    at + length
}

fn keep_attribute(tag: &mut Tag, name: String, value: &str) {
    let is_wanted = matches!(name.as_str(), "href" | "src" | "alt" | "class");
    if is_wanted && tag.attributes.len() < MAX_ATTRIBUTES && tag.value(&name).is_empty() {
        tag.attributes.push((name, entities::decode(value).into_owned()));
    }
}
