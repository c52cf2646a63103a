use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::Value;

use super::emitted::Emitters;
use super::schema::{definition, fields, prose};

const INTRO: &str = "\
# Events

Every event of zk's own crates, in the order an agent reaches them. Generated from the code by
`cargo xtask docs`; do not edit.

How answers combine:

| mode | outcome |
|---|---|
| `Notify` | nobody can answer |
| `Fold` | each answer is folded into the event, the next handler sees the result, and the emit gives it back |
| `First` | the first answer; later handlers are not asked |
| `Veto` | the first answer that stops; the others are dropped |
| `LastOrStop` | the last answer, unless one stops: that one wins at once |
| `Gather` | every answer with its source |

Observers see each event as it was emitted, before its handlers. The JSON of an event is what its fields say.
";

/// Reference page for `catalogue`, the output of the example `dump_events`.
pub(super) fn page(catalogue: &Value, emitters: &Emitters<'_>) -> Result<String> {
    let events = catalogue.as_array().context("the catalogue is no list")?;
    let mut page = INTRO.to_owned();
    let mut types = BTreeMap::new();
    let mut phase = "";
    page.push_str("\n## All events\n\n| event | mode | a handler may answer |\n|---|---|---|\n");
    for event in events {
        let (name, mode, reply) = (text(event, "name")?, text(event, "mode")?, text(event, "reply")?);
        writeln!(page, "| [`{name}`](#{}) | `{mode}` | {} |", name.replace(':', ""), answer(reply))?;
    }
    for event in events {
        if phase != text(event, "phase")? {
            phase = text(event, "phase")?;
            writeln!(page, "\n## Phase: {phase}")?;
        }
        one(event, emitters, &mut page)?;
        for (name, schema) in event.pointer("/schema/$defs").and_then(Value::as_object).into_iter().flatten()
        {
            types.insert(name, schema);
        }
    }
    page.push_str("\n## Types\n");
    for (name, schema) in types {
        write!(page, "\n### Type `{name}`\n\n{}", definition(schema))?;
    }
    Ok(page)
}

fn one(event: &Value, emitters: &Emitters<'_>, page: &mut String) -> Result<()> {
    let (name, rust) = (text(event, "name")?, text(event, "rust")?);
    writeln!(page, "\n### `{name}`\n\n{}\n", prose(&event["schema"]))?;
    writeln!(page, "- Rust: `zk_core::events::{rust}`, mode `{}`", text(event, "mode")?)?;
    if !emitters.emit(rust) {
        writeln!(page, "- **No crate of zk emits it yet**: a handler of it is not called")?;
    }
    if text(event, "reply")? != "()" {
        writeln!(page, "- A handler may answer: {}", answer(text(event, "reply")?))?;
    }
    let failing = match text(event, "on_error")? {
        "throw" => "ends the emit, which whoever emitted reads as *no*",
        "continue" => "is reported and skipped",
        _ => "is reported and skipped, unless the host chose otherwise",
    };
    writeln!(page, "- A handler that fails {failing}")?;
    if let Some(limit) = event["time_limit_ms"].as_u64() {
        writeln!(page, "- A handler has {} s unless its registration says otherwise", limit as f64 / 1000.0)?;
    }
    if event["reach"] == "descendants" {
        writeln!(page, "- Handlers receive the events of sub-agents too, unless they ask for `Reach::Own`")?;
    }
    if event["cancellable"] == false {
        writeln!(page, "- Announced although the run was stopped")?;
    }
    write!(page, "\n{}", fields(&event["schema"]))?;
    Ok(())
}

fn answer(reply: &str) -> String {
    if reply == "()" { String::new() } else { format!("`{reply}`") }
}

fn text<'a>(event: &'a Value, key: &str) -> Result<&'a str> {
    event[key].as_str().with_context(|| format!("an event has no `{key}`"))
}
