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

/// Longest wait for the memory, besides the wait for another process.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Maximum number of conversations whose told facts are known.
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

/// Callback for problems.
#[derive(Clone)]
pub(crate) struct Outlet(pub(crate) Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Prompts whose context is being built.
    pub(crate) prompts: HashMap<Option<ContextId>, String>,
    /// Lines that a context window has.
    pub(crate) told: HashMap<Option<ContextId>, HashSet<String>>,
    /// Problems that the person was told of.
    problems: HashSet<String>,
    /// Whether facts get their vectors now.
    #[cfg(feature = "embeddings")]
    is_completing: bool,
    /// Whether the person was told that words alone decide.
    is_told_of_words: bool,
}

/// Vector of a prompt.
#[cfg_attr(not(feature = "embeddings"), expect(dead_code, reason = "this build makes none"))]
struct Meaning {
    model: String,
    vector: Vec<f32>,
}

pub(crate) fn context(cx: &Cx) -> Option<ContextId> {
    cx.service::<ContextId>().map(|id| (*id).clone())
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
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
        let mut state = self.state();
        if state.prompts.len() >= MAX_CONTEXTS {
            state.prompts.clear();
        }
        state.prompts.insert(context(cx), prompt);
    }

    /// Learns which lines the stored conversation has.
    pub(crate) fn restore(&self, event: &SessionLoaded, cx: &Cx) {
        let mut lines = HashSet::new();
        for entry in event.entries.iter() {
            let EntryKind::Message { message, .. } = &entry.kind else { continue };
            if message.injected_by.as_deref() == Some(QUERY_CONTEXT) {
                lines.extend(block::lines_in(&message.text()));
            }
        }
        let mut state = self.state();
        if state.told.len() >= MAX_CONTEXTS {
            state.told.clear();
        }
        state.told.insert(context(cx), lines);
    }

    /// Tells the person about a problem once.
    fn tell(&self, problem: &str, cx: &Cx) {
        if !self.state().problems.insert(problem.to_owned()) {
            return;
        }
        let text = format!("warning: {}", visible_line(problem));
        match &self.outlet {
            Some(Outlet(tell)) => tell(&text),
            None => cx.service::<dyn Ui>().iter().for_each(|ui| ui.notify(&text)),
        }
    }

    /// Logs a recall that told nothing. Tasks of sub-agents are no prompts of a person.
    fn note_miss(&self, outcome: MissOutcome, prompt: &str, cx: &Cx) {
        if let Some(misses) = self.misses.as_ref().filter(|_| cx.origin().depth == 0) {
            misses.note(outcome, prompt, cx.service::<Redactor>().as_deref());
        }
    }

    /// Brings the facts of files up to date, and recalls. Blocks on the files.
    fn read(
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
                // The facts that are kept are recalled nevertheless.
                Err(error) => problems.push(format!("changes of {shown} are left out: {error}")),
            }
        }
        self.store.recall(query)
    }

    /// Vector of a prompt with the name of its model, if the settings name one and it answers. Facts get theirs in the
    /// background.
    #[cfg(feature = "embeddings")]
    async fn meaning(self: &Arc<Self>, prompt: &str, cx: &Cx) -> Option<Meaning> {
        self.settings.embeddings.as_ref()?;
        let opening_cx = cx.bus().cx();
        // An opening that takes longer goes on for the next prompt.
        let opening = tokio::spawn(async move { Embedder::open(&opening_cx).await });
        let asked = async {
            let embedder = opening.await.map_err(|error| error.to_string())??;
            let vector = embedder.prompt(prompt, &self.store, cx).await?;
            Ok::<_, String>((embedder, vector))
        };
        let asked = tokio::time::timeout(PROMPT_LIMIT, asked).await;
        match asked.unwrap_or_else(|_| Err(format!("no answer within {PROMPT_LIMIT:?}"))) {
            Ok((embedder, vector)) => {
                let meaning = Meaning { model: embedder.name.clone(), vector };
                if !std::mem::replace(&mut self.state().is_completing, true) {
                    let (shared, cx) = (self.clone(), cx.bus().cx());
                    tokio::spawn(async move {
                        embedder.complete(&shared.store, &shared.project, &cx).await;
                        shared.state().is_completing = false;
                    });
                }
                Some(meaning)
            }
            Err(why) => {
                self.tell_of_words(&why, cx);
                None
            }
        }
    }

    /// Vector of a prompt, which this build does not have.
    #[cfg(not(feature = "embeddings"))]
    async fn meaning(&self, _: &str, cx: &Cx) -> Option<Meaning> {
        if self.settings.embeddings.is_some() {
            self.tell_of_words("this zk was built without embeddings", cx);
        }
        None
    }

    /// Tells once in a conversation that words alone decide.
    fn tell_of_words(&self, why: &str, cx: &Cx) {
        if !std::mem::replace(&mut self.state().is_told_of_words, true) {
            self.tell(&format!("facts are recalled by words alone, since the embeddings failed: {why}"), cx);
        }
    }

    /// Adds the facts that are near the prompt by meaning.
    #[cfg(feature = "embeddings")]
    fn add_near(
        &self,
        found: Option<Recalled>,
        meaning: Option<&Meaning>,
        query: &RecallQuery,
    ) -> Result<Option<Recalled>, MemoryError> {
        let (Some(found), Some(Meaning { model, vector })) = (&found, meaning) else { return Ok(found) };
        let near = self.store.nearest(model, &query.project, vector)?;
        self.store.merge(found.clone(), &near, query).map(Some)
    }

    /// Adds nothing: this build compares words alone.
    #[cfg(not(feature = "embeddings"))]
    fn add_near(
        &self,
        found: Option<Recalled>,
        _: Option<&Meaning>,
        _: &RecallQuery,
    ) -> Result<Option<Recalled>, MemoryError> {
        Ok(found)
    }

    /// Block with the facts for a prompt that the context window does not have yet.
    pub(crate) async fn block(self: &Arc<Self>, prompt: String, cx: &Cx) -> Option<String> {
        let max_facts = usize::try_from(self.settings.max_facts).unwrap_or(usize::MAX);
        let query = RecallQuery { words: query_words(&prompt), project: self.project.clone(), max_facts };
        let (files, trust) = (cx.service::<dyn HostFiles>(), cx.service::<dyn Trust>());
        let (reader, wanted) = (self.clone(), query.clone());
        let meaning = self.meaning(&prompt, cx).await;
        let read = self
            .blocking(move |_| {
                let mut problems = Vec::new();
                let found = reader.read(&wanted, files.as_deref(), trust.as_deref(), &mut problems);
                let found = found.and_then(|found| reader.add_near(found, meaning.as_ref(), &wanted));
                Ok((found, problems))
            })
            .await;
        let found = match read {
            Ok((found, problems)) => {
                problems.iter().for_each(|problem| self.tell(problem, cx));
                found
            }
            Err(error) => Err(error),
        };
        let recalled = match found {
            Ok(Some(recalled)) => recalled,
            Ok(None) => return None,
            Err(error) => {
                self.tell(&error.to_string(), cx);
                self.note_miss(MissOutcome::Error, &prompt, cx);
                return None;
            }
        };
        let max_tokens = usize::try_from(self.settings.max_tokens).unwrap_or(usize::MAX);
        let (places, lines, is_known) = {
            let mut state = self.state();
            let told = state.told.entry(context(cx)).or_default();
            let (places, lines) = block::news(&recalled.facts, told, &self.project, max_tokens);
            let is_known = recalled.facts.iter().any(|fact| told.contains(&block::line(fact, &self.project)));
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
            self.note_miss(outcome, &prompt, cx);
        }
        let facts: Vec<_> = places.iter().filter_map(|place| recalled.facts.get(*place).cloned()).collect();
        // Facts that a sub-agent was told are in its session, which `forget` names.
        if cx.origin().depth == 0 || !facts.is_empty() {
            let session = cx.service::<SessionId>().map(|id| id.to_string());
            let store = self.store.clone();
            // Nobody waits for the record.
            tokio::task::spawn_blocking(move || store.record_recall(session.as_deref(), &query, &facts));
        }
        (!lines.is_empty()).then(|| block::text(&lines))
    }
}
