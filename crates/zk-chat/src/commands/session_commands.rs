//! The commands that go on with another session: `/new`, `/clear` and `/resume`.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use zk_agent::AgentConversation;
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::Role;
use zk_core::service::{
    Command, CommandOutcome, Conversation, Entry, EntryKind, LeftSession, SessionFilter, StoreError,
    SwitchTarget,
};
use zk_tui::Style;
use zk_tui::plain::lines;
use zk_tui::plain::lines::shorten;
use zk_view::{Block, Content, ViewDriver};

use super::session_lines::session_lines;
use crate::conversation::wanted_screen::WantedScreen;
use crate::opening::factory::OpenedConversation;
use crate::opening::sessions::ConversationSessions;
use crate::opening::setup::ChatSetup;

/// Maximum number of lines of the last exchange shown on resume, without the prompt.
const GREETING_LINES: usize = 12;

/// Maximum number of sessions that `/resume` lists.
const LISTED: usize = 20;

/// Callback that replaces the draft in the editor.
pub(crate) type SetDraft = Arc<dyn Fn(String) + Send + Sync>;

/// The commands.
pub(crate) fn all(
    opened: &OpenedConversation,
    setup: &ChatSetup,
    view: &ViewDriver,
    set_draft: &SetDraft,
    wanted: &WantedScreen,
) -> Vec<Arc<dyn Command>> {
    let make = |kind| {
        let (conversation, sessions) = (opened.conversation.clone(), opened.sessions.clone());
        let (setup, view, set_draft, wanted) =
            (setup.clone(), view.clone(), set_draft.clone(), wanted.clone());
        Arc::new(SessionCommand { kind, conversation, sessions, setup, view, set_draft, wanted })
            as Arc<dyn Command>
    };
    [Kind::New, Kind::Clear, Kind::Resume, Kind::Tree].map(make).into()
}

struct SessionCommand {
    kind: Kind,
    conversation: AgentConversation,
    sessions: Arc<dyn ConversationSessions>,
    setup: ChatSetup,
    view: ViewDriver,
    set_draft: SetDraft,
    wanted: WantedScreen,
}

#[derive(Clone, Copy)]
enum Kind {
    New,
    Clear,
    Resume,
    Tree,
}

#[async_trait]
impl Command for SessionCommand {
    fn name(&self) -> &str {
        match self.kind {
            Kind::New => "new",
            Kind::Clear => "clear",
            Kind::Resume => "resume",
            Kind::Tree => "tree",
        }
    }

    fn help(&self) -> &str {
        match self.kind {
            Kind::New => "begin a new conversation; the present one stays saved",
            Kind::Clear => "the same as /new",
            Kind::Resume => "go on with another session",
            Kind::Tree => "go back to an earlier prompt, in a copy of this session",
        }
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let lines = match (self.kind, args) {
            (Kind::Resume, "") => self.list(cx).await?,
            (Kind::Resume, id) => {
                let id = self.sessions.find(id).await?;
                self.go_on_with(SwitchTarget::Session(id)).await?
            }
            (Kind::Tree, "") => self.tree().await?,
            (Kind::Tree, id) => self.go_back_to(id).await?,
            (Kind::New | Kind::Clear, "") => self.go_on_with(SwitchTarget::New).await?,
            (Kind::New | Kind::Clear, _) => {
                return Err(format!("/{} takes no arguments; type the prompt after it", self.name()).into());
            }
        };
        Ok(CommandOutcome::Show(lines.join("\n")))
    }
}

impl SessionCommand {
    async fn list(&self, cx: &Cx) -> Result<Vec<String>, BoxError> {
        let cwd = Some(self.setup.cwd_now(cx));
        let filter = SessionFilter { cwd, limit: Some(LISTED), unanswered: false };
        let mut listed = self.sessions.list(&filter).await?;
        let present = self.conversation.state().session;
        listed.retain(|info| Some(&info.id) != present.as_ref());
        let mut lines = session_lines(&listed, false);
        lines.push(match lines.len() {
            0 => "there is no other session of this directory yet".to_owned(),
            _ => "/resume ID goes on with one; the beginning of its ID is enough".to_owned(),
        });
        Ok(lines)
    }

    /// Lists the prompts of this session; each line starts with the id to go back to.
    async fn tree(&self) -> Result<Vec<String>, BoxError> {
        let prompts = prompts(&*self.sessions).await?;
        let mut lines: Vec<String> =
            prompts.iter().map(|(id, text)| shorten(&format!("{id}  {text}"))).collect();
        lines.push(match lines.len() {
            0 => "there is no earlier prompt that is saved".to_owned(),
            _ => "/tree ID goes back to one, in a copy of this session".to_owned(),
        });
        Ok(lines)
    }

    /// Returns to the state before an earlier prompt, which becomes the draft.
    async fn go_back_to(&self, id: &str) -> Result<Vec<String>, BoxError> {
        let wanted = id.to_owned();
        let (before, text) =
            visit(&*self.sessions, move |entry, (before, text): &mut (_, Option<String>)| {
                *text = prompt(&entry).filter(|_| entry.id.as_str() == wanted);
                // A run begins with its prompt.
                if text.is_none() && !matches!(entry.kind, EntryKind::RunStart { .. }) {
                    *before = Some(entry.id);
                }
                if text.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .await?;
        let text = text.ok_or_else(|| format!("this session has no prompt `{id}`; /tree lists them"))?;
        let target = before.map_or(SwitchTarget::New, SwitchTarget::Fork);
        let mut lines = self.go_on_with(target).await?;
        (self.set_draft)(text);
        lines.push("the prompt is typed again below: change it, and send it".to_owned());
        Ok(lines)
    }

    async fn go_on_with(&self, target: SwitchTarget) -> Result<Vec<String>, BoxError> {
        let present = self.conversation.state().session;
        if matches!(&target, SwitchTarget::Session(id) if present.as_ref() == Some(id)) {
            return Ok(vec!["this is the present session".to_owned()]);
        }
        let switched = self.conversation.switch(target.clone()).await;
        let mut lines: Vec<String> =
            self.sessions.take_left().iter().filter_map(|left| describe_left(left, "/resume")).collect();
        let state = match switched {
            Ok(state) => state,
            Err(error) => {
                lines.push(error.to_string());
                return Err(lines.join("\n").into());
            }
        };
        match (target, state.session) {
            (SwitchTarget::New, Some(_)) => lines.push("a new conversation begins".to_owned()),
            (SwitchTarget::New, None) => {
                lines.push("a new conversation begins, which is not saved".to_owned())
            }
            (_, Some(id)) => {
                lines.push(format!("session {id} continues"));
                lines.extend(self.sessions.not_shown());
            }
            (_, None) => {}
        }
        // The drawn screen shows its recorded blocks.
        if !self.wanted.is_drawn() {
            lines.extend(last_exchange(&self.view.view().blocks));
        }
        Ok(lines)
    }
}

/// Streams the stored entries of the present session to a visitor; returns the visitor's result.
async fn visit<T: Default + Send + 'static>(
    sessions: &dyn ConversationSessions,
    mut visit: impl FnMut(Entry, &mut T) -> ControlFlow<()> + Send + 'static,
) -> Result<T, StoreError> {
    let found = Arc::<Mutex<T>>::default();
    let left = found.clone();
    let visit =
        Box::new(move |entry, _| visit(entry, &mut left.lock().unwrap_or_else(PoisonError::into_inner)));
    if let Some(open) = sessions.open_session() {
        open.scan(visit).await?;
    }
    Ok(std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// The text of a user message.
fn prompt(entry: &Entry) -> Option<String> {
    let EntryKind::Message { message, .. } = &entry.kind else { return None };
    let is_prompt = message.role == Role::User && message.injected_by.is_none();
    Some(message.text()).filter(|text| is_prompt && !text.trim().is_empty())
}

/// Prompts of the present session, newest first: ids and beginnings.
pub(crate) async fn prompts(
    sessions: &dyn ConversationSessions,
) -> Result<Vec<(String, String)>, StoreError> {
    let mut prompts: Vec<(String, String)> = visit(sessions, |entry, prompts: &mut Vec<_>| {
        if let Some(text) = prompt(&entry) {
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            prompts.push((entry.id.as_str().to_owned(), line));
        }
        ControlFlow::Continue(())
    })
    .await?;
    prompts.reverse();
    Ok(prompts)
}

/// Describes a session after a switch to another one; `back` is the command that returns to it.
pub(crate) fn describe_left(left: &Result<LeftSession, StoreError>, back: &str) -> Option<String> {
    match left {
        Err(error) => Some(format!("session not saved: {error}")),
        Ok(LeftSession::All(id)) => Some(format!("to go on with the one before: {back} {id}")),
        Ok(LeftSession::Part { id, missing }) => {
            Some(format!("session saved but for its last {missing} entries; to go on: {back} {id}"))
        }
        Ok(LeftSession::Nothing) => None,
    }
}

/// Summary of the last exchange, in lines: prompt, actions and refused calls.
pub(crate) fn last_exchange(blocks: &[Arc<Block>]) -> Vec<String> {
    let is_prompt = |block: &Arc<Block>| matches!(block.content, Content::User { .. });
    let last = blocks.iter().rposition(is_prompt).unwrap_or_default();
    let first = |(_, line): (Style, String)| shorten(&line);
    let lines: Vec<String> =
        blocks.iter().skip(last).flat_map(|block| lines::block(block)).map(first).collect();
    let hidden = lines.len().saturating_sub(1 + GREETING_LINES);
    lines.iter().take(1).chain(lines.iter().skip(1 + hidden)).cloned().collect()
}
