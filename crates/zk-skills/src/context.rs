//! Two kinds of context messages: those before a prompt, which stay in the conversation, and those at the end
//! of a single request.

mod budget;
mod environment;
pub(crate) mod workplace;

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use zk_core::events::{
    AgentBeforeStart, BeforeStart, ContextReduced, ContextTransform, PartKind, PartLeftOut, SessionLoaded,
};
use zk_core::kernel::{BoxError, Cx, HookOptions, Plugin, Reach, Scope, Stage};
use zk_core::model::{Block, Message, Role};
use zk_core::service::{
    ContextId, ContextMode, ContextProducer, DYNAMIC_CONTEXT, Entry, EntryKind, QUERY_CONTEXT,
};

pub use budget::BudgetPart;
pub use environment::{EnvironmentPart, GitPart, date};

/// Time limit for the text of one part.
const PART_TIME_LIMIT: Duration = Duration::from_secs(2);

/// Plugin that asks each `dyn ContextProducer` of the bus for its text, for the agent and its sub-agents.
///
/// Parts are sorted by name, each in its own tag. Without any text no message is added.
#[derive(Clone, Debug, Default)]
pub struct ContextStreams {
    /// Last texts that each agent received, by part.
    told: Arc<Mutex<Told>>,
}

/// Texts by part, for each agent.
type Told = HashMap<Option<ContextId>, BTreeMap<String, String>>;

impl ContextStreams {
    /// Creates the plugin, which adds both kinds of context messages.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock_told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Message with the parts that have changed since the last message to the agent of `cx`.
    async fn changed_parts_message(&self, cx: &Cx) -> Result<Option<Message>, BoxError> {
        let mut texts = part_texts(ContextMode::PerQuery, cx).await?;
        let agent = context_id(cx);
        {
            let mut told = self.lock_told();
            let told = told.entry(agent).or_default();
            let mut is_news = |name: &str, text: &str| {
                told.insert(name.to_owned(), text.to_owned()).as_deref() != Some(text)
            };
            texts.retain(|(name, text)| is_news(name, text));
        }
        Ok(envelope(QUERY_CONTEXT, &texts).map(|text| Message::injected(text, QUERY_CONTEXT)))
    }

    fn forget(&self, cx: &Cx) {
        self.lock_told().remove(&context_id(cx));
    }
}

fn context_id(cx: &Cx) -> Option<ContextId> {
    cx.service::<ContextId>().map(|id| (*id).clone())
}

/// Texts of the parts with this mode, by name.
async fn part_texts(mode: ContextMode, cx: &Cx) -> Result<Vec<(String, String)>, BoxError> {
    let mut texts = Vec::new();
    for part in cx.items::<dyn ContextProducer>().into_iter().filter(|part| part.value.mode() == mode) {
        // The part is called inside of the caught future, so that its panics do not unwind further.
        let asked = AssertUnwindSafe(async { part.value.text(cx).await }).catch_unwind();
        let failed = match tokio::time::timeout(PART_TIME_LIMIT, asked).await {
            Ok(Ok(Ok(text))) => {
                let text = text.filter(|text| !text.trim().is_empty());
                texts.extend(text.map(|text| (part.name.to_string(), text.trim().to_owned())));
                continue;
            }
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(_)) => "it panicked".to_owned(),
            Err(_) => format!("it took longer than {} s", PART_TIME_LIMIT.as_secs()),
        };
        let (name, source) = (part.name.to_string(), part.source.to_string());
        cx.emit(PartLeftOut { kind: PartKind::ContextProducer, name, source, error: failed }).await?;
    }
    Ok(texts)
}

/// Last text of each part in a stored conversation.
fn last_texts_in(entries: &[Entry]) -> BTreeMap<String, String> {
    let mut told = BTreeMap::new();
    for entry in entries {
        let EntryKind::Message { message, .. } = &entry.kind else { continue };
        if message.injected_by.as_deref() != Some(QUERY_CONTEXT) {
            continue;
        }
        let text = message.text();
        let mut rest = text.strip_prefix(&format!("<{QUERY_CONTEXT}>\n")).unwrap_or_default();
        while let Some((name, from)) = rest.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
            let Some((part, after)) = from.split_once(&format!("</{name}>\n")) else { break };
            told.insert(name.to_owned(), part.to_owned());
            rest = after;
        }
    }
    told
}

/// Wraps the parts in one tag; `None` without parts.
fn envelope(tag: &str, texts: &[(String, String)]) -> Option<String> {
    if texts.is_empty() {
        return None;
    }
    let parts: Vec<String> = texts.iter().map(|(name, text)| format!("<{name}>{text}</{name}>")).collect();
    Some(format!("<{tag}>\n{}\n</{tag}>", parts.join("\n")))
}

impl Plugin for ContextStreams {
    fn name(&self) -> &'static str {
        "context"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let everywhere = HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() };
        scope.on_async_with_at(
            everywhere,
            self.clone(),
            async |streams: &Self, start: &AgentBeforeStart, cx: &Cx| {
                // A run that is continued has no prompt.
                if start.prompt.is_none() {
                    return Ok::<_, BoxError>(None);
                }
                let context = streams.changed_parts_message(cx).await?;
                Ok(context.map(|context| BeforeStart { messages: vec![context], ..BeforeStart::default() }))
            },
        );
        // Late, so that handlers which shorten the conversation run first.
        let late = HookOptions { stage: Stage::Late, reach: Some(Reach::Descendants), time_limit: None };
        scope.on_async_at(late, async |transform: &ContextTransform, cx: &Cx| {
            let Some((last, before)) = transform.messages.split_last() else {
                return Ok::<_, BoxError>(None);
            };
            if last.role != Role::User {
                return Ok(None);
            }
            let Some(text) = envelope(DYNAMIC_CONTEXT, &part_texts(ContextMode::PerRequest, cx).await?)
            else {
                return Ok(None);
            };
            let mut message = Message::clone(last);
            message.content.push(Block::text(text));
            let mut messages = before.to_vec();
            messages.push(message.shared());
            Ok(Some(messages))
        });
        let streams = self.clone();
        scope.on_sync_at(everywhere, move |_: &ContextReduced, cx: &Cx| streams.forget(cx));
        let streams = self.clone();
        scope.on_sync(move |loaded: &SessionLoaded, cx: &Cx| {
            streams.forget(cx);
            streams.lock_told().insert(context_id(cx), last_texts_in(&loaded.entries));
        });
        Ok(())
    }
}
