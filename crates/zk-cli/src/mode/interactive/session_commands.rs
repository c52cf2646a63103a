//! The commands that go on with another session: `/new`, `/clear` and `/resume`.

use std::sync::Arc;

use async_trait::async_trait;
use zk_agent::AgentConversation;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{
    Command, CommandOutcome, Conversation, SessionFilter, SessionStore, StoreError, SwitchTarget,
};
use zk_view::{Block, Content, ViewDriver};

use crate::app::AppContext;
use crate::commands::session_lines;
use crate::mode::lines;
use crate::mode::summary::shorten;
use crate::session_switch::SessionSwitch;
use crate::sessions::{self, Kept};
use crate::term::Style;

/// How much of the last exchange is shown when a session is resumed, in lines beside the prompt.
const GREETING_LINES: usize = 12;

/// How many sessions `/resume` lists.
const LISTED: usize = 20;

/// The commands.
pub(crate) fn all(
    conversation: &AgentConversation,
    switch: &Arc<SessionSwitch>,
    app: &AppContext,
    view: &ViewDriver,
) -> Vec<Arc<dyn Command>> {
    let make = |kind| {
        let (conversation, switch) = (conversation.clone(), switch.clone());
        let (app, view) = (app.clone(), view.clone());
        Arc::new(SessionCommand { kind, conversation, switch, app, view }) as Arc<dyn Command>
    };
    [Kind::New, Kind::Clear, Kind::Resume].map(make).into()
}

struct SessionCommand {
    kind: Kind,
    conversation: AgentConversation,
    switch: Arc<SessionSwitch>,
    app: AppContext,
    view: ViewDriver,
}

#[derive(Clone, Copy)]
enum Kind {
    New,
    Clear,
    Resume,
}

#[async_trait]
impl Command for SessionCommand {
    fn name(&self) -> &str {
        match self.kind {
            Kind::New => "new",
            Kind::Clear => "clear",
            Kind::Resume => "resume",
        }
    }

    fn help(&self) -> &str {
        match self.kind {
            Kind::New => "begin a new conversation; the present one stays saved",
            Kind::Clear => "the same as /new",
            Kind::Resume => "go on with another session: /resume ID; without one, list them",
        }
    }

    async fn run(&self, args: &str, _: &Cx) -> Result<CommandOutcome, BoxError> {
        let lines = match (self.kind, args) {
            (Kind::Resume, "") => self.list().await?,
            (Kind::Resume, id) => {
                let store = sessions::store(&self.app).map_err(|failure| failure.message)?;
                let id = zk_session::find_matching(&store, id).await?;
                self.go_on_with(SwitchTarget::Session(id)).await?
            }
            (Kind::New | Kind::Clear, "") => self.go_on_with(SwitchTarget::New).await?,
            (Kind::New | Kind::Clear, _) => {
                return Err(format!("/{} takes no arguments; type the prompt after it", self.name()).into());
            }
        };
        Ok(CommandOutcome::Show(lines.join("\n")))
    }
}

impl SessionCommand {
    async fn list(&self) -> Result<Vec<String>, BoxError> {
        let store = sessions::store(&self.app).map_err(|failure| failure.message)?;
        let cwd = Some(self.app.cwd.clone());
        let mut listed = store.list(&SessionFilter { cwd, limit: Some(LISTED), unanswered: false }).await?;
        let present = self.conversation.state().session;
        listed.retain(|info| Some(&info.id) != present.as_ref());
        let mut lines = session_lines(&listed, false);
        lines.push(match lines.len() {
            0 => "there is no other session of this directory yet".to_owned(),
            _ => "/resume ID goes on with one; the beginning of its ID is enough".to_owned(),
        });
        Ok(lines)
    }

    async fn go_on_with(&self, target: SwitchTarget) -> Result<Vec<String>, BoxError> {
        let present = self.conversation.state().session;
        if matches!(&target, SwitchTarget::Session(id) if present.as_ref() == Some(id)) {
            return Ok(vec!["this is the present session".to_owned()]);
        }
        let switched = self.conversation.switch(target.clone()).await;
        let mut lines: Vec<String> =
            self.switch.take_left().iter().filter_map(|left| describe_left(left, "/resume")).collect();
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
            (_, Some(id)) => lines.push(format!("session {id} continues")),
            (_, None) => {}
        }
        lines.extend(last_exchange(&self.view.view().blocks));
        Ok(lines)
    }
}

/// What to say of a session that was left; `back` is how to return to it.
pub(crate) fn describe_left(left: &Result<Kept, StoreError>, back: &str) -> Option<String> {
    match left {
        Err(error) => Some(format!("session not saved: {error}")),
        Ok(Kept::All(id)) => Some(format!("to go on with the one before: {back} {id}")),
        Ok(Kept::Part { id, missing }) => {
            Some(format!("session saved but for its last {missing} entries; to go on: {back} {id}"))
        }
        Ok(Kept::Nothing) => None,
    }
}

/// A conversation from its last prompt on, a line for each line that begins something: what was asked, what was done, and
/// what was not.
pub(crate) fn last_exchange(blocks: &[Arc<Block>]) -> Vec<String> {
    let is_prompt = |block: &Arc<Block>| matches!(block.content, Content::User { .. });
    let last = blocks.iter().rposition(is_prompt).unwrap_or_default();
    let first = |(_, line): (Style, String)| shorten(&line);
    let lines: Vec<String> =
        blocks.iter().skip(last).flat_map(|block| lines::block(block)).map(first).collect();
    let hidden = lines.len().saturating_sub(1 + GREETING_LINES);
    lines.iter().take(1).chain(lines.iter().skip(1 + hidden)).cloned().collect()
}
