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

    fn note_miss(&self, outcome: MissOutcome, prompt: &str, cx: &Cx) {
        if let Some(misses) = &self.misses {
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

    /// Block with the facts for a prompt that the context window does not have yet.
    pub(crate) async fn block(self: &Arc<Self>, prompt: String, cx: &Cx) -> Option<String> {
        let max_facts = usize::try_from(self.settings.max_facts).unwrap_or(usize::MAX);
        let query = RecallQuery { words: query_words(&prompt), project: self.project.clone(), max_facts };
        let (files, trust) = (cx.service::<dyn HostFiles>(), cx.service::<dyn Trust>());
        let (reader, wanted) = (self.clone(), query.clone());
        let read = self
            .blocking(move |_| {
                let mut problems = Vec::new();
                let found = reader.read(&wanted, files.as_deref(), trust.as_deref(), &mut problems);
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
            (true, _, _) => Some(MissOutcome::NoWords),
            (false, true, _) => Some(MissOutcome::NoMatch),
            (false, false, true) if is_known => Some(MissOutcome::AllTold),
            (false, false, true) => Some(MissOutcome::OverBudget),
            (false, false, false) => None,
        };
        if let Some(outcome) = miss {
            self.note_miss(outcome, &prompt, cx);
        }
        let facts: Vec<_> = places.iter().filter_map(|place| recalled.facts.get(*place).cloned()).collect();
        let session = cx.service::<SessionId>().map(|id| id.to_string());
        let store = self.store.clone();
        // Nobody waits for the record.
        tokio::task::spawn_blocking(move || store.record_recall(session.as_deref(), &query, &facts));
        (!lines.is_empty()).then(|| block::text(&lines))
    }
}
