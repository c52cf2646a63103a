use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::model::{
    Approved, CallId, Effects, ErrorKind, Message, ModelRef, Role, RunId, ToolError, ToolOutput, ToolSpec,
    WireReady, WireRules,
};
use zk_core::service::{CallPlace, Entry, EntryKind, RunStatus, Tool, ToolCx};

use crate::script::{Asked, Script, Turn};

/// Number of answers with calls before the last answer of a run.
const CALLING_TURNS: usize = 3;

/// Number of calls in each of them.
const CALLS: usize = 2;

/// Name of the tool.
const TOOL: &str = "act";

/// Scripted work of agents whose runs are cut off: a file for each run has what its models were asked and which effects its
/// calls had, and [`check`](TracedWork::check) compares it with the session of the run.
///
/// The prompt of a run is its name in the files.
///
/// ```
/// use zk_testkit::TracedWork;
///
/// let work = TracedWork::new(std::env::temp_dir(), || std::time::Duration::ZERO);
/// assert_eq!(&*work.tool().spec().name, "act");
/// // Nothing is stored of a run that never began.
/// assert!(work.check("r_without_session", &[]).is_err());
/// ```
#[derive(Clone, Debug)]
pub struct TracedWork {
    dir: PathBuf,
    pause: fn() -> Duration,
}

/// Figures of runs that repeated nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// Number of requests to the model whose answers were not stored.
    pub lost_answers: usize,
    /// Number of calls whose outcome was told as unknown.
    pub unknown_calls: usize,
}

impl std::ops::AddAssign for Traced {
    fn add_assign(&mut self, other: Self) {
        self.lost_answers += other.lost_answers;
        self.unknown_calls += other.unknown_calls;
    }
}

impl TracedWork {
    /// Creates work with files in `dir`, and this pause before and after each effect and before each answer.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, pause: fn() -> Duration) -> Self {
        Self { dir: dir.into(), pause }
    }

    /// Returns the model: it calls the tool twice in each of three answers, and says that it is done in the fourth.
    #[must_use]
    pub fn script(&self) -> Script {
        let work = self.clone();
        Script::answering(move |asked| work.answer(asked))
    }

    /// Returns the tool, whose effect is a line in the file of its run.
    #[must_use]
    pub fn tool(&self) -> Arc<dyn Tool> {
        let parameters = json!({
            "type": "object",
            "properties": {"run": {"type": "string"}, "effect": {"type": "string"}},
            "required": ["run", "effect"],
        });
        Arc::new(Act { spec: ToolSpec::new(TOOL, "Has an effect.", parameters), work: self.clone() })
    }

    fn answer(&self, asked: &Asked) -> Turn {
        let run = asked.messages.first().map(|first| first.text()).unwrap_or_default();
        let turn = asked.messages.iter().filter(|message| message.role == Role::Assistant).count();
        let nonce = format!("{turn}-{}", RunId::fresh());
        if let Err(error) = self.add_line(&run, &format!("ask {nonce}")) {
            return Turn::new().error(ErrorKind::Refused, error.to_string());
        }
        let said = Turn::new().delay((self.pause)()).text(&nonce);
        if turn >= CALLING_TURNS {
            return said;
        }
        (0..CALLS).fold(said, |said, call| {
            let effect = format!("{nonce}-{call}");
            said.call_as(format!("c_{effect}"), TOOL, json!({"run": run, "effect": effect}))
        })
    }

    fn path(&self, run: &str) -> PathBuf {
        let name: String = run.chars().filter(|c| c.is_ascii_alphanumeric() || "_-".contains(*c)).collect();
        self.dir.join(name)
    }

    fn add_line(&self, run: &str, line: &str) -> std::io::Result<()> {
        // One write, so that the line is whole or not there.
        let line = format!("{line}\n");
        OpenOptions::new().create(true).append(true).open(self.path(run))?.write_all(line.as_bytes())
    }

    /// Compares the file of a finished run with the entries of its session.
    ///
    /// # Errors
    /// The broken rule: an answer was asked for again that was stored, an effect was repeated or comes from an answer that was
    /// not stored, the outcome of a call is told wrongly, or the history needs repairs on the wire.
    pub fn check(&self, run: &str, entries: &[Entry]) -> Result<Traced, String> {
        let file = self.path(run);
        let lines = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let found = Found::in_session(entries);
        let checked = found.check_end().and_then(|()| found.check_asks(&lines)).and_then(|lost_answers| {
            let unknown_calls = found.check_effects(&lines)?;
            Ok(Traced { lost_answers, unknown_calls })
        });
        checked.map_err(|rule| {
            let entries: Vec<String> = entries.iter().map(|entry| format!("{:?}", entry.kind)).collect();
            format!("{run}: {rule}\n{lines}\n{}", entries.join("\n"))
        })
    }
}

/// Traces of a run in its session.
#[derive(Default)]
struct Found {
    messages: Vec<Arc<Message>>,
    /// Texts of answers that were stored before their calls began.
    opened: Vec<String>,
    begun: BTreeSet<CallId>,
    ended: BTreeSet<CallId>,
    ends: Vec<RunStatus>,
}

impl Found {
    fn in_session(entries: &[Entry]) -> Self {
        let mut found = Self::default();
        for entry in entries {
            match &entry.kind {
                EntryKind::Message { message, .. } => found.messages.push(message.clone()),
                EntryKind::OpenTurn { message, .. } => found.opened.push(message.text()),
                EntryKind::CallBegin { call_id, .. } => _ = found.begun.insert(call_id.clone()),
                EntryKind::CallEnd { call_id, .. } => _ = found.ended.insert(call_id.clone()),
                EntryKind::RunEnd { status, .. } => found.ends.push(*status),
                _ => {}
            }
        }
        found
    }

    fn answers(&self) -> Vec<String> {
        let answers = self.messages.iter().filter(|message| message.role == Role::Assistant);
        answers.map(|message| message.text()).collect()
    }

    fn check_end(&self) -> Result<(), String> {
        let answers = self.answers().len();
        if self.ends != [RunStatus::Completed] || answers != CALLING_TURNS + 1 {
            return Err(format!("the run has {answers} answers and ended {:?}", self.ends));
        }
        let Some((_, asked)) = self.messages.split_last() else { return Ok(()) };
        let ready = WireReady::normalise(asked, &WireRules::tolerant(ModelRef::new("any", "model")));
        match ready.repairs() {
            [] => Ok(()),
            repairs => Err(format!("the history needs {repairs:?}")),
        }
    }

    /// Checks that each stored answer is the last that was asked for in its place; returns the number of those before.
    fn check_asks(&self, lines: &str) -> Result<usize, String> {
        let asked: Vec<&str> = lines.lines().filter_map(|line| line.strip_prefix("ask ")).collect();
        let last: BTreeMap<&str, &str> =
            asked.iter().filter_map(|nonce| Some((nonce.split_once('-')?.0, *nonce))).collect();
        let answers = self.answers();
        for answer in answers.iter().chain(&self.opened) {
            let place = answer.split('-').next().unwrap_or_default();
            if last.get(place) != Some(&answer.as_str()) {
                return Err(format!("answer {answer} was stored and asked for again"));
            }
        }
        Ok(asked.len() - answers.len())
    }

    /// Checks that each call had its effect as often as its result says; returns the number of unknown outcomes.
    fn check_effects(&self, lines: &str) -> Result<usize, String> {
        let mut effects: BTreeMap<&str, usize> = BTreeMap::new();
        for effect in lines.lines().filter_map(|line| line.strip_prefix("effect ")) {
            *effects.entry(effect).or_default() += 1;
        }
        let mut unknown = 0;
        for result in self.messages.iter().flat_map(|message| message.results()) {
            let id = &result.call_id;
            let name = id.as_str().strip_prefix("c_").unwrap_or_default();
            let count = effects.remove(name).unwrap_or_default();
            let is_unknown = result.content.to_text().starts_with("Outcome unknown");
            let was_cut_off = self.begun.contains(id) && !self.ended.contains(id);
            if is_unknown != was_cut_off {
                return Err(format!("call {id} was cut off: {was_cut_off}, told as unknown: {is_unknown}"));
            }
            // A call that could not be recorded as begun was not run, and says so.
            let expected = if is_unknown {
                0..=1
            } else {
                usize::from(!result.is_error)..=usize::from(!result.is_error)
            };
            if !expected.contains(&count) {
                return Err(format!("call {id} had its effect {count} times"));
            }
            unknown += usize::from(is_unknown);
        }
        match effects.keys().next() {
            Some(effect) => Err(format!("effect {effect} comes from no stored answer")),
            None => Ok(unknown),
        }
    }
}

/// Tool whose effect is a line in a file.
struct Act {
    spec: Arc<ToolSpec>,
    work: TracedWork,
}

#[async_trait]
impl Tool for Act {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::Unknown
    }

    async fn call(&self, approved: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        let text =
            |name: &str| approved.args().get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        tokio::time::sleep((self.work.pause)()).await;
        let added = self.work.add_line(&text("run"), &format!("effect {}", text("effect")));
        added.map_err(|error| ToolError::failed(error.to_string()))?;
        tokio::time::sleep((self.work.pause)()).await;
        Ok(ToolOutput::text("done"))
    }
}
