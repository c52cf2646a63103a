//! YAML parser for frontmatters that keeps every scalar as text, so that `version: 1.10` stays `1.10`.

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::Value;

/// Maximum number of nodes of a document with resolved aliases.
const MAX_NODES: usize = 10_000;

/// Maximum number of levels of nesting.
const MAX_DEPTH: usize = 64;

/// Node of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Text(String),
    List(Vec<Node>),
    /// Entries in the order of the document; keys may repeat.
    Map(Vec<(String, Node)>),
}

impl Node {
    /// Whether the node equals a JSON value, with scalars compared as text.
    pub(super) fn equals_json(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Text(text), Value::String(value)) => text == value,
            (Self::Text(text), Value::Null) => matches!(text.as_str(), "" | "~" | "null"),
            (Self::Text(text), Value::Bool(value)) => text == if *value { "true" } else { "false" },
            (Self::Text(text), Value::Number(value)) => {
                *text == value.to_string() || text.parse::<f64>().ok() == value.as_f64()
            }
            (Self::List(items), Value::Array(values)) => {
                items.len() == values.len()
                    && items.iter().zip(values).all(|(item, value)| item.equals_json(value))
            }
            (Self::Map(entries), Value::Object(fields)) => {
                entries.len() == fields.len()
                    && entries
                        .iter()
                        .all(|(key, node)| fields.get(key).is_some_and(|value| node.equals_json(value)))
            }
            (Self::Text(_) | Self::List(_) | Self::Map(_), _) => false,
        }
    }
}

/// Parsed document, with the parts that StrictYAML does not allow.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// `None` for an empty document.
    pub(super) root: Option<Node>,
    pub(super) not_strict: Vec<String>,
}

/// Unfinished list or map.
enum Open {
    List { anchor: usize, items: Vec<Node> },
    Map { anchor: usize, entries: Vec<(String, Node)>, key: Option<String> },
}

/// Parses one document.
///
/// # Errors
/// The syntax error, with its line.
pub(super) fn parse(text: &str) -> Result<Document, String> {
    let mut reader = Reader { text, ..Reader::default() };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| error.to_string())?;
        if matches!(event, Event::DocumentEnd) {
            break;
        }
        reader.event(event, span)?;
    }
    Ok(reader.document)
}

#[derive(Default)]
struct Reader<'a> {
    text: &'a str,
    document: Document,
    open: Vec<Open>,
    anchors: Vec<(usize, Node)>,
    nodes: usize,
}

impl Reader<'_> {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), String> {
        match event {
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
            Event::Alias(anchor) => {
                self.record_deviation("an alias", span);
                let node = self.anchors.iter().find(|(id, _)| *id == anchor).map(|(_, node)| node.clone());
                let node = node.ok_or_else(|| format!("line {}: an unknown alias", span.start.line()))?;
                self.count_nodes(node_count(&node))?;
                self.add(node)
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_anchor_and_tag(anchor, tag.is_some(), span);
                self.count_nodes(1)?;
                // Unquoted, `~` and the empty value are null.
                let is_nothing = style == ScalarStyle::Plain && text == "~";
                let node = Node::Text(if is_nothing { String::new() } else { text.into_owned() });
                self.store_anchor(anchor, &node);
                self.add(node)
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_anchor_and_tag(anchor, tag.is_some(), span);
                self.record_flow_style('[', "a list in brackets", span);
                self.open(Open::List { anchor, items: Vec::new() })
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_anchor_and_tag(anchor, tag.is_some(), span);
                self.record_flow_style('{', "a map in braces", span);
                self.open(Open::Map { anchor, entries: Vec::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let (anchor, node) = match self.open.pop() {
                    Some(Open::List { anchor, items }) => (anchor, Node::List(items)),
                    Some(Open::Map { anchor, entries, .. }) => (anchor, Node::Map(entries)),
                    None => return Ok(()),
                };
                self.store_anchor(anchor, &node);
                self.add(node)
            }
        }
    }

    fn open(&mut self, open: Open) -> Result<(), String> {
        self.count_nodes(1)?;
        if self.open.len() == MAX_DEPTH {
            return Err(format!("it nests deeper than {MAX_DEPTH} levels"));
        }
        self.open.push(open);
        Ok(())
    }

    fn add(&mut self, node: Node) -> Result<(), String> {
        match self.open.last_mut() {
            None => self.document.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { entries, key, .. }) => match key.take() {
                Some(name) => {
                    if entries.iter().any(|(other, _)| *other == name) {
                        self.document.not_strict.push(format!("the key `{name}` comes twice"));
                    }
                    entries.push((name, node));
                }
                None => match node {
                    Node::Text(name) => *key = Some(name),
                    Node::List(_) | Node::Map(_) => return Err("a key is a list or a map".to_owned()),
                },
            },
        }
        Ok(())
    }

    fn store_anchor(&mut self, anchor: usize, node: &Node) {
        if anchor != 0 {
            self.anchors.push((anchor, node.clone()));
        }
    }

    fn count_nodes(&mut self, nodes: usize) -> Result<(), String> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES { Err(format!("it has more than {MAX_NODES} values")) } else { Ok(()) }
    }

    fn refuse_anchor_and_tag(&mut self, anchor: usize, tagged: bool, span: Span) {
        if anchor != 0 {
            self.record_deviation("an anchor", span);
        }
        if tagged {
            self.record_deviation("a tag", span);
        }
    }

    fn record_flow_style(&mut self, sign: char, what: &str, span: Span) {
        if self.text.chars().nth(span.start.index()) == Some(sign) {
            self.record_deviation(what, span);
        }
    }

    fn record_deviation(&mut self, what: &str, span: Span) {
        self.document.not_strict.push(format!("line {}: {what}", span.start.line()));
    }
}

fn node_count(node: &Node) -> usize {
    match node {
        Node::Text(_) => 1,
        Node::List(items) => 1 + items.iter().map(node_count).sum::<usize>(),
        Node::Map(entries) => 1 + entries.iter().map(|(_, node)| node_count(node)).sum::<usize>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_stay_as_they_are_written_and_keys_keep_their_order() {
        let document = parse("b: 1.10\na: yes\nc: ~\nd: |\n  two\n  lines\n").unwrap();
        let text = |text: &str| Node::Text(text.to_owned());
        let wanted = vec![("b", "1.10"), ("a", "yes"), ("c", ""), ("d", "two\nlines\n")];
        let wanted = wanted.into_iter().map(|(key, value)| (key.to_owned(), text(value))).collect();
        assert_eq!(document.root, Some(Node::Map(wanted)));
        assert!(document.not_strict.is_empty());
    }

    #[test]
    fn what_strict_yaml_refuses_is_named_with_its_line() {
        let document = parse("a: [x]\nb: &here 1\nc: !!str 2\na: 3\n").unwrap();
        let wanted =
            ["line 1: a list in brackets", "line 2: an anchor", "line 3: a tag", "the key `a` comes twice"];
        assert_eq!(document.not_strict, wanted);
    }

    #[test]
    fn aliases_that_multiply_and_deep_nests_end_in_an_error() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..9 {
            let row = vec![format!("*a{}", n - 1); 10].join(", ");
            bomb.push_str(&format!("a{n}: &a{n} [{row}]\n"));
        }
        assert!(parse(&bomb).unwrap_err().contains("values"));
        assert!(parse(&format!("a: {}", "[".repeat(5000))).is_err());
    }
}
