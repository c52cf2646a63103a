use std::sync::{Arc, Mutex};

use serde_json::Value;
use zk_core::service::{EntryKind, visible_line};
use zk_session::scan_matching;
use zk_tui::{dollars, thousands};

use super::super::print;
use super::NAME_COLUMNS;
use super::records::{BREAK, DEPTH, SOURCE};
use super::show_notice;
use super::sums::{Answered, Outputs, Sum, answer_of};
use super::totals::{lock, visiting};
use crate::app::{Machine, runtime};
use crate::exit::{Exit, Outcome};
use crate::sessions::{require_id, store, store_failure};

pub(super) fn why(machine: &Machine, id: &str) -> Outcome<Exit> {
    let store = store(machine)?;
    let found = Arc::new(Mutex::new((Sum::default(), Vec::new())));
    let visitor = || {
        visiting(&found, |(sum, breaks): &mut (Sum, Vec<String>), entry| {
            if let Some(Answered { turn, .. }) = answer_of(entry) {
                sum.add(turn);
            }
            if let Some(saved) = Outputs::of(entry) {
                sum.outputs.add(saved);
            }
            if let EntryKind::Custom(custom) = &entry.kind
                && custom.source == SOURCE
                && custom.kind == BREAK
            {
                breaks.push(visible_line(&describe_break(entry.time_ms, &custom.data.value())));
            }
        })
    };
    let scan = runtime()?.block_on(async {
        scan_matching(&store, require_id(id, "`zk cost why`")?, visitor).await.map_err(store_failure)
    })?;
    scan.notices.iter().for_each(|notice| show_notice(notice));
    let (sum, breaks) = &*lock(&found);
    let mut lines = vec![sum.line(scan.info.id.as_str(), NAME_COLUMNS)];
    if breaks.is_empty() {
        lines.push(
            "every request began as the one before it, as far as they were compared: one behind a run that was killed is \
             compared with none"
                .to_owned(),
        );
    }
    lines.extend(breaks.iter().cloned());
    lines.extend(sum.outputs.line());
    print(machine, &lines)
}

/// Describes one prefix break in words.
pub(super) fn describe_break(time_ms: u64, data: &Value) -> String {
    let part = &data["part"];
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let of = |source: &Value| source.as_str().map(|of| format!(" of `{of}`")).unwrap_or_default();
    let what = match part["part"].as_str() {
        Some("tools") => {
            format!("the tools differ from `{}`{} on", text(&part["first"]), of(&part["source"]))
        }
        Some("thinking") => format!("the thinking asked for is {}", text(&part["level"])),
        Some("section") => format!("section `{}` of `{}` differs", text(&part["id"]), text(&part["source"])),
        _ => match part["source"].as_str() {
            Some(source) => format!("`{source}` changed the messages from number {} on", part["first"]),
            None => format!("the messages differ from number {} on", part["first"]),
        },
    };
    let cause = match data["cause"].as_str() {
        Some("model_switch") => "another model is asked",
        Some("thinking_changed") => "the provider keeps messages for the same thinking only",
        Some("tools_changed") => "tools came, went or changed",
        Some("reduction") => "the conversation was made shorter",
        Some("reloaded") => "files or settings changed between two runs",
        _ => "nothing explains it: something that should stay as it is does not",
    };
    let cost = data["cost"].as_f64().map(|cost| format!(", about {}", dollars(cost))).unwrap_or_default();
    let lost = thousands(data["lost_tokens"].as_u64().unwrap_or_default());
    let day = zk_skills::date(time_ms / 1000);
    let whose = if data[DEPTH].is_u64() { "in a sub-agent, " } else { "" };
    format!("{day}: {whose}{what} ({cause}); about {lost} tokens were read anew{cost}")
}
