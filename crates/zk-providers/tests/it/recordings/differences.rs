//! Differences of the adapter's own request from the recorded one, and why they are right.

use std::collections::BTreeMap;

use serde_json::Value;

/// Explained difference: a path and the reason. `[]` matches a list index, a leading `*.` any first name, a
/// trailing `.*` everything below. A prefix `+` limits it to additions by zk, `-` to omissions.
pub(crate) type Explained = (&'static str, &'static str);

/// The differences of many requests, by their place.
#[derive(Default)]
pub(crate) struct Differences {
    compared: usize,
    counts: BTreeMap<String, usize>,
    unexplained: Vec<String>,
}

impl Differences {
    /// Records the differences between `ours` and `recorded`.
    pub(crate) fn compare(&mut self, place: &str, ours: &Value, recorded: &Value, explained: &[Explained]) {
        self.compared += 1;
        let mut found = Vec::new();
        walk(String::new(), ours, recorded, &mut found);
        for (path, ours, recorded) in found {
            let sign = match (&ours, &recorded) {
                (_, Value::Null) => '+',
                (Value::Null, _) => '-',
                _ => ' ',
            };
            let is_it = |(known, _): &&Explained| matches(known, sign, &path);
            match explained.iter().find(is_it) {
                Some((known, why)) => *self.counts.entry(format!("{known}: {why}")).or_default() += 1,
                None => {
                    self.unexplained
                        .push(format!("{place}: {path}\n  ours     {ours}\n  recorded {recorded}"));
                }
            }
        }
    }

    /// Prints the table, and fails if a difference has no explanation or an explanation no difference.
    pub(crate) fn settle(self, explained: &[Explained]) {
        for (line, count) in &self.counts {
            println!("{count:5} × {line}");
        }
        let is_stale = |(known, why): &&Explained| !self.counts.contains_key(&format!("{known}: {why}"));
        let stale: Vec<&Explained> = explained.iter().filter(is_stale).collect();
        let unexplained = &self.unexplained;
        assert!(
            unexplained.is_empty(),
            "{} are not explained:\n{}",
            unexplained.len(),
            unexplained.join("\n")
        );
        assert!(stale.is_empty() || self.compared == 0, "these explain nothing: {stale:#?}");
    }
}

fn matches(known: &str, sign: char, path: &str) -> bool {
    let signed = known.strip_prefix(['+', '-']);
    if signed.is_some() && !known.starts_with(sign) {
        return false;
    }
    let known = signed.unwrap_or(known);
    let below = || path.split_once('.').map_or("", |(_, below)| below);
    let (known, path) = known.strip_prefix("*.").map_or_else(|| (known, path), |known| (known, below()));
    match known.strip_suffix(".*") {
        Some(above) => {
            path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        }
        None => path == known,
    }
}

fn walk(path: String, ours: &Value, recorded: &Value, found: &mut Vec<(String, Value, Value)>) {
    match (ours, recorded) {
        (Value::Object(mine), Value::Object(theirs)) => {
            let names = mine.keys().chain(theirs.keys().filter(|name| !mine.contains_key(*name)));
            for name in names {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                walk(path, &ours[name], &recorded[name], found);
            }
        }
        (Value::Array(mine), Value::Array(theirs)) if mine.len() == theirs.len() => {
            for (mine, theirs) in mine.iter().zip(theirs) {
                walk(format!("{path}[]"), mine, theirs, found);
            }
        }
        _ if ours == recorded => {}
        _ => found.push((path, ours.clone(), recorded.clone())),
    }
}
