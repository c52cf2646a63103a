//! Outputs of commands without their noise.

mod command;
mod cut;
mod filter;
mod found;
mod learned;
mod rules;
mod summary;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;
use zk_core::events::{
    DecidedBy, PermissionDecided, ResultPatch, ToolBegin, ToolEnd, ToolRemark, ToolTransform,
};
use zk_core::kernel::{
    Answer, BoxError, Cx, Event, Handler, HookOptions, Notify, Plugin, Reach, Scope, Source, Stage,
};
use zk_core::model::{CallId, CallRef, ToolContent};

use crate::OutputDir;
use crate::policy::spill;
use crate::text::{count, size};
use command::runs;
pub(crate) use cut::CutOutput;
use cut::fit;
use filter::{Compressed, compress, shown_lines};
use found::{compress_page, compress_search};
pub use learned::{LearnedRule, LearnedRules};

/// Minimum share of an output that compression must save; otherwise the result stays unchanged.
const MIN_SAVED_SHARE: f64 = 0.1;

/// Shortens the output of builds, tests, listings and logs before it joins the history: progress, passed
/// tests, repetitions and generated files are omitted. Error lines are kept, so that a failure can be fixed
/// from the result; the full output is in a file that the result names. Without a directory for it nothing is
/// omitted.
///
/// Install it before [`Spill`](crate::Spill), which provides that directory.
///
/// ```
/// use zk_core::kernel::Bus;
/// use zk_tools::Compress;
///
/// Bus::new().install(&Compress::new()).unwrap();
/// ```
#[derive(Clone, Debug, Default)]
pub struct Compress {
    shared: Arc<Shared>,
    /// Whether a model shortens output that is still long after the rules.
    asks_model: bool,
    /// Rules that the outputs of the project teach.
    learned: Option<LearnedRules>,
    limits: CompressLimits,
}

/// Sizes from which [`Compress`] acts, and the size of a model's summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressLimits {
    /// Minimum number of lines of a compressed output.
    pub min_lines: usize,
    /// Minimum size of an output that a model summarises, in bytes.
    pub min_summarised_bytes: usize,
    /// Maximum size of a summary, in tokens.
    pub max_summary_tokens: u32,
}

impl Default for CompressLimits {
    fn default() -> Self {
        Self { min_lines: 10, min_summarised_bytes: 8_000, max_summary_tokens: 800 }
    }
}

#[derive(Debug, Default)]
struct Shared {
    /// Running calls, with their commands.
    running: Mutex<HashMap<CallId, Running>>,
    before: AtomicU64,
    after: AtomicU64,
}

#[derive(Clone, Debug, Default)]
struct Running {
    command: String,
    /// Kind of a result that is no command's output.
    found: Option<Found>,
    /// Whole output of a result that has only the end.
    cut: Option<CutOutput>,
    /// Whether the result has only a part of the output.
    is_part: bool,
    /// Whether a person approved exactly this call, whose result then stays whole.
    is_confirmed: bool,
}

/// Kind of a result that is no command's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Matching lines of a search.
    Matches,
    /// Page of the network, as text.
    Page,
}

impl Found {
    /// Kind of the result of a call, if its form is known.
    fn of(tool: &str, args: &Value) -> Option<Self> {
        match tool {
            "grep" if args.get("mode").and_then(Value::as_str) == Some("content") => Some(Self::Matches),
            "fetch" if args.get("raw").and_then(Value::as_bool) != Some(true) => Some(Self::Page),
            _ => None,
        }
    }

    /// Names the kind of call, for the model that shortens the result.
    fn describe(self) -> &'static str {
        match self {
            Self::Matches => "(a search in files)",
            Self::Page => "(a page of the network)",
        }
    }
}

/// Certainty that a shortened result has all that matters. Each step of the shortening may only lower it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// A model wrote down what matters.
    Summarised,
    /// Lines were left out by rules that outputs of the project taught.
    Learned,
    /// Lines were left out by built-in rules.
    Rules,
    /// Every line is there, in another form.
    Whole,
}

impl Certainty {
    fn of(compressed: &Compressed) -> Self {
        if compressed.left_out.contains_key(&rules::Kind::Learned) {
            Self::Learned
        } else if compressed.left_out_lines() > 0 {
            Self::Rules
        } else {
            Self::Whole
        }
    }
}

/// Savings of compression so far, in bytes: `cx.service::<Compression>()`.
#[derive(Clone, Debug)]
pub struct Compression(Arc<Shared>);

impl Compression {
    /// Bytes of the outputs that were compressed, before and after.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        (self.0.before.load(Ordering::Relaxed), self.0.after.load(Ordering::Relaxed))
    }

    /// Records that a call's result has only the end of its output.
    pub(crate) fn note_cut(&self, call: &CallId, cut: CutOutput) {
        self.0.with_running(|running| {
            let running = running.entry(call.clone()).or_default();
            running.is_part = true;
            running.cut = Some(cut);
        });
    }

    /// Records that a call's result has new output of this command.
    pub(crate) fn note_command(&self, call: &CallId, command: &str) {
        self.0.with_running(|running| {
            let running = running.entry(call.clone()).or_default();
            running.is_part = true;
            command.clone_into(&mut running.command);
        });
    }
}

/// An output was made shorter before it joined the history.
#[derive(Clone, Debug, Serialize)]
pub struct OutputCompressed {
    /// The call.
    pub call: Arc<CallRef>,
    /// Description of the omission.
    pub what: String,
    /// Bytes before.
    pub before: usize,
    /// Bytes after.
    pub after: usize,
    /// Certainty that nothing that matters is missing.
    pub certainty: Certainty,
}

impl Event for OutputCompressed {
    const NAME: &'static str = "output:compressed";
    type Reply = ();
    type Mode = Notify;
}

impl Compress {
    /// Creates the plugin with built-in rules only.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the run's model, without tools, shorten output that is still above
    /// [`CompressLimits::min_summarised_bytes`] after the rules. Calls that a person approved are exempt; after a failure the result is unchanged.
    #[must_use]
    pub fn asking_model(mut self) -> Self {
        self.asks_model = true;
        self
    }
}

impl Compress {
    /// Learns rules from outputs, and uses those learned before.
    #[must_use]
    pub fn learning(mut self, rules: LearnedRules) -> Self {
        self.learned = Some(rules);
        self
    }

    /// Sets the sizes from which outputs are shortened.
    #[must_use]
    pub fn limited(mut self, limits: CompressLimits) -> Self {
        self.limits = limits;
        self
    }
}

impl Plugin for Compress {
    fn name(&self) -> &'static str {
        "compress"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.provide_service(Arc::new(Compression(self.shared.clone())));
        let reach = Reach::Descendants;
        let shared = self.shared.clone();
        scope.on_sync_at(reach, move |decided: &PermissionDecided, _: &Cx| {
            if decided.allowed && decided.by == DecidedBy::Person {
                shared.with_running(|running| {
                    running.entry(decided.call.call_id.clone()).or_default().is_confirmed = true;
                });
            }
        });
        let shared = self.shared.clone();
        scope.on_sync_at(reach, move |begin: &ToolBegin, _: &Cx| {
            let command =
                begin.args.get("command").and_then(Value::as_str).filter(|_| begin.call.name == "shell");
            let found = Found::of(&begin.call.name, &begin.args);
            shared.with_running(|running| match command {
                None if found.is_some() => {
                    running.entry(begin.call.call_id.clone()).or_default().found = found;
                }
                Some(command) => {
                    command.clone_into(&mut running.entry(begin.call.call_id.clone()).or_default().command);
                }
                None => drop(running.remove(&begin.call.call_id)),
            });
        });
        let shared = self.shared.clone();
        scope.on_sync_at(reach, move |end: &ToolEnd, _: &Cx| {
            shared.with_running(|running| drop(running.remove(&end.call.call_id)));
        });
        let at = HookOptions { stage: Stage::Framework, reach: Some(reach), time_limit: None };
        scope.handle_at::<ToolTransform, _>(at, Arc::new(self.clone()));
        Ok(())
    }
}

impl Shared {
    fn with_running<T>(&self, change: impl FnOnce(&mut HashMap<CallId, Running>) -> T) -> T {
        change(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Shortens the output of a command, and learns from it.
fn compress_output(command: &str, text: &str, learned: Option<&LearnedRules>) -> Compressed {
    let (runs, shown) = (runs(command), shown_lines(text));
    let shapes = learned.map(|learned| learned.shapes_for(&runs)).unwrap_or_default();
    if let Some(learned) = learned {
        // The output is the same whether or not it could be noted.
        let _ = learned.learn(&runs, &shown);
    }
    compress(&runs, &shown, &shapes)
}

/// Describes what was done to a result.
fn describe(compressed: &Compressed) -> String {
    match compressed.left_out_lines() {
        0 => "paths stand above their lines".to_owned(),
        _ => compressed.describe(),
    }
}

/// `text` with `footer` on a separate line.
fn joined(text: &str, footer: &str) -> String {
    let is_apart = footer.is_empty() || text.is_empty() || text.ends_with('\n') || footer.starts_with('\n');
    format!("{text}{}{footer}", if is_apart { "" } else { "\n" })
}

impl Handler<ToolTransform> for Compress {
    async fn call(&self, event: &ToolTransform, cx: &Cx) -> Answer<ToolTransform> {
        let running = self.shared.with_running(|running| running.get(&event.call.call_id).cloned());
        let (Some(running), ToolContent::Text(text)) = (running, &event.content) else { return Ok(None) };
        let Some(dir) = cx.service::<OutputDir>() else { return Ok(None) };
        let is_known = match running.found {
            // A person who was asked about the call sees what the model sees, and errors stay whole.
            Some(_) => !running.is_confirmed && !event.is_error,
            None => !running.command.is_empty(),
        };
        if !is_known || text.lines().count() < self.limits.min_lines {
            return Ok(None);
        }
        let (found, learned) = (running.found, self.learned.clone());
        let (cut, command, given) = (running.cut, running.command.clone(), text.clone());
        let work = tokio::task::spawn_blocking(move || {
            let whole = cut.and_then(|cut| cut.whole(&given));
            let text = whole.as_ref().map_or(&given, |whole| &whole.text);
            let compressed = match found {
                Some(Found::Matches) => compress_search(text),
                Some(Found::Page) => compress_page(text),
                None => compress_output(&command, text, learned.as_ref()),
            };
            (whole, compressed)
        });
        let (whole, compressed) = work.await?;
        let mut certainty = Certainty::of(&compressed);
        let (mut shorter, mut what) = (compressed.text.clone(), describe(&compressed));
        let asked = running.found.map_or(running.command.as_str(), |found| found.describe());
        if self.asks_model
            && !running.is_confirmed
            && let Some(summary) =
                summary::of(&Source::new(self.name()), (asked, &shorter), self.limits, cx).await
        {
            (shorter, what) = (summary, "a model wrote down what matters".to_owned());
            certainty = certainty.min(Certainty::Summarised);
        }
        let before = whole.as_ref().map_or(text.len(), |whole| whole.bytes);
        if let Some(whole) = &whole {
            let fitted = fit(&shorter, whole.limit);
            if fitted.left_out > 0 {
                let lines = count(compressed.left_out_lines() + fitted.left_out, "line");
                certainty = certainty.min(Certainty::Rules);
                what = format!("{lines}: its end and the lines before that say what went wrong are here");
            }
            shorter = joined(&fitted.text, &whole.footer);
        }
        let saved = before.saturating_sub(shorter.len());
        if (saved as f64) < before as f64 * MIN_SAVED_SHARE || saved < 400 {
            return Ok(None);
        }
        // Omitted text has to be stored somewhere.
        let (place, name) = match whole {
            Some(whole) => (whole.file, "the whole of it"),
            None => {
                let (dir, tool, bytes) = (dir.0.clone(), event.call.name.clone(), text.clone());
                let saved =
                    tokio::task::spawn_blocking(move || spill::save(&dir, &tool, bytes.as_bytes())).await?;
                let Ok(place) = saved else { return Ok(None) };
                // The first line of a part names its whole.
                (place, if running.is_part { "this part" } else { "the whole of it" })
            }
        };
        let after = shorter.len();
        self.shared.before.fetch_add(before as u64, Ordering::Relaxed);
        self.shared.after.fetch_add(after as u64, Ordering::Relaxed);
        // Added last, so that no step of the shortening can remove it.
        let note = format!(
            "[{} became {}: {what}; {name} is in {}{}]",
            size(before as u64),
            size(after as u64),
            place.display(),
            spill::handle_of(&place)
        );
        let separator = if shorter.ends_with('\n') { "" } else { "\n" };
        let content = ToolContent::Text(format!("{shorter}{separator}{note}"));
        let percent = saved * 100 / before.max(1);
        let text = format!(
            "the model sees {} of {}, {percent} % less: {what}",
            size(after as u64),
            size(before as u64)
        );
        let _ = cx.emit(ToolRemark { call: event.call.clone(), text }).await;
        let _ = cx.emit(OutputCompressed { call: event.call.clone(), what, before, after, certainty }).await;
        Ok(Some(ResultPatch { content: Some(content), ..ResultPatch::default() }))
    }
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn a_footer_stands_on_a_line_of_its_own_behind_a_summary_without_a_line_end() {
        assert_eq!(joined("2 tests failed", "(exit code 1)"), "2 tests failed\n(exit code 1)");
        assert_eq!(joined("2 tests failed\n", "(exit code 1)"), "2 tests failed\n(exit code 1)");
        assert_eq!(joined("2 tests failed", "\n(exit code 1)"), "2 tests failed\n(exit code 1)");
        assert_eq!(joined("2 tests failed", ""), "2 tests failed");
    }
}
