use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use zk_core::model::{TurnUsage, Usage};
use zk_core::service::{
    Entry, EntryKind, EntryVisitor, SessionFilter, SessionStore, SideCallOf, StoreError, visible_line,
};
use zk_session::scan_matching;
use zk_tui::plain::lines::shorten;
use zk_tui::term::print_stderr;

use super::print;
use crate::app::{AppContext, runtime};
use crate::args::actions::{CostAction, CostBy};
use crate::cost_records::{BREAK, DEPTH, SAVINGS, SOURCE};
use crate::exit::{Exit, Failure, Outcome};
use crate::sessions::{given, refused, store};

/// Shows what sessions used and cost, or why one read more than it had to.
pub(crate) fn cost(
    app: &AppContext,
    action: Option<CostAction>,
    by: CostBy,
    all: bool,
    json: bool,
) -> Outcome<Exit> {
    match action {
        None => totals(app, by, all, json),
        Some(CostAction::Why { id }) => why(app, &id),
    }
}

/// Usage and cost of several answers.
#[derive(Default)]
struct Sum {
    answers: u64,
    usage: Usage,
    cost: Option<f64>,
    /// Answers whose cost nobody knows.
    unknown: u64,
    outputs: Outputs,
}

/// Bytes of the outputs of commands that were made smaller, before and after.
#[derive(Clone, Copy, Default)]
struct Outputs {
    before: u64,
    after: u64,
}

impl Outputs {
    /// Bytes that an entry tells of the outputs of a run, if it does.
    fn of(entry: &Entry) -> Option<Self> {
        match &entry.kind {
            EntryKind::Custom(custom) if custom.source == SOURCE && custom.kind == SAVINGS => {
                let data = custom.data.value();
                let bytes = |name: &str| data.get(name).and_then(Value::as_u64).unwrap_or_default();
                Some(Self { before: bytes("before"), after: bytes("after") })
            }
            _ => None,
        }
    }

    fn add(&mut self, more: Self) {
        self.before += more.before;
        self.after += more.after;
    }

    /// Describes the savings in words.
    fn line(self) -> Option<String> {
        let percent = (self.before.saturating_sub(self.after) * 100).checked_div(self.before)?;
        let kb = |bytes: u64| bytes.div_ceil(1024);
        Some(format!(
            "outputs of commands: {} KB became {} KB before a model got them, {percent} % less; the whole of each is kept \
             (`tools.compress`)",
            kb(self.before),
            kb(self.after)
        ))
    }
}

impl Sum {
    fn merge(&mut self, more: &Self) {
        self.answers += more.answers;
        self.usage += more.usage;
        if let Some(cost) = more.cost {
            *self.cost.get_or_insert(0.0) += cost;
        }
        self.unknown += more.unknown;
        self.outputs.add(more.outputs);
    }

    fn add(&mut self, turn: &TurnUsage) {
        self.answers += 1;
        self.usage += turn.usage;
        match turn.cost {
            Some(cost) => *self.cost.get_or_insert(0.0) += cost,
            None => self.unknown += 1,
        }
    }

    fn line(&self, name: &str) -> String {
        let Usage { input, output, cache_read, cache_write, .. } = self.usage;
        let read = input + cache_read + cache_write;
        let hits = (cache_read * 100).checked_div(read).unwrap_or(0);
        let cost = match (self.cost, self.unknown) {
            (Some(cost), 0) => format!("${cost:.4}"),
            (Some(cost), unknown) => format!("${cost:.4} and {unknown} without a price"),
            (None, _) => "no price known".to_owned(),
        };
        format!(
            "{name:<34} {:>5} answers {read:>10} read ({hits:>3}% from the cache) {output:>9} written  {cost}",
            self.answers
        )
    }

    fn json(&self, name: &str) -> Value {
        json!({
            "name": name,
            "answers": self.answers,
            "input": self.usage.input,
            "cache_read": self.usage.cache_read,
            "cache_write": self.usage.cache_write,
            "output": self.usage.output,
            "cost": self.cost,
            "without_price": self.unknown,
            "output_bytes": self.outputs.before,
            "output_bytes_sent": self.outputs.after,
        })
    }
}

/// Sums of sessions, by the name of what they are summed for.
struct Totals {
    by: CostBy,
    sums: BTreeMap<String, Sum>,
    total: Sum,
}

impl Totals {
    fn by(by: CostBy) -> Self {
        Self { by, sums: BTreeMap::new(), total: Sum::default() }
    }

    fn merge(&mut self, more: &Self) {
        for (name, sum) in &more.sums {
            self.sums.entry(name.clone()).or_default().merge(sum);
        }
        self.total.merge(&more.total);
    }

    /// Adds what an entry of `session` tells.
    fn add(&mut self, session: &str, entry: &Entry) {
        if let Some(Answered { turn, side_call }) = answer(entry) {
            let name = match (self.by, side_call) {
                (CostBy::Session, _) => session.to_owned(),
                (CostBy::Model, _) => turn.model.to_string(),
                (CostBy::Day, _) => zk_skills::date(entry.time_ms / 1000),
                (CostBy::Plugin, Some(call)) => call.source.clone(),
                (CostBy::Plugin, None) => "the conversation".to_owned(),
            };
            self.sums.entry(name).or_default().add(turn);
            self.total.add(turn);
        }
        if let Some(saved) = Outputs::of(entry) {
            self.total.outputs.add(saved);
            let name = match self.by {
                CostBy::Session => session.to_owned(),
                CostBy::Day => zk_skills::date(entry.time_ms / 1000),
                // Several may have answered in one run.
                CostBy::Model | CostBy::Plugin => return,
            };
            self.sums.entry(name).or_default().outputs.add(saved);
        }
    }
}

/// Visits the entries of sessions with `state`, one entry in memory at a time.
fn visiting<T: Send + 'static>(
    state: &Arc<Mutex<T>>,
    mut add: impl FnMut(&mut T, &Entry) + Send + 'static,
) -> EntryVisitor {
    let state = state.clone();
    Box::new(move |entry, _| {
        add(&mut lock(&state), &entry);
        ControlFlow::Continue(())
    })
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sums of sessions, and what is to be said of sessions that cannot be read as they are.
struct Summed {
    totals: Totals,
    /// Lines about those that are left out.
    left_out: Vec<String>,
    /// Notices of entries that are missing in the sums.
    damaged: Vec<String>,
}

/// Sums the sessions that match, each apart: one that cannot be read to its end is left out, and a line says so.
async fn sum_up(store: &dyn SessionStore, filter: &SessionFilter, by: CostBy) -> Result<Summed, StoreError> {
    let mut all = Summed { totals: Totals::by(by), left_out: Vec::new(), damaged: Vec::new() };
    for info in store.list(filter).await? {
        let session = format!("{}  {}", info.id, shorten(&info.title.replace('\n', " ")));
        let summed = Arc::new(Mutex::new(Totals::by(by)));
        let visit = visiting(&summed, move |totals, entry| totals.add(&session, entry));
        match store.scan(&info.id, visit).await {
            Ok(scan) => {
                all.totals.merge(&lock(&summed));
                all.damaged.extend(scan.notices);
            }
            Err(error) => all.left_out.push(format!("{} is left out: {error}", info.id)),
        }
    }
    Ok(all)
}

fn totals(app: &AppContext, by: CostBy, all: bool, as_json: bool) -> Outcome<Exit> {
    let store = store(app)?;
    let filter = SessionFilter { cwd: (!all).then(|| app.cwd.clone()), limit: None, unanswered: true };
    let summed = runtime()?.block_on(sum_up(&store, &filter, by));
    let Summed { totals: Totals { sums, total, .. }, left_out, damaged } = summed.map_err(refused)?;
    damaged.iter().for_each(|notice| tell(notice));
    if as_json {
        let rows: Vec<Value> = sums.iter().map(|(name, sum)| sum.json(name)).collect();
        let text = serde_json::to_string_pretty(&Value::Array(rows)).map_err(Failure::failed)?;
        left_out.iter().for_each(|notice| tell(notice));
        return print(app, &text.lines().map(str::to_owned).collect::<Vec<_>>());
    }
    let mut lines: Vec<String> = sums.iter().map(|(name, sum)| visible_line(&sum.line(name))).collect();
    if lines.is_empty() {
        let place =
            if all { "anywhere".to_owned() } else { format!("of {}; --all counts all", app.cwd.display()) };
        lines.push(format!("there are no answers in sessions {place}"));
    } else if lines.len() > 1 {
        lines.push(total.line("all"));
    }
    lines.extend(total.outputs.line());
    lines.extend(left_out.iter().map(|notice| visible_line(notice)));
    print(app, &lines)
}

/// Says what the figures lack.
fn tell(notice: &str) {
    print_stderr(&format!("zk: {}", visible_line(notice)));
}

/// An answer of a model.
struct Answered<'a> {
    turn: &'a TurnUsage,
    /// Plugin that asked for it beside the conversation, if one did.
    side_call: Option<&'a SideCallOf>,
}

/// The answer that an entry tells of, if it does.
fn answer(entry: &Entry) -> Option<Answered<'_>> {
    match &entry.kind {
        EntryKind::Message { usage: Some(turn), .. } => Some(Answered { turn, side_call: None }),
        EntryKind::Usage { usage: turn, side_call } => Some(Answered { turn, side_call: side_call.as_ref() }),
        _ => None,
    }
}

fn why(app: &AppContext, id: &str) -> Outcome<Exit> {
    let store = store(app)?;
    let found = Arc::new(Mutex::new((Sum::default(), Vec::new())));
    let visitor = || {
        visiting(&found, |(sum, breaks): &mut (Sum, Vec<String>), entry| {
            if let Some(Answered { turn, .. }) = answer(entry) {
                sum.add(turn);
            }
            if let Some(saved) = Outputs::of(entry) {
                sum.outputs.add(saved);
            }
            if let EntryKind::Custom(custom) = &entry.kind
                && custom.source == SOURCE
                && custom.kind == BREAK
            {
                breaks.push(visible_line(&describe(entry.time_ms, &custom.data.value())));
            }
        })
    };
    let scan = runtime()?.block_on(async {
        scan_matching(&store, given(id, "`zk cost why`")?, visitor).await.map_err(refused)
    })?;
    scan.notices.iter().for_each(|notice| tell(notice));
    let (sum, breaks) = &*lock(&found);
    let mut lines = vec![sum.line(scan.info.id.as_str())];
    if breaks.is_empty() {
        lines.push(
            "every request began as the one before it, as far as they were compared: one behind a run that was killed is \
             compared with none"
                .to_owned(),
        );
    }
    lines.extend(breaks.iter().cloned());
    lines.extend(sum.outputs.line());
    print(app, &lines)
}

/// One break in words.
fn describe(time_ms: u64, data: &Value) -> String {
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
    let cost = data["cost"].as_f64().map(|cost| format!(", about ${cost:.4}")).unwrap_or_default();
    let day = zk_skills::date(time_ms / 1000);
    let whose = if data[DEPTH].is_u64() { "in a sub-agent, " } else { "" };
    format!("{day}: {whose}{what} ({cause}); about {} tokens were read anew{cost}", data["lost_tokens"])
}

#[cfg(test)]
mod tests {
    use zk_core::model::{Block, Message, ModelRef};
    use zk_core::service::{Durability, NewSession};
    use zk_session::MemoryStore;

    use super::*;
    use crate::commands::breaking_store::BreakingStore;

    #[tokio::test]
    async fn a_session_that_cannot_be_read_to_its_end_is_left_out_as_a_whole() {
        let store = MemoryStore::new();
        let answer = |turn: &str| EntryKind::Message {
            message: Message::assistant(vec![Block::text("Fine.")]).shared(),
            usage: Some(Box::new(TurnUsage {
                turn_id: turn.into(),
                model: ModelRef::new("p", "m"),
                usage: Usage { input: 1, output: 1, ..Usage::default() },
                cost: Some(0.5),
            })),
        };
        for (id, answers) in [("s_whole", 2), ("s_broken", 3)] {
            let new = NewSession { id: Some(id.into()), cwd: "/project".into(), parent: None };
            let open = store.create(new).await.unwrap();
            let answers = (0..answers).map(|number| answer(&format!("t_{number}"))).collect();
            open.append(answers, Durability::Process).await.unwrap();
            open.close().await.unwrap();
        }
        let store = BreakingStore { inner: store, id: "s_broken".into(), entries: 2 };
        let filter = SessionFilter { unanswered: true, ..SessionFilter::default() };
        for by in [CostBy::Session, CostBy::Model, CostBy::Day, CostBy::Plugin] {
            let Summed { totals, left_out: notices, .. } = sum_up(&store, &filter, by).await.unwrap();
            assert_eq!((totals.total.answers, totals.total.cost), (2, Some(1.0)), "{by:?}");
            assert_eq!(totals.sums.values().map(|sum| sum.answers).collect::<Vec<_>>(), [2], "{by:?}");
            assert_eq!(notices.len(), 1, "{notices:?}");
            assert!(notices[0].starts_with("s_broken is left out: "), "{notices:?}");
        }
    }
}
