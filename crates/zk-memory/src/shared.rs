//! State of the plugin, and the recall for one prompt.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zk_core::events::SessionLoaded;
use zk_core::kernel::Cx;
use zk_core::model::SessionId;
use zk_core::service::{ContextId, EntryKind, HostFiles, QUERY_CONTEXT, Redactor, Trust, Ui, visible_line};

use crate::memory_file::MemoryFile;
use crate::misses::{MissLog, MissOutcome};
use crate::recall::block;
#[cfg(feature = "embeddings")]
use crate::recall::meaning::{Embedder, PROMPT_LIMIT};
use crate::recall::words::query_words;
use crate::taint::Taint;
use crate::{MemoryError, MemorySettings, MemoryStore, RecallQuery, Recalled};

/// Time limit of an operation of the memory, in which it may wait for another process.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Maximum number of conversations for which told facts are remembered.
const MAX_CONTEXTS: usize = 64;

/// State that the parts of the plugin share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<MemoryStore>,
    /// Canonical root of the project.
    pub(crate) project: PathBuf,
    pub(crate) taint: Arc<Taint>,
    pub(crate) settings: MemorySettings,
    pub(crate) files: Vec<MemoryFile>,
    pub(crate) misses: Option<MissLog>,
    pub(crate) outlet: Option<Outlet>,
    pub(crate) state: Mutex<State>,
}

/// Callback that shows problems to the person.
#[derive(Clone)]
pub(crate) struct Outlet(pub(crate) Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Prompts whose context is being built, by context window.
    pub(crate) prompts: HashMap<Option<ContextId>, String>,
    /// Lines of facts that each context window contains already.
    pub(crate) told: HashMap<Option<ContextId>, HashSet<String>>,
    /// Problems that the person was told of.
    problems: HashSet<String>,
    /// Background task that embeds the facts without a vector.
    #[cfg(feature = "embeddings")]
    embedding: EmbeddingTask,
    /// Whether the person was told that facts are recalled by words alone.
    is_told_of_words: bool,
}

/// State of the background task that embeds facts.
#[cfg(feature = "embeddings")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EmbeddingTask {
    #[default]
    Idle,
    Running,
    /// A prompt came while the task ran: facts may have changed behind it, so it looks again.
    RunningAgain,
}

#[cfg(feature = "embeddings")]
impl EmbeddingTask {
    /// Requests a round of the task; true if the task is to be started.
    fn start(&mut self) -> bool {
        let is_idle = *self == Self::Idle;
        *self = if is_idle { Self::Running } else { Self::RunningAgain };
        is_idle
    }

    /// Ends a round; true if another one was requested.
    fn end_round(&mut self) -> bool {
        let goes_on = *self == Self::RunningAgain;
        *self = if goes_on { Self::Running } else { Self::Idle };
        goes_on
    }
}

/// Embedding vector of a prompt, with the name of its model.
#[cfg_attr(not(feature = "embeddings"), expect(dead_code, reason = "this build makes none"))]
struct Meaning {
    model: String,
    vector: Vec<f32>,
}

pub(crate) fn context_id(cx: &Cx) -> Option<ContextId> {
    cx.service::<ContextId>().map(|id| (*id).clone())
}

impl Shared {
    pub(crate) fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` with the store on a thread that may block.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&MemoryStore) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let store = self.store.clone();
        match tokio::time::timeout(TIME_LIMIT, tokio::task::spawn_blocking(move || work(&store))).await {
            Ok(Ok(done)) => done,
            Ok(Err(error)) => Err(MemoryError::NoAnswer(error.to_string())),
            Err(_) => Err(MemoryError::NoAnswer(format!("nothing within {} s", TIME_LIMIT.as_secs()))),
        }
    }

    pub(crate) fn note_prompt(&self, prompt: String, cx: &Cx) {
        let mut state = self.lock_state();
        if state.prompts.len() >= MAX_CONTEXTS {
            state.prompts.clear();
        }
        state.prompts.insert(context_id(cx), prompt);
    }

    /// Finds the lines of facts that a loaded conversation contains already.
    pub(crate) fn restore_told(&self, event: &SessionLoaded, cx: &Cx) {
        let mut lines = HashSet::new();
        for entry in event.entries.iter() {
            let EntryKind::Message { message, .. } = &entry.kind else { continue };
            if message.injected_by.as_deref() == Some(QUERY_CONTEXT) {
                lines.extend(block::lines_in(&message.text()));
            }
        }
        let mut state = self.lock_state();
        if state.told.len() >= MAX_CONTEXTS {
            state.told.clear();
        }
        state.told.insert(context_id(cx), lines);
    }

    /// Shows a problem to the person, each one once.
    fn report_problem(&self, problem: &str, cx: &Cx) {
        if !self.lock_state().problems.insert(problem.to_owned()) {
            return;
        }
        let text = format!("warning: {}", visible_line(problem));
        match &self.outlet {
            Some(Outlet(tell)) => tell(&text),
            None => cx.service::<dyn Ui>().iter().for_each(|ui| ui.notify(&text)),
        }
    }

    /// Logs a recall that gave the model no fact. Tasks of sub-agents are no prompts of a person.
    fn log_miss(&self, outcome: MissOutcome, prompt: &str, cx: &Cx) {
        if let Some(misses) = self.misses.as_ref().filter(|_| cx.origin().depth == 0) {
            misses.record(outcome, prompt, cx.service::<Redactor>().as_deref());
        }
    }

    /// Brings the facts of files up to date, and recalls facts for a prompt. Blocks on the files.
    fn sync_and_recall(
        &self,
        query: &RecallQuery,
        files: Option<&dyn HostFiles>,
        trust: Option<&dyn Trust>,
        problems: &mut Vec<String>,
    ) -> Result<Option<Recalled>, MemoryError> {
        for file in &self.files {
            let Some(files) = files else { break };
            let read = file.read(files, trust);
            problems.extend(read.problem);
            let shown = file.path.display();
            match self.store.sync(&file.synced(read.facts)) {
                Ok(left_out) => problems.extend(
                    left_out.iter().map(|(_, error)| format!("a fact of {shown} is left out: {error}")),
                ),
                Err(error) if error.is_of_file() => return Err(error),
                // The stored facts are recalled nevertheless.
                Err(error) => problems.push(format!("changes of {shown} are left out: {error}")),
            }
        }
        self.store.recall(query)
    }

    /// Embeds a prompt, if the settings name a model and it answers. Facts without a vector are embedded in the
    /// background.
    #[cfg(feature = "embeddings")]
    async fn embed_prompt(self: &Arc<Self>, prompt: &str, cx: &Cx) -> Option<Meaning> {
        self.settings.embeddings.as_ref()?;
        let opening_cx = cx.bus().cx();
        // If opening the model takes longer, it continues for the next prompt.
        let opening = tokio::spawn(async move { Embedder::open(&opening_cx).await });
        let asked = async {
            let embedder = opening.await.map_err(|error| error.to_string())??;
            let vector = embedder.embed_prompt(prompt, &self.store, cx).await?;
            Ok::<_, String>((embedder, vector))
        };
        let asked = tokio::time::timeout(PROMPT_LIMIT, asked).await;
        match asked.unwrap_or_else(|_| Err(format!("no answer within {PROMPT_LIMIT:?}"))) {
            Ok((embedder, vector)) => {
                let meaning = Meaning { model: embedder.name.clone(), vector };
                if self.lock_state().embedding.start() {
                    let (shared, cx) = (self.clone(), cx.bus().cx());
                    tokio::spawn(async move {
                        loop {
                            embedder.add_missing_vectors(&shared.store, &shared.project, &cx).await;
                            if !shared.lock_state().embedding.end_round() {
                                break;
                            }
                        }
                    });
                }
                Some(meaning)
            }
            Err(why) => {
                self.report_words_only(&why, cx);
                None
            }
        }
    }

    /// Returns no vector: this build has no embeddings.
    #[cfg(not(feature = "embeddings"))]
    async fn embed_prompt(&self, _: &str, cx: &Cx) -> Option<Meaning> {
        if self.settings.embeddings.is_some() {
            self.report_words_only("this zk was built without embeddings", cx);
        }
        None
    }

    /// Tells the person, once in a conversation, that facts are recalled by words alone.
    fn report_words_only(&self, why: &str, cx: &Cx) {
        if !std::mem::replace(&mut self.lock_state().is_told_of_words, true) {
            self.report_problem(
                &format!("facts are recalled by words alone, since the embeddings failed: {why}"),
                cx,
            );
        }
    }

    /// Adds the facts that are near the prompt by meaning.
    #[cfg(feature = "embeddings")]
    fn merge_near(
        &self,
        found: Option<Recalled>,
        meaning: Option<&Meaning>,
        query: &RecallQuery,
    ) -> Result<Option<Recalled>, MemoryError> {
        let (Some(found), Some(Meaning { model, vector })) = (&found, meaning) else { return Ok(found) };
        let near = self.store.nearest(model, &query.project, vector)?;
        self.store.merge(found.clone(), &near, query).map(Some)
    }

    /// Returns the facts unchanged: this build compares words alone.
    #[cfg(not(feature = "embeddings"))]
    fn merge_near(
        &self,
        found: Option<Recalled>,
        _: Option<&Meaning>,
        _: &RecallQuery,
    ) -> Result<Option<Recalled>, MemoryError> {
        Ok(found)
    }

    /// Block with the facts for a prompt, without those that the context window contains already.
    pub(crate) async fn recall_block(self: &Arc<Self>, prompt: String, cx: &Cx) -> Option<String> {
        let max_facts = usize::try_from(self.settings.max_facts).unwrap_or(usize::MAX);
        let query = RecallQuery { words: query_words(&prompt), project: self.project.clone(), max_facts };
        let (files, trust) = (cx.service::<dyn HostFiles>(), cx.service::<dyn Trust>());
        let (reader, wanted) = (self.clone(), query.clone());
        let meaning = self.embed_prompt(&prompt, cx).await;
        let read = self
            .blocking(move |_| {
                let mut problems = Vec::new();
                let found =
                    reader.sync_and_recall(&wanted, files.as_deref(), trust.as_deref(), &mut problems);
                let found = found.and_then(|found| reader.merge_near(found, meaning.as_ref(), &wanted));
                Ok((found, problems))
            })
            .await;
        let found = match read {
            Ok((found, problems)) => {
                problems.iter().for_each(|problem| self.report_problem(problem, cx));
                found
            }
            Err(error) => Err(error),
        };
        let recalled = match found {
            Ok(Some(recalled)) => recalled,
            Ok(None) => return None,
            Err(error) => {
                self.report_problem(&error.to_string(), cx);
                self.log_miss(MissOutcome::Error, &prompt, cx);
                return None;
            }
        };
        let max_tokens = usize::try_from(self.settings.max_tokens).unwrap_or(usize::MAX);
        let (places, lines, is_known) = {
            let mut state = self.lock_state();
            let told = state.told.entry(context_id(cx)).or_default();
            let (places, lines) = block::select_lines(&recalled.facts, told, &self.project, max_tokens);
            let is_known =
                recalled.facts.iter().any(|fact| told.contains(&block::fact_line(fact, &self.project)));
            told.extend(lines.iter().cloned());
            (places, lines, is_known)
        };
        let miss = match (query.words.is_empty(), recalled.facts.is_empty(), lines.is_empty()) {
            (true, true, _) => Some(MissOutcome::NoWords),
            (false, true, _) => Some(MissOutcome::NoMatch),
            (_, false, true) if is_known => Some(MissOutcome::AllTold),
            (_, false, true) => Some(MissOutcome::OverBudget),
            (_, false, false) => None,
        };
        if let Some(outcome) = miss {
            self.log_miss(outcome, &prompt, cx);
        }
        let facts: Vec<_> = places.iter().filter_map(|place| recalled.facts.get(*place).cloned()).collect();
        if cx.origin().depth == 0 && facts.iter().any(|recalled| recalled.fact.is_of_project_file()) {
            self.taint.note_file_facts(cx);
        }
        // Facts that a sub-agent was told are in its session, which `forget` names.
        if cx.origin().depth == 0 || !facts.is_empty() {
            let session = cx.service::<SessionId>().map(|id| id.to_string());
            let store = self.store.clone();
            // Nobody waits for the record.
            tokio::task::spawn_blocking(move || store.record_recall(session.as_deref(), &query, &facts));
        }
        (!lines.is_empty()).then(|| block::block_text(&lines))
    }
}
