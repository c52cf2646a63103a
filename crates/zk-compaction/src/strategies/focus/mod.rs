//! Strategy `focus`: one section of text for each topic of the conversation.

mod segments;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx, Plugin, Scope};
use zk_core::model::{Block, Compaction, Message};
use zk_core::service::{ContextId, WindowCause, WindowPlan, WindowStrategy, WindowView};

use self::segments::{HEAD, Segments};
use crate::plan::cut;
use crate::strategies::summary::{SUMMARY, summary_of};
use crate::window::plugin;

/// Default of the fewest turns between two merges.
const MIN_WINDOW: u32 = 4;

/// Maximum number of conversations whose merges are remembered.
const MAX_CONVERSATIONS: usize = 64;

/// Replaces the work on each of a person's prompts by a section, without a model: the prompt, and a line for
/// each answer and failure.
///
/// Similar sections are merged now and then in a thread. The result is used with the next change of the sent
/// messages, so that it does not break the provider's prompt cache by itself.
///
/// ```
/// use zk_compaction::{Focus, Shorten, Window};
/// use zk_core::kernel::Bus;
///
/// let bus = Bus::new();
/// bus.install(&Window::default())?;
/// bus.install(&Focus::default())?;
/// bus.install(&Shorten)?;
/// # Ok::<(), zk_core::kernel::InstallError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Focus {
    min_window: u32,
}

impl Default for Focus {
    /// At most one merge in four turns.
    fn default() -> Self {
        Self { min_window: MIN_WINDOW }
    }
}

impl Focus {
    /// Sets the fewest turns between two merges. Zero is refused at installation.
    #[must_use]
    pub fn auto_consolidate_min_window(mut self, turns: u32) -> Self {
        self.min_window = turns;
        self
    }
}

impl Plugin for Focus {
    fn name(&self) -> &'static str {
        "compaction-focus"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        if self.min_window == 0 {
            let text =
                "`auto_consolidate_min_window` must be at least 1: at 0 every request would merge again";
            return Err(text.into());
        }
        let strategy = Focused { min_window: self.min_window, scope: scope.clone(), state: Arc::default() };
        plugin::register(scope, "focus", strategy)
    }
}

struct Focused {
    min_window: u32,
    scope: Scope,
    state: Arc<Mutex<HashMap<Option<ContextId>, Merging>>>,
}

/// Merge of one conversation's sections.
#[derive(Default)]
struct Merging {
    turns: u32,
    at_work: bool,
    /// Text that was merged, and the result.
    ready: Option<(String, Segments)>,
}

fn lock(
    state: &Mutex<HashMap<Option<ContextId>, Merging>>,
) -> MutexGuard<'_, HashMap<Option<ContextId>, Merging>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl WindowStrategy for Focused {
    fn order(&self) -> i32 {
        500
    }

    async fn plan(&self, view: &WindowView<'_>, cx: &Cx) -> Result<Option<WindowPlan>, BoxError> {
        let context = cx.service::<ContextId>().map(|context| (*context).clone());
        let head = view
            .messages
            .iter()
            .filter_map(|message| summary_of(message))
            .find(|text| text.starts_with(HEAD));
        if let Some(text) = head {
            self.merge_in_background(text, context.clone());
        }
        // Merged sections alone do not justify breaking the prompt cache's prefix.
        if view.cause != WindowCause::Full {
            return Ok(None);
        }
        let merged = self.take_merged(&context, head);
        let room = (view.target / 4).max(2000);
        let Some(cut) = cut::find(view.messages, view.keep) else { return Ok(None) };
        let gone = view.messages.get(cut.clone()).unwrap_or_default();
        let earlier = || gone.iter().find_map(|message| summary_of(message)).map(Segments::parse);
        let mut segments = merged.or_else(earlier).unwrap_or_default();
        segments.add(gone, view.left_out + 1);
        Ok(Some(WindowPlan::default().cut(cut, vec![summary_message(segments.text(room), view)])))
    }
}

impl Focused {
    /// Merges similar sections in the background, if enough turns have passed.
    fn merge_in_background(&self, text: &str, context: Option<ContextId>) {
        let mut state = lock(&self.state);
        if state.len() >= MAX_CONVERSATIONS && !state.contains_key(&context) {
            state.clear();
        }
        let merging = state.entry(context.clone()).or_default();
        merging.turns = merging.turns.saturating_add(1);
        if merging.at_work || merging.turns < self.min_window {
            return;
        }
        (merging.turns, merging.at_work) = (0, true);
        let (text, shared) = (text.to_owned(), self.state.clone());
        self.scope.spawn(async move {
            let merge = move || {
                let mut segments = Segments::parse(&text);
                segments.consolidate().then_some((text, segments))
            };
            let merged = tokio::task::spawn_blocking(merge).await.ok().flatten();
            if let Some(merging) = lock(&shared).get_mut(&context) {
                merging.at_work = false;
                merging.ready = merged.or_else(|| merging.ready.take());
            }
        });
    }

    /// Takes the result of the merge, if it was made for this text.
    fn take_merged(&self, context: &Option<ContextId>, text: Option<&str>) -> Option<Segments> {
        let (of, merged) = lock(&self.state).get_mut(context)?.ready.take()?;
        (Some(&*of) == text).then_some(merged)
    }
}

fn summary_message(summary: String, view: &WindowView<'_>) -> Arc<Message> {
    let marker = Block::Compaction(Compaction { summary, tokens_before: view.bytes as u64 / 4 });
    Message { injected_by: Some(SUMMARY.to_owned()), ..Message::user(vec![marker]) }.shared()
}
