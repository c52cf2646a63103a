//! The commands that go on with another session or branch: `/new`, `/clear`, `/resume`, `/tree`, `/fork`, `/back`; and those
//! that name things: `/label` and `/name`.

use std::sync::Arc;

use async_trait::async_trait;
use zk_agent::AgentConversation;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{
    Command, CommandOutcome, Conversation, LeftSession, SessionFilter, StoreError, SwitchTarget,
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
const MAX_LISTED_SESSIONS: usize = 20;

/// Callback that replaces the draft in the editor.
pub(crate) type SetDraft = Arc<dyn Fn(String) + Send + Sync>;

/// Creates the commands.
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
    COMMANDS.map(|(kind, ..)| make(kind)).into()
}

pub(super) struct SessionCommand {
    kind: Kind,
    pub(super) conversation: AgentConversation,
    pub(super) sessions: Arc<dyn ConversationSessions>,
    setup: ChatSetup,
    view: ViewDriver,
    pub(super) set_draft: SetDraft,
    wanted: WantedScreen,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    New,
    Clear,
    Resume,
    Tree,
    Fork,
    Back,
    Label,
    Name,
}

/// Commands with their names, arguments and help.
const COMMANDS: [(Kind, &str, Option<&str>, &str); 8] = [
    (Kind::New, "new", None, "begin a new conversation; the present one stays saved"),
    (Kind::Clear, "clear", None, "the same as /new"),
    (Kind::Resume, "resume", Some("[ID]"), "go on with another session"),
    (
        Kind::Tree,
        "tree",
        Some("[ID [summary [WORDS]]]"),
        "go on from another point of this session, in a branch",
    ),
    (Kind::Fork, "fork", Some("[ID]"), "copy this session, up to here or to an entry, and go on in the copy"),
    (Kind::Back, "back", None, "return to the branch before the last move"),
    (Kind::Label, "label", Some("[TEXT]"), "label the last prompt; without text, remove its label"),
    (Kind::Name, "name", Some("TEXT"), "give this session a title"),
];

impl SessionCommand {
    fn table_row(&self) -> (&'static str, Option<&'static str>, &'static str) {
        let row = COMMANDS.iter().find(|(kind, ..)| *kind == self.kind);
        row.map_or(("", None, ""), |(_, name, hint, help)| (*name, *hint, *help))
    }
}

#[async_trait]
impl Command for SessionCommand {
    fn name(&self) -> &str {
        self.table_row().0
    }

    fn help(&self) -> &str {
        self.table_row().2
    }

    fn argument_hint(&self) -> Option<&str> {
        self.table_row().1
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let lines = match (self.kind, args) {
            (Kind::Resume, "") => self.list_sessions(cx).await?,
            (Kind::Resume, id) => {
                let id = self.sessions.find(id).await?;
                self.switch_to(SwitchTarget::Session(id)).await?
            }
            (Kind::Tree, "") => self.list_tree().await?,
            (Kind::Tree, args) => self.move_leaf(args).await?,
            (Kind::Fork, id) => self.fork(id).await?,
            (Kind::Back, "") => self.move_leaf_back().await?,
            (Kind::Label, text) => self.label(text, cx).await?,
            (Kind::Name, title) => self.rename(title).await?,
            (Kind::New | Kind::Clear, "") => self.switch_to(SwitchTarget::New).await?,
            (Kind::New | Kind::Clear | Kind::Back, _) => {
                return Err(format!("/{} takes no arguments; type the prompt after it", self.name()).into());
            }
        };
        Ok(CommandOutcome::Show(lines.join("\n")))
    }
}

impl SessionCommand {
    async fn list_sessions(&self, cx: &Cx) -> Result<Vec<String>, BoxError> {
        let cwd = Some(self.setup.cwd_now(cx));
        let filter = SessionFilter { cwd, limit: Some(MAX_LISTED_SESSIONS), unanswered: false };
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

    pub(super) async fn switch_to(&self, target: SwitchTarget) -> Result<Vec<String>, BoxError> {
        let present = self.conversation.state().session;
        if matches!(&target, SwitchTarget::Session(id) if present.as_ref() == Some(id)) {
            return Ok(vec!["this is the present session".to_owned()]);
        }
        let switched = self.conversation.switch(target.clone()).await;
        let mut lines: Vec<String> = self
            .sessions
            .take_left()
            .iter()
            .filter_map(|left| describe_left_session(left, "/resume"))
            .collect();
        let state = match switched {
            Ok(state) => state,
            Err(error) => {
                lines.push(error.to_string());
                return Err(lines.join("\n").into());
            }
        };
        match (target, state.session) {
            (SwitchTarget::Branch(_) | SwitchTarget::Tree(_), Some(_)) => {
                lines.push("another branch of this session continues; /back returns".to_owned());
            }
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
        // A drawn screen shows the stored blocks of the session instead.
        if !self.wanted.is_drawn() {
            lines.extend(last_exchange(&self.view.view().blocks));
        }
        Ok(lines)
    }
}

/// Describes a session after a switch to another one; `back` is the command that returns to it.
pub(crate) fn describe_left_session(left: &Result<LeftSession, StoreError>, back: &str) -> Option<String> {
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
