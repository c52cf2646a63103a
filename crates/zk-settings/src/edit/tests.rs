use std::ops::Range;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;

/// Variable with the number of generated documents.
const CASES_VARIABLE: &str = "ZK_SETTINGS_EDITS";
/// Generated documents of a plain run.
const DEFAULT_CASES: u32 = 100;

#[test]
fn a_value_is_replaced_or_added_and_everything_else_stays() {
    for (text, table, expected) in [
        ("", &[][..], "model = \"new\"\n"),
        ("model = \"old\" # why\n", &[], "model = \"new\" # why\n"),
        ("theme = \"dark\"\n[a]\nmodel = 1\n", &[], "theme = \"dark\"\nmodel = \"new\"\n[a]\nmodel = 1\n"),
        ("# mine\n\n[a]\nx = 1\n", &[], "# mine\n\nmodel = \"new\"\n\n[a]\nx = 1\n"),
        ("# of a\n[a]\nx = 1\n", &[], "model = \"new\"\n\n# of a\n[a]\nx = 1\n"),
        ("# mine", &[], "# mine\n\nmodel = \"new\"\n"),
        ("[a]\nmodel = \"old\"\n\n[b]\n", &["a"], "[a]\nmodel = \"new\"\n\n[b]\n"),
        ("[a] # of a\n\n[b]\n", &["a"], "[a] # of a\nmodel = \"new\"\n\n[b]\n"),
        ("[a]\n  x = 1\n# end", &["a"], "[a]\n  x = 1\n  model = \"new\"\n# end"),
        ("x = 1\n", &["a", "b"], "x = 1\n\n[a.b]\nmodel = \"new\"\n"),
        ("x = 1\r\n\r\n[a]\r\ny = 2", &["a"], "x = 1\r\n\r\n[a]\r\ny = 2\r\nmodel = \"new\"\r\n"),
        ("[a.\"b\"]\ny = 2\n", &["a", "b"], "[a.\"b\"]\ny = 2\nmodel = \"new\"\n"),
        ("[a.b]\ny = 2\n", &["a"], "[a.b]\ny = 2\n\n[a]\nmodel = \"new\"\n"),
        ("a = { model = 1 }\n", &["a"], "a = { model = \"new\" }\n"),
        ("a = { x = 1, }\n", &["a"], "a = { x = 1, model = \"new\", }\n"),
        ("a = {}\n", &["a"], "a = { model = \"new\" }\n"),
        ("a.model = 1\n", &["a"], "a.model = \"new\"\n"),
        ("a.x = 1\nb = 2\n", &["a"], "a.x = 1\na.model = \"new\"\nb = 2\n"),
        ("[t]\na.x = 1\nb = 2\n", &["t", "a", "c"], "[t]\na.x = 1\na.c.model = \"new\"\nb = 2\n"),
        ("[model]\nx = 1\n[model.y]\n[b]\n", &[], "model = \"new\"\n\n[b]\n"),
        ("x = nan\n", &[], "x = nan\nmodel = \"new\"\n"),
    ] {
        assert_eq!(with_value(text, table, "model", "new").unwrap(), expected, "{text}");
    }
    assert_eq!(
        with_value("", &["providers", "llama.cpp"], "model", "m").unwrap(),
        "[providers.\"llama.cpp\"]\nmodel = \"m\"\n"
    );
}

#[test]
fn a_key_goes_with_its_own_comment_and_every_other_line_stays() {
    for (text, table, expected) in [
        ("# my settings\n\nmodel = \"a\"\nx = 1\n", &[][..], "# my settings\n\nx = 1\n"),
        ("# my settings\nmodel = \"a\"\nx = 1\n", &[], "# my settings\nx = 1\n"),
        ("# file\n\n# kept\n\n# of it\nmodel = 1 # end\nx = 1\n", &[], "# file\n\n# kept\n\nx = 1\n"),
        ("x = \"\"\"\n# text\"\"\"\nmodel = 1\n", &[], "x = \"\"\"\n# text\"\"\"\n"),
        ("model = [\n  1, # one\n]\r\n# x\r\nx = 1\r\n", &[], "# x\r\nx = 1\r\n"),
        ("x = 1\nmodel = 1", &[], "x = 1\n"),
        ("[a]\n# of a\n\nmodel = 1\n# of b\n[b]\n", &["a"], "[a]\n# of a\n\n# of b\n[b]\n"),
        ("a.model = 1\nb = 2\n", &["a"], "b = 2\n"),
        ("a = { model = 1 }\n", &["a"], "a = {}\n"),
        ("a = { model = 1, x = 2 }\n", &["a"], "a = { x = 2 }\n"),
        ("a = { x = 2, model = 1 } # end\n", &["a"], "a = { x = 2 } # end\n"),
        ("a = { x = 2, model.y = 1 }\n", &["a", "model"], "a = { x = 2 }\n"),
        ("x = 1\n\n# m\n[model]\n# in\ny = 1\n# b\n[b]\n[model.z]\nq = 1\n", &[], "x = 1\n\n# b\n[b]\n"),
        ("[[model]]\nx = 1\n[[model]]\n\n[b]\n", &[], "\n[b]\n"),
    ] {
        let key = if table == ["a", "model"] { "y" } else { "model" };
        assert_eq!(without_value(text, table, key).unwrap(), (expected.to_owned(), true), "{text}");
    }
    assert_eq!(without_value("x = 1\n", &["a"], "model").unwrap(), ("x = 1\n".to_owned(), false));
}

#[test]
fn a_text_that_cannot_be_changed_is_left_alone() {
    for text in ["not toml", "a = 1\n", "[[a]]\nx = 1\n"] {
        assert!(with_value(text, &["a"], "model", "new").is_err(), "{text}");
    }
}

#[test]
fn a_former_key_gets_its_present_name_in_its_place() {
    for (text, table, expected) in [
        ("# of old\n  old = 1 # end\nx = 2\n", &[][..], "# of old\n  new = 1 # end\nx = 2\n"),
        ("[t]\nold = [\n 1, # one\n]\n", &["t"], "[t]\nnew = [\n 1, # one\n]\n"),
        ("t.old = 1\n", &["t"], "t.new = 1\n"),
        ("t = { x = 1, \"old\" = 2 }\n", &["t"], "t = { x = 1, new = 2 }\n"),
        ("old = 1\nnew = 2\n", &[], "new = 2\n"),
        ("x = 1\n", &["t"], "x = 1\n"),
    ] {
        let (former, present) = ([table, &["old"]].concat(), [table, &["new"]].concat());
        assert_eq!(renamed_key(text, &former, &present).unwrap(), expected, "{text}");
    }
    assert!(renamed_key("old = 1\n", &["old"], &["t", "new"]).is_err());
}

/// Tables that steps change.
const TABLES: [&[&str]; 6] = [&[], &["t"], &["t", "u"], &["v"], &["q.k"], &["list"]];
/// Keys that steps change, and that documents have.
const KEYS: [&str; 3] = ["a", "b", "c d"];
/// Values of documents, with everything that looks like a comment, a key or a header and is none.
const VALUES: [&str; 13] = [
    "1",
    "-2.5e3",
    "nan",
    "true",
    "1979-05-27T07:32:00Z",
    "\"# no comment [t] = \\\" , }\"",
    "'literal # [x]'",
    "\"\"\"\n# no comment\n[t]\na = 1\n# none either\"\"\"",
    "'''\n[v]\n# raw'''",
    "[1, 2, 3]",
    "[\n  \"x\", # in a list\n\n  # alone in a list\n  \"y\",\n]",
    "{ z = 1, y = { x = \"}\" }, w.v = 2 }",
    "[{ z = 1 }, { z = 2 }]",
];

/// Writer of a TOML document with unique keys.
struct Writer<'a> {
    text: String,
    choices: std::iter::Cycle<std::slice::Iter<'a, u8>>,
    comments: usize,
}

impl Writer<'_> {
    fn choose(&mut self, of: u8) -> u8 {
        self.choices.next().map_or(0, |choice| choice % of)
    }

    fn comment(&mut self, kind: &str) -> String {
        self.comments += 1;
        format!("# {kind} {}", self.comments)
    }

    /// Writes lines of comments and blank lines.
    fn between(&mut self) {
        for _ in 0..self.choose(4) {
            let line = match self.choose(3) {
                0 => self.comment("note"),
                1 => String::new(),
                _ => format!("  {}", self.comment("indented")),
            };
            self.text += &format!("{line}\n");
        }
    }

    fn line(&mut self, line: &str) {
        self.between();
        let indent = ["", "", "  ", "\t"][usize::from(self.choose(4))];
        let end = match self.choose(3) {
            0 => format!(" {}", self.comment("beside")),
            _ => String::new(),
        };
        self.text += &format!("{indent}{line}{end}\n");
    }

    fn value(&mut self) -> &'static str {
        VALUES[usize::from(self.choose(VALUES.len() as u8))]
    }

    fn keys(&mut self, prefix: &str) {
        for key in KEYS {
            if self.choose(2) == 0 {
                let (key, value) = (toml_edit::Key::new(key).to_string(), self.value());
                self.line(&format!("{prefix}{key} = {value}"));
            }
        }
    }

    fn section(&mut self, header: &str) {
        self.line(header);
        self.keys("");
    }

    /// Writes the tables `t` and `t.u` in one of their notations.
    fn tables(&mut self, notation: u8) {
        match notation {
            0 => self.section("[t]"),
            1 => self.section("[ t . u ]"),
            2 => ["[t]", "[t.u]"].map(|header| self.section(header)).into_iter().collect(),
            3 => ["[t.u]", "[v]", "[t]"].map(|header| self.section(header)).into_iter().collect(),
            4 => {
                self.section("[t]");
                self.keys("u.");
            }
            _ => {}
        }
    }

    fn document(mut self) -> String {
        if self.choose(8) == 0 {
            self.text.push('\u{feff}');
        }
        self.keys("");
        match self.choose(4) {
            0 => {
                self.keys("t.");
                self.keys("\"t\" . u.");
            }
            1 => {
                let (one, two) = (self.value(), self.value());
                let braces = [
                    format!("{{ a = {one}, u = {{ b = {two} }} }}"),
                    format!("{{ a = {one}, u.b = {two}, u.a = 1, }}"),
                    format!("{{\n  a = {one}, # inside\n  b = {two}\n}}"),
                    "{ }".to_owned(),
                ];
                let braces = &braces[usize::from(self.choose(4))];
                self.line(&format!("t = {braces}"));
            }
            _ => {
                let notation = self.choose(6);
                self.tables(notation);
                if notation != 3 && self.choose(2) == 0 {
                    self.section("[v] ");
                }
            }
        }
        for header in ["[\"q.k\"]", "[[list]]", "[[list]]", "[other.deep]"] {
            if self.choose(2) == 0 {
                self.section(header);
            }
        }
        self.between();
        match self.choose(6) {
            0 => self.text.replace('\n', "\r\n"),
            1 => self.text.trim_end().to_owned(),
            _ => self.text,
        }
    }
}

/// Lines that differ between two texts: those that are gone, and those that came.
fn differences<'a>(before: &'a str, after: &'a str) -> (usize, Vec<&'a str>, Vec<&'a str>) {
    // The mark at the beginning is of the file, not of its first line.
    let lines = |text: &'a str| text.trim_start_matches('\u{feff}').lines().collect::<Vec<&str>>();
    assert_eq!(before.starts_with('\u{feff}'), after.starts_with('\u{feff}'));
    let (before, after) = (lines(before), lines(after));
    let first = before.iter().zip(&after).take_while(|(one, other)| one == other).count();
    let (before, after) = (&before[first..], &after[first..]);
    let last = before.iter().rev().zip(after.iter().rev()).take_while(|(one, other)| one == other).count();
    (first, before[..before.len() - last].to_vec(), after[..after.len() - last].to_vec())
}

/// Checks that lines which came or went are of one key: its assignment, comments, and a header at most.
fn assert_of_key(lines: &[&str], key: &str, text: &str) {
    let written = toml_edit::Key::new(key).to_string();
    let is_of_key = lines.iter().any(|line| line.contains(&written) || line.contains(key));
    assert!(is_of_key || lines.is_empty(), "{lines:?} in\n{text}");
    let table: Table = lines.join("\n").parse().unwrap_or_else(|why| panic!("{why}: {lines:?} in\n{text}"));
    let mut at = &table;
    loop {
        assert_eq!(at.len(), usize::from(!lines.is_empty()), "{lines:?} in\n{text}");
        match at.iter().next() {
            Some((name, Value::Table(inner))) if name != key => at = inner,
            Some((name, _)) => return assert_eq!(name, key, "{lines:?} in\n{text}"),
            None => return,
        }
    }
}

/// Checks one step: `before` became `after`, and only lines of the key differ.
fn assert_only_key_changed(before: &str, after: &str, path: &[&str], key: &str, step: Step) {
    let braces = lines_of_value(before, path, toml_edit::Item::is_inline_table);
    let value = lines_of_value(before, &[path, &[key]].concat(), toml_edit::Item::is_value);
    let (first, gone, came) = differences(before, after);
    let text = format!("{before}\n=====\n{after}");
    if let Some(lines) = braces {
        assert!(lines.start <= first && first + gone.len() <= lines.end, "{gone:?} {came:?} in\n{text}");
        return;
    }
    match step {
        Step::Add => {
            assert_eq!(gone.join(""), "", "{text}");
            assert_of_key(&came, key, &text);
        }
        Step::Replace => {
            // A line that the old and the new value begin with is in neither list.
            let value = value.unwrap_or_else(|| {
                assert_of_key(&came, key, &text);
                first..first + gone.len()
            });
            assert!(value.start <= first && first + gone.len() <= value.end, "{gone:?} {came:?} in\n{text}");
            let beside = |lines: &[&str]| {
                lines.last().and_then(|line| line.split_once("# beside")).map(|(_, rest)| rest.to_owned())
            };
            assert_eq!(beside(&gone), beside(&came), "{text}");
        }
        Step::Remove => {
            assert_eq!(came.join(""), "", "{text}");
            assert_of_key(&gone, key, &text);
            let of_key = gone.iter().position(|line| !line.trim_start().starts_with('#'));
            let comments = &gone[..of_key.unwrap()];
            let is_start = first == 0 && !comments.is_empty();
            assert!(!is_start, "the comment of the file is gone: {text}");
        }
    }
}

#[derive(Clone, Copy)]
enum Step {
    Add,
    Replace,
    Remove,
}

/// Lines of the first value on the way `path` that `is_wanted`.
fn lines_of_value(
    text: &str,
    path: &[&str],
    is_wanted: impl Fn(&toml_edit::Item) -> bool,
) -> Option<Range<usize>> {
    let document = toml_edit::Document::parse(text).unwrap();
    let mut item = document.as_item();
    for part in path {
        item = item.get(part)?;
        if let Some(span) = Some(item).filter(|item| is_wanted(item)).and_then(|item| item.span()) {
            let line = |at: usize| text.get(..at).unwrap().matches('\n').count();
            return Some(line(span.start)..line(span.end) + 1);
        }
    }
    None
}

fn check_document(choices: &[u8], steps: &[(usize, usize, usize)]) {
    let writer = Writer { text: String::new(), choices: choices.iter().cycle(), comments: 0 };
    let mut text = writer.document();
    let mut model: Table = text.parse().unwrap_or_else(|why| panic!("{why}\n{text}"));
    let values: [Value; 6] = [
        7.into(),
        "with # and \"quotes\"".into(),
        "two\nlines".into(),
        true.into(),
        Value::Array(vec![1.into(), 2.into()]),
        Value::Table(Table::from_iter([("n".to_owned(), 1.into())])),
    ];
    for &(table, key, value) in steps {
        let (path, key) = (TABLES[table], KEYS[key]);
        let at = path
            .iter()
            .try_fold(&model, |at, part| at.get(*part).map_or(Ok(at), |inner| inner.as_table().ok_or(())));
        if at.is_err() {
            assert!(with_value(&text, path, key, 1).is_err(), "{path:?}\n{text}");
            continue;
        }
        let table = path.iter().try_fold(&model, |at, part| at.get(*part).and_then(Value::as_table));
        let is_there = table.is_some_and(|table| table.contains_key(key));
        let before = text.clone();
        let step = match values.get(value) {
            Some(value) => {
                let edited = with_value(&text, path, key, value.clone());
                text = edited.unwrap_or_else(|why| panic!("{why}: {path:?} {key} {value}\n{text}"));
                set_value(&mut model, path, key, value);
                if is_there { Step::Replace } else { Step::Add }
            }
            None => {
                let edited = without_value(&text, path, key);
                let (edited, was_there) =
                    edited.unwrap_or_else(|why| panic!("{why}: {path:?} {key}\n{text}"));
                assert_eq!(was_there, is_there, "{text}");
                if !is_there {
                    assert_eq!(edited, text);
                    continue;
                }
                text = edited;
                let of_path = path
                    .iter()
                    .try_fold(&mut model, |at, part| at.get_mut(*part).and_then(Value::as_table_mut));
                of_path.unwrap().remove(key);
                Step::Remove
            }
        };
        // A table that became empty may be gone from the text.
        let after: Table = text.parse().unwrap_or_else(|why| panic!("{why}\n{before}\n=====\n{text}"));
        let pruned = |table: &Table| {
            let mut table = table.clone();
            prune(&mut table, path);
            Value::Table(table)
        };
        assert!(is_equal(&pruned(&after), &pruned(&model)), "{path:?} {key}: {before}\n=====\n{text}");
        model = after;
        if before != text {
            assert_only_key_changed(&before, &text, path, key, step);
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the size of the test is in the environment")]
fn whatever_is_set_and_unset_changes_lines_of_its_key_alone() {
    let cases = std::env::var(CASES_VARIABLE).ok().and_then(|cases| cases.parse().ok());
    let config =
        Config { cases: cases.unwrap_or(DEFAULT_CASES), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let documents = prop::collection::vec(any::<u8>(), 40..120);
    let steps = prop::collection::vec((0..TABLES.len(), 0..KEYS.len(), 0usize..10), 1..12);
    let run = runner.run(&(documents, steps), |(choices, steps)| {
        check_document(&choices, &steps);
        Ok(())
    });
    run.unwrap();
}
