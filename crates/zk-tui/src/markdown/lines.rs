/// Kind of block that a line begins if no block is open.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Starts {
    Text,
    Heading,
    Rule,
    Quote,
    Indented,
    Fence(Fence),
    Item {
        number: Option<u64>,
        /// Whether the item has no content.
        is_empty: bool,
    },
}

impl Starts {
    /// Whether such a line ends a paragraph without a blank line.
    pub(super) fn interrupts_paragraph(&self) -> bool {
        match self {
            Self::Text | Self::Indented => false,
            Self::Heading | Self::Rule | Self::Quote | Self::Fence(_) => true,
            Self::Item { number, is_empty } => !is_empty && number.is_none_or(|number| number == 1),
        }
    }
}

/// Opening line of a fenced code block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fence {
    mark: char,
    count: usize,
    indent: usize,
}

impl Fence {
    pub(super) fn of(line: &str) -> Option<Self> {
        let indent = indent_of(line);
        let text = line.trim_start();
        let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let count = text.chars().take_while(|c| *c == mark).count();
        let info = text.trim_start_matches(mark);
        let is_inline = mark == '`' && info.contains('`');
        (indent < 4 && count >= 3 && !is_inline).then_some(Self { mark, count, indent })
    }

    /// Info string of a fence's first line.
    pub(super) fn info<'a>(&self, line: &'a str) -> &'a str {
        line.trim().trim_start_matches(self.mark).trim()
    }

    pub(super) fn is_closed_by(&self, line: &str) -> bool {
        let text = line.trim();
        indent_of(line) < 4 && text.chars().count() >= self.count && text.chars().all(|c| c == self.mark)
    }

    /// Line of code without the fence's indentation and without its line end.
    pub(super) fn strip(&self, line: &str) -> String {
        let line = line.trim_end_matches(['\n', '\r']);
        let blanks = line.chars().take(self.indent).take_while(|c| *c == ' ').count();
        line.chars().skip(blanks).collect()
    }
}

/// Number of columns of white space before a line's text.
pub(super) fn indent_of(line: &str) -> usize {
    let mut columns = 0;
    for c in line.chars() {
        match c {
            ' ' => columns += 1,
            '\t' => columns += 4 - columns % 4,
            _ => break,
        }
    }
    columns
}

/// Kind of block that a non-blank line starts.
pub(super) fn block_start(line: &str) -> Starts {
    if indent_of(line) >= 4 {
        return Starts::Indented;
    }
    if let Some(fence) = Fence::of(line) {
        return Starts::Fence(fence);
    }
    let text = line.trim();
    if is_rule(text) {
        return Starts::Rule;
    }
    let level = text.chars().take_while(|c| *c == '#').count();
    if (1..=6).contains(&level) && text.trim_start_matches('#').starts_with([' ', '\t']) {
        return Starts::Heading;
    }
    if text.starts_with('>') {
        return Starts::Quote;
    }
    parse_item(text).unwrap_or(Starts::Text)
}

fn parse_item(text: &str) -> Option<Starts> {
    let is_end = |rest: &str| rest.is_empty() || rest.starts_with([' ', '\t']);
    if let Some(rest) = text.strip_prefix(['-', '*', '+']) {
        return is_end(rest).then(|| Starts::Item { number: None, is_empty: rest.trim().is_empty() });
    }
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(digits).filter(|_| (1..=9).contains(&digits))?;
    let rest = rest.strip_prefix(['.', ')'])?;
    let number = number.parse().ok()?;
    is_end(rest).then(|| Starts::Item { number: Some(number), is_empty: rest.trim().is_empty() })
}

fn is_rule(text: &str) -> bool {
    let marks: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    marks.len() >= 3 && ["-", "*", "_"].iter().any(|mark| marks.replace(mark, "").is_empty())
}

/// Whether a line turns the paragraph above into a heading.
pub(super) fn underlines_heading(line: &str) -> bool {
    let text = line.trim();
    indent_of(line) < 4 && !text.is_empty() && ["=", "-"].iter().any(|mark| text.replace(mark, "").is_empty())
}

/// Whether a paragraph begins a table, whose second line separates the head from the rows.
pub(super) fn is_table(source: &str) -> bool {
    let mut lines = source.lines();
    let (Some(head), Some(divider)) = (lines.next(), lines.next()) else { return false };
    head.contains('|')
        && divider.contains('-')
        && divider.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ' | '\t'))
}
