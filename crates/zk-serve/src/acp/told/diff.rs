use serde_json::{Value, json};
use zk_view::{DiffLine, DiffReader};

/// Parts of a unified diff as an editor shows them: a part for each hunk, with the text before and after.
pub(in crate::acp) fn parts<'a>(path: &str, lines: impl IntoIterator<Item = &'a str>) -> Vec<Value> {
    let mut hunks: Vec<(String, String)> = Vec::new();
    let mut reader = DiffReader::default();
    let add = |text: &mut String, line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    for line in lines {
        match (reader.line(line), hunks.last_mut()) {
            (DiffLine::Hunk(_), _) => hunks.push((String::new(), String::new())),
            (DiffLine::Kept { text, .. }, Some((old, new))) => {
                add(old, text);
                add(new, text);
            }
            (DiffLine::Added { text, .. }, Some((_, new))) => add(new, text),
            (DiffLine::Removed { text, .. }, Some((old, _))) => add(old, text),
            (DiffLine::Header(_), _) | (_, None) => {}
        }
    }
    let is_whole = hunks.len() == 1;
    hunks
        .into_iter()
        .map(|(old, new)| {
            // A created file has no text before.
            let old = (!(is_whole && old.is_empty())).then_some(old);
            json!({ "type": "diff", "path": path, "oldText": old, "newText": new })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hunk_of_a_diff_is_a_part_with_its_text_before_and_after() {
        let diff = "--- a\n+++ b\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n@@ -9,0 +10 @@\n+more";
        let expected = [
            json!({ "type": "diff", "path": "/p/a", "oldText": "same\nold\n", "newText": "same\nnew\n" }),
            json!({ "type": "diff", "path": "/p/a", "oldText": "", "newText": "more\n" }),
        ];
        assert_eq!(parts("/p/a", diff.lines()), expected);
        let made = parts("/p/a", "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x".lines());
        assert_eq!(made, [json!({ "type": "diff", "path": "/p/a", "oldText": null, "newText": "x\n" })]);
    }
}
