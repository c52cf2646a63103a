pub(super) mod records;
mod sums;
mod totals;
mod why;

use serde_json::Value;
use zk_core::service::{SessionFilter, visible_line};
use zk_tui::term::print_stderr;

use super::{print, print_text};
use crate::app::{Workplace, runtime};
use crate::args::actions::{CostAction, CostBy};
use crate::exit::{Exit, Failure, Outcome};
use crate::sessions::{store, store_failure};
use totals::{Summed, Totals, sum_up};
use why::why;

/// Width of the name column, unless a name is longer.
pub(super) const NAME_COLUMNS: usize = 34;

/// Shows usage and cost of sessions, or the causes of avoidable input tokens.
pub(crate) fn cost(
    work: &Workplace,
    action: Option<CostAction>,
    by: CostBy,
    all: bool,
    json: bool,
) -> Outcome<Exit> {
    match action {
        None => totals(work, by, all, json),
        Some(CostAction::Why { id }) => why(&work.machine, &id),
    }
}

fn totals(work: &Workplace, by: CostBy, all: bool, as_json: bool) -> Outcome<Exit> {
    let store = store(&work.machine)?;
    let filter = SessionFilter { cwd: (!all).then(|| work.cwd.clone()), limit: None, unanswered: true };
    let summed = runtime()?.block_on(sum_up(&store, &filter, by));
    let Summed { totals: Totals { sums, total, .. }, left_out, damaged } = summed.map_err(store_failure)?;
    damaged.iter().for_each(|notice| show_notice(notice));
    if as_json {
        let rows: Vec<Value> = sums.iter().map(|(name, sum)| sum.json(name)).collect();
        let text = serde_json::to_string_pretty(&Value::Array(rows)).map_err(Failure::failed)?;
        left_out.iter().for_each(|notice| show_notice(notice));
        return print_text(&work.machine, &text);
    }
    let columns =
        sums.keys().map(|name| name.chars().count()).chain([NAME_COLUMNS]).max().unwrap_or_default();
    let line = |(name, sum): (&String, &sums::Sum)| visible_line(&sum.line(name, columns));
    let mut lines: Vec<String> = sums.iter().map(line).collect();
    if lines.is_empty() {
        let place =
            if all { "anywhere".to_owned() } else { format!("of {}; --all counts all", work.cwd.display()) };
        lines.push(format!("there are no answers in sessions {place}"));
    } else if lines.len() > 1 {
        lines.push(total.line("all", columns));
    }
    lines.extend(total.outputs.line());
    lines.extend(left_out.iter().map(|notice| visible_line(notice)));
    print(&work.machine, &lines)
}

/// Shows a notice about figures that are missing in the sums.
fn show_notice(notice: &str) {
    print_stderr(&format!("zk: {}", visible_line(notice)));
}
