use zk_view::{Activity, ContextGauge, GaugeColour, Status};

use super::detail::MARGIN;
use super::{dollars, rounded, thousands};
use crate::row::{Row, Style};

/// Signs in the status row: of activity, and of a wait for a retry.
const WORKS: &str = "◐";
const RETRIES: &str = "↻";

/// Minimum gap in columns between the left and the right part of the row.
const GAP: usize = 2;

/// Facts about the conversation for the status row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFacts {
    /// Name of the model.
    pub name: String,
    /// Context window in tokens, if known.
    pub window: Option<u64>,
    /// Name of the permission mode.
    pub mode: String,
    /// Name of the limit on commands, such as `sandbox`; empty without one.
    pub walls: String,
    /// Abbreviated working directory.
    pub directory: String,
    /// Branch of its repository; empty without one.
    pub branch: String,
}

/// Fact in the status row, with its rank.
struct Fact {
    text: Row,
    /// Shorter text, tried before any fact of a lower rank is dropped.
    brief: Option<Row>,
    /// Rank: the fact with the highest one is dropped first, one of rank 0 never.
    rank: u8,
}

impl Fact {
    fn new(rank: u8, style: Style, text: &str) -> Self {
        Self { text: Row::of(style, text), brief: None, rank }
    }

    fn dim(rank: u8, text: &str) -> Self {
        Self::new(rank, Style::DIM, text)
    }
}

/// Draws the status: the activity with its duration, or facts for the next prompt; at the right the mode, the
/// fill level of the context, and the cost of the session including this run. On a narrow screen facts are
/// dropped, the mode never.
pub(crate) fn status_row(
    status: &Status,
    model: &ModelFacts,
    spent: f64,
    can_leave: bool,
    width: usize,
) -> Option<Row> {
    let cost = cost_fact(spent + status.cost.unwrap_or_default());
    let gauge = gauge_facts(status.context_tokens, model.window, status.gauge.as_ref());
    let name = (!model.name.is_empty()).then(|| Fact::dim(7, &model.name));
    if status.activity == Activity::Idle {
        if model.name.is_empty() {
            return None;
        }
        let place = [model.directory.as_str(), model.branch.as_str()];
        let place: Vec<&str> = place.into_iter().filter(|word| !word.is_empty()).collect();
        let place = (!place.is_empty()).then(|| Fact::dim(9, &place.join(" ")));
        let walls = (!model.walls.is_empty()).then(|| Fact::dim(5, &model.walls));
        let left = mode_fact(model).into_iter().chain(walls).collect();
        let right = place.into_iter().chain(name).chain(gauge).chain(cost).collect();
        return Some(fit_row(left, right, width));
    }
    let left = activity_facts(status, can_leave);
    // The model is shown if there is room for everything else.
    let name = name.map(|name| Fact { rank: 13, ..name });
    let right = mode_fact(model).into_iter().chain(name).chain(gauge).chain(cost).collect();
    Some(fit_row(left, right, width))
}

fn mode_fact(model: &ModelFacts) -> Option<Fact> {
    (!model.mode.is_empty()).then(|| Fact::dim(0, &model.mode))
}

fn cost_fact(cost: f64) -> Option<Fact> {
    (cost > 0.0).then(|| Fact::dim(8, &dollars(cost)))
}

/// Facts about the context: fill level with urgency, and compactions.
fn gauge_facts(tokens: Option<u64>, window: Option<u64>, gauge: Option<&ContextGauge>) -> Vec<Fact> {
    // For a session that was just opened, the size of the last answer's context and the model's window are
    // known.
    let by_window = tokens.zip(window).and_then(|(tokens, window)| ContextGauge::new(tokens, window, 0));
    let Some(gauge) = gauge.copied().or(by_window) else {
        return tokens
            .map(|tokens| Fact::dim(6, &format!("context {}", thousands(tokens))))
            .into_iter()
            .collect();
    };
    let style = match gauge.colour {
        GaugeColour::Green => Style::DIM,
        GaugeColour::Yellow => Style::YELLOW,
        GaugeColour::Red => Style::RED,
    };
    let filled = Fact {
        brief: Some(Row::of(style, &format!("{} %", gauge.percent))),
        ..Fact::new(6, style, &format!("context {} %", gauge.percent))
    };
    std::iter::once(filled).chain(compaction_badge(&gauge)).collect()
}

/// Badge of the compactions so far, with the sizes and the age of the last one; `None` before the first.
fn compaction_badge(gauge: &ContextGauge) -> Option<Fact> {
    let compacted = match gauge.compactions {
        0 => return None,
        1 => "compacted".to_owned(),
        times => format!("compacted {times} times"),
    };
    let Some(last) = gauge.last else { return Some(Fact::dim(7, &compacted)) };
    let sizes = format!("{} → {}", thousands(last.before), thousands(last.after));
    let whole = format!("{compacted} {sizes} {}", age(last.age_ms));
    Some(Fact { brief: Some(Row::of(Style::DIM, &compacted)), ..Fact::dim(7, &whole) })
}

/// Age in its largest suitable unit.
fn age(ms: u64) -> String {
    match ms / 60_000 {
        0 => "just now".to_owned(),
        minutes @ 1..60 => format!("{minutes} min ago"),
        minutes @ 60..1440 => format!("{} h ago", minutes / 60),
        minutes => format!("{} d ago", minutes / 1440),
    }
}

/// Facts about the activity: sign and time first, then keys, since a narrow screen shows only the first ones.
fn activity_facts(status: &Status, can_leave: bool) -> Vec<Fact> {
    let seconds = |ms: u64| format!("{} s", ms / 1000);
    let whole = status.run_ms.unwrap_or(status.activity_ms);
    let (sign, style, first, words): (_, _, String, Vec<Fact>) = match &status.activity {
        Activity::Idle => return Vec::new(),
        Activity::Stopping => return vec![activity_fact(WORKS, Style::BLUE, "stopping …")],
        Activity::Asking => (WORKS, Style::YELLOW, "waiting for you".to_owned(), Vec::new()),
        Activity::Starting => (WORKS, Style::BLUE, "starting".to_owned(), Vec::new()),
        Activity::Compacting { before } => {
            let words = format!("making room: {} tokens", thousands(*before));
            (WORKS, Style::BLUE, seconds(status.activity_ms), vec![Fact::dim(3, &words)])
        }
        Activity::Waiting { .. } => {
            (WORKS, Style::BLUE, seconds(status.activity_ms), vec![Fact::dim(3, "waiting for the model")])
        }
        Activity::Silent { idle_ms, limit_ms, keep_alives, .. } => {
            let alive = if *keep_alives { ", which gives signs of life" } else { "" };
            let mut words = vec![Fact::dim(3, &format!("waiting for the model{alive}"))];
            // The limit is shown only when it comes near.
            if idle_ms.saturating_mul(2) >= *limit_ms {
                let left = rounded(limit_ms.saturating_sub(*idle_ms));
                words.push(Fact::dim(4, &format!("gives up in {left}")));
            }
            (WORKS, Style::BLUE, seconds(*idle_ms), words)
        }
        Activity::Retrying { left_ms: 0, .. } => {
            (RETRIES, Style::YELLOW, "trying now".to_owned(), Vec::new())
        }
        Activity::Retrying { why, attempt, max_attempts, left_ms } => {
            let left = seconds(*left_ms);
            let when = match attempt {
                0 => format!("trying in {left}"),
                failed => format!("attempt {} of {max_attempts} in {left}", failed + 1),
            };
            // The reason is shown in short, without the provider's message.
            let (short, _) = why.as_str().split_once(": ").unwrap_or((why.as_str(), ""));
            let words = vec![Fact::dim(1, &when), Fact::dim(2, "Enter now")];
            (RETRIES, Style::YELLOW, short.to_owned(), words)
        }
        Activity::Thinking => (WORKS, Style::BLUE, seconds(whole), vec![Fact::dim(5, "thinking")]),
        Activity::Answering => (WORKS, Style::BLUE, seconds(whole), vec![Fact::dim(5, "answering")]),
        Activity::Writing { tool } => {
            (WORKS, Style::BLUE, seconds(whole), vec![Fact::dim(5, &format!("writing a call of {tool}"))])
        }
        Activity::Running { batch, .. } => {
            let batch = batch.describe().map(|batch| Fact::dim(5, &batch));
            (WORKS, Style::BLUE, seconds(whole), batch.into_iter().collect())
        }
    };
    let mut facts = vec![activity_fact(sign, style, &first)];
    facts.extend(words);
    if status.tokens_written > 0 {
        facts.push(Fact::dim(9, &format!("↓{}", thousands(status.tokens_written))));
    }
    facts.push(Fact::dim(2, "Esc stops"));
    facts.extend(can_leave.then(|| Fact::dim(4, "Ctrl-B: background")));
    let takes_text = matches!(
        status.activity,
        Activity::Thinking | Activity::Answering | Activity::Writing { .. } | Activity::Running { .. }
    );
    if takes_text {
        facts.push(Fact::dim(11, "Enter: at the next step"));
        facts.push(Fact::dim(12, "Tab: afterwards"));
    }
    facts
}

fn activity_fact(sign: &str, style: Style, text: &str) -> Fact {
    Fact { text: Row::of(style, sign).with(Style::DIM, &format!(" {text}")), brief: None, rank: 0 }
}

/// The row of two parts, without the facts that a screen of `width` columns has no room for.
fn fit_row(mut left: Vec<Fact>, mut right: Vec<Fact>, width: usize) -> Row {
    loop {
        let (first, second) = (join_facts(&left), join_facts(&right));
        let gap = if first.columns() == 0 || second.columns() == 0 { 0 } else { GAP };
        let taken = MARGIN.len() + first.columns() + gap + second.columns();
        let mut row = Row::of(Style::DIM, MARGIN);
        row.append(&first);
        if taken <= width && second.columns() == 0 {
            return row;
        }
        if taken <= width {
            let blanks = width.saturating_sub(taken) + gap;
            row = row.with(Style::DIM, &" ".repeat(blanks));
            row.append(&second);
            return row;
        }
        let has_brief = |fact: &&mut Fact| fact.brief.is_some();
        let highest = left.iter().chain(&right).map(|fact| fact.rank).max().unwrap_or_default();
        if highest <= 9
            && let Some(fact) = left.iter_mut().chain(&mut right).find(has_brief)
            && let Some(brief) = fact.brief.take()
        {
            fact.text = brief;
            continue;
        }
        if highest == 0 {
            row = row.with(Style::DIM, if gap > 0 { " · " } else { "" });
            row.append(&second);
            return row;
        }
        left.retain(|fact| fact.rank != highest);
        right.retain(|fact| fact.rank != highest);
    }
}

fn join_facts(facts: &[Fact]) -> Row {
    let mut row = Row::default();
    for (at, fact) in facts.iter().enumerate() {
        if at > 0 {
            row = row.with(Style::DIM, " · ");
        }
        row.append(&fact.text);
    }
    row
}

/// Running time of the main agent's calls in seconds; `None` if none runs.
pub(crate) fn running_seconds(status: &Status) -> Option<u64> {
    matches!(status.activity, Activity::Running { .. }).then_some(status.activity_ms / 1000)
}

#[cfg(test)]
mod tests {
    use zk_view::{BatchCounts, LastCompaction, Text};

    use super::*;

    fn facts() -> ModelFacts {
        ModelFacts {
            name: "Sonnet 5.5".to_owned(),
            window: None,
            mode: "auto".to_owned(),
            walls: "sandbox".to_owned(),
            directory: "~/src/shopcart".to_owned(),
            branch: "main".to_owned(),
        }
    }

    fn drawn_row(status: Status, width: usize) -> String {
        let status = Status { gauge: ContextGauge::new(34, 100, 0), ..status };
        status_row(&status, &facts(), 1.2, false, width).unwrap().text()
    }

    fn running() -> Status {
        let batch = BatchCounts { total: 1, ..BatchCounts::default() };
        let activity = Activity::Running { calls: vec![Text::new("$ cargo test --workspace")], batch };
        Status {
            activity,
            activity_ms: 14_000,
            run_ms: Some(18_000),
            tokens_written: 269,
            ..Status::default()
        }
    }

    #[test]
    fn an_idle_row_says_what_holds_for_the_next_prompt() {
        assert_eq!(
            drawn_row(Status::default(), 100),
            format!(
                "  auto · sandbox{}~/src/shopcart main · Sonnet 5.5 · context 34 % · $1.20",
                " ".repeat(29)
            )
        );
    }

    #[test]
    fn a_narrow_row_drops_the_directory_then_the_cost_and_tokens_and_never_the_mode() {
        let narrow = |width| drawn_row(Status::default(), width);
        assert!(narrow(70).contains("34 % · $1.20") && !narrow(60).contains("shopcart"), "{}", narrow(60));
        for width in 10..120 {
            assert!(narrow(width).contains("auto"), "{width}: {}", narrow(width));
            assert!(drawn_row(running(), width).contains("auto"), "{width}: {}", drawn_row(running(), width));
        }
        assert!(!narrow(36).contains('$') && narrow(36).contains("34 %"), "{}", narrow(36));
    }

    #[test]
    fn a_running_row_says_how_long_and_which_keys_and_not_what_stands_above() {
        assert_eq!(
            drawn_row(running(), 100),
            "  ◐ 18 s · ↓269 · Esc stops · Enter: at the next step · Tab: afterwards  auto · context 34 % · $1.20"
        );
        assert_eq!(drawn_row(running(), 60), "  ◐ 18 s · ↓269 · Esc stops      auto · context 34 % · $1.20");
        assert_eq!(drawn_row(running(), 45), "  ◐ 18 s · Esc stops      auto · 34 % · $1.20");
        assert!(!drawn_row(running(), 160).contains("cargo"));
    }

    #[test]
    fn a_retry_is_one_row_with_the_next_attempt_and_its_countdown() {
        let why = Text::new("overloaded: Overloaded");
        let activity = Activity::Retrying { why, attempt: 2, max_attempts: 10, left_ms: 8000 };
        let row = drawn_row(Status { activity, run_ms: Some(9000), ..Status::default() }, 100);
        assert!(
            row.starts_with("  ↻ overloaded · attempt 3 of 10 in 8 s · Enter now · Esc stops  "),
            "{row}"
        );
        assert!(row.ends_with("  auto · context 34 % · $1.20"), "{row}");
    }

    #[test]
    fn a_silent_model_is_waited_for_and_its_limit_is_told_when_it_comes_near() {
        let silent = |idle_ms| {
            let model = Text::new("m");
            let activity = Activity::Silent { model, idle_ms, limit_ms: 300_000, keep_alives: false };
            drawn_row(Status { activity, run_ms: Some(idle_ms), ..Status::default() }, 100)
        };
        assert!(
            silent(3000).starts_with("  ◐ 3 s · waiting for the model · Esc stops  "),
            "{}",
            silent(3000)
        );
        assert!(silent(200_000).contains("waiting for the model · gives up in 100 s"), "{}", silent(200_000));
    }

    #[test]
    fn a_session_that_was_just_opened_says_how_full_its_context_is() {
        let status = Status { context_tokens: Some(47_200), ..Status::default() };
        let row =
            |window| status_row(&status, &ModelFacts { window, ..facts() }, 0.0, false, 100).unwrap().text();
        assert!(row(Some(200_000)).ends_with("Sonnet 5.5 · context 23 %"), "{}", row(Some(200_000)));
        assert!(row(None).ends_with("Sonnet 5.5 · context 47.2k"), "{}", row(None));
    }

    #[test]
    fn compactions_are_a_badge_with_sizes_and_age_that_is_short_where_there_is_no_room() {
        let drawn = |compactions, age_ms, width| {
            let last = Some(LastCompaction { before: 180_400, after: 31_000, age_ms });
            let gauge = ContextGauge { last, ..ContextGauge::new(34, 100, compactions).unwrap() };
            let status = Status { gauge: Some(gauge), ..Status::default() };
            status_row(&status, &facts(), 0.0, false, width).unwrap().text()
        };
        for (compactions, minutes, width, expected) in [
            (0, 0, 120, "context 34 %"),
            (1, 0, 120, "context 34 % · compacted 180.4k → 31k just now"),
            (1, 5, 120, "context 34 % · compacted 180.4k → 31k 5 min ago"),
            (3, 125, 120, "context 34 % · compacted 3 times 180.4k → 31k 2 h ago"),
            (1, 3000, 120, "context 34 % · compacted 180.4k → 31k 2 d ago"),
            (1, 5, 50, "34 % · compacted"),
        ] {
            let row = drawn(compactions, minutes * 60_000, width);
            assert!(row.ends_with(expected), "{row}");
        }
    }

    #[test]
    fn small_amounts_have_more_digits_than_large_ones() {
        assert_eq!([0.0042, 0.5, 1.2].map(dollars), ["$0.0042", "$0.50", "$1.20"]);
    }
}
