use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use zk_agent::{Agent, AgentConversation};
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::{AgentError, Model, ThinkingLevel, ThinkingSupport};
use zk_core::service::{Questions, Ui};
use zk_tui::Keymap;
use zk_view::{Block, ViewDriver};

use super::carried::Carried;
use super::error::ChatError;
use super::provider_access::ProviderAccess;
use super::sessions::ConversationSessions;
use super::setup::ChatSetup;

/// Beginning of a conversation.
#[derive(Clone, Copy, Debug)]
pub enum ConversationSource<'a> {
    /// A conversation with the settings that the program was started with.
    Start,
    /// A conversation that follows another, with settings that were read anew or are those of before.
    Carried(&'a Carried),
}

/// Callback, called once with what of a session is not shown.
pub type OnShown<'a> = Box<dyn FnOnce(Option<String>) + Send + 'a>;

/// Person's side of a conversation that is opened.
pub struct ConversationHost<'a> {
    /// Asks the person.
    pub ui: Arc<dyn Ui>,
    /// Questions that wait for answers; nothing where nobody answers.
    pub questions: Option<Arc<Questions>>,
    /// View of the conversation.
    pub view: ViewDriver,
    /// Ends the opening; without it nothing does.
    pub stop: Option<&'a CancellationToken>,
    /// Callback once the view shows the session, before anything of it goes on.
    pub on_shown: OnShown<'a>,
}

impl fmt::Debug for ConversationHost<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConversationHost").field("view", &self.view).finish_non_exhaustive()
    }
}

impl ConversationHost<'_> {
    /// Awaits `work`, unless the opening is stopped.
    ///
    /// # Errors
    /// Those of `work`, and [`ChatError::StoppedOpening`].
    pub async fn unless_stopped<T>(
        stop: Option<&CancellationToken>,
        work: impl Future<Output = Result<T, ChatError>>,
    ) -> Result<T, ChatError> {
        let Some(stop) = stop else { return work.await };
        stop.run_until_cancelled(work).await.unwrap_or(Err(ChatError::StoppedOpening))
    }
}

/// Conversation as its factory opens it.
pub struct OpenedConversation {
    /// Agent on a bus of its own.
    pub agent: Agent,
    /// Conversation of the agent.
    pub conversation: AgentConversation,
    /// Sessions of the conversation.
    pub sessions: Arc<dyn ConversationSessions>,
}

impl fmt::Debug for OpenedConversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedConversation").field("model", &self.agent.model()).finish_non_exhaustive()
    }
}

/// Model and reasoning that a name such as `anthropic/opus:high` stands for.
#[derive(Clone, Debug)]
pub struct NamedModel {
    /// Model of a provider that is registered.
    pub model: Model,
    /// Reasoning that the name asks for.
    pub thinking: Option<ThinkingLevel>,
}

/// Settings as a person reads them.
#[derive(Clone, Debug, Default)]
pub struct SettingsReport {
    /// A line for each setting that is not the default, with its origin.
    pub lines: Vec<String>,
    /// File of the person's own settings; nothing where there can be none.
    pub file: Option<PathBuf>,
}

/// Factory of the next conversation, with everything that is set as it was read anew.
pub struct Reread {
    /// Factory with what was read.
    pub factory: Arc<dyn ConversationFactory>,
    /// Warnings of reading it.
    pub warnings: Vec<String>,
}

impl fmt::Debug for Reread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reread").field("warnings", &self.warnings).finish_non_exhaustive()
    }
}

/// Parts of a project that do not count until the person says so.
#[async_trait]
pub trait UnapprovedProject: Send {
    /// Asks for each of them. Anything but a yes leaves it ignored.
    ///
    /// # Errors
    /// When what was approved cannot be read.
    async fn ask(
        self: Box<Self>,
        questions: &Questions,
        cx: &Cx,
    ) -> Result<Arc<dyn ConversationFactory>, BoxError>;
}

/// Opens conversations: from the start of the program, and from the conversation before. Knows providers and models by
/// name.
#[async_trait]
pub trait ConversationFactory: Send + Sync {
    /// Place, settings and environment of the conversation.
    fn setup(&self) -> &ChatSetup;

    /// Keys of the person as they are set now, and what could not be done of them, in a line each.
    fn keymap(&self) -> (Keymap, Vec<String>) {
        (Keymap::default(), Vec::new())
    }

    /// The project's parts that the person has to be asked about, if there are any.
    fn unapproved(&self) -> Option<Box<dyn UnapprovedProject>> {
        None
    }

    /// Access to providers for a person who has none yet, or wants another one; nothing where there is no choice.
    fn provider_access(&self) -> Option<Arc<dyn ProviderAccess>> {
        None
    }

    /// The last run of the stored session that the start goes on with: its end is there before all of it is read. Nothing
    /// of a new session.
    async fn last_run(&self) -> Option<Vec<Arc<Block>>> {
        None
    }

    /// Opens a conversation. Of one that fails nothing goes on, and what was carried stays.
    ///
    /// # Errors
    /// [`ChatError::StoppedOpening`], and [`ChatError::Factory`] for whatever is missing.
    async fn open(
        &self,
        source: ConversationSource<'_>,
        host: ConversationHost<'_>,
    ) -> Result<OpenedConversation, ChatError>;

    /// Reads everything that is set anew; this factory stays as it is.
    ///
    /// # Errors
    /// When a conversation could not begin with it.
    fn reread(&self) -> Result<Reread, BoxError> {
        Err("this program reads nothing that could be read anew".into())
    }

    /// Has the next [`reread`](Self::reread) work in another directory as well; gives its path.
    ///
    /// # Errors
    /// When it is no directory, or the conversation cannot work elsewhere.
    fn add_directory(&self, dir: &Path) -> Result<PathBuf, BoxError> {
        Err(format!("this program cannot add {}", dir.display()).into())
    }

    /// The model that `name` means to the conversation of an agent, whose provider is opened where it is not there.
    ///
    /// # Errors
    /// When its provider cannot be opened.
    async fn find_model(&self, name: &str, _agent: &Agent) -> Result<NamedModel, BoxError> {
        Err(format!("there is no model {name}: this program has only one").into())
    }

    /// A model of the provider `name`, which is opened where it is not there: its default where none is named.
    ///
    /// # Errors
    /// When the provider cannot be opened, or has no model.
    async fn find_provider(
        &self,
        name: &str,
        _model: Option<&str>,
        _agent: &Agent,
    ) -> Result<Model, BoxError> {
        Err(format!("there is no provider {name}: this program has only one").into())
    }

    /// The model that the built-in agent begins with, for a conversation that began with another backend. Its provider is
    /// opened where it is not there.
    ///
    /// # Errors
    /// When its provider cannot be opened, or has no model.
    async fn own_model(&self, _agent: &Agent) -> Result<Model, BoxError> {
        Err("this program has no model for the built-in agent".into())
    }

    /// The models of all providers that have what they need, by what is known without asking anybody.
    async fn known_models(&self) -> Vec<Model> {
        Vec::new()
    }

    /// Levels of reasoning that can be asked of a model, the least first; none where it has no levels.
    fn thinking_levels(&self, model: &Model) -> Vec<String> {
        let levels: &[&str] = match model.capabilities.thinking {
            ThinkingSupport::None => &[],
            ThinkingSupport::Budget => &["off", "low", "medium", "high"],
            ThinkingSupport::Effort => &["low", "medium", "high"],
            ThinkingSupport::Adaptive => &["off", "low", "medium", "high", "adaptive"],
        };
        levels.iter().map(ToString::to_string).collect()
    }

    /// Purpose of a model in a few words, where it is known.
    fn purpose(&self, _model: &Model) -> Option<String> {
        None
    }

    /// Describes where commands run and what holds them.
    fn describe_place(&self, _agent: &Agent) -> Option<String> {
        None
    }

    /// Settings that hold, each in a line with its origin, and the person's own file of them.
    fn settings_report(&self) -> SettingsReport {
        SettingsReport::default()
    }

    /// Forgets the stored key or sign-in of a provider. Says what was done.
    ///
    /// # Errors
    /// When nothing is stored, or the store cannot be written.
    async fn sign_out(&self, provider: &str) -> Result<String, BoxError> {
        Err(format!("this program stores nothing for {provider}").into())
    }

    /// A remark on a model of which nothing is known.
    fn remark_on(&self, _model: &Model) -> Option<String> {
        None
    }

    /// Servers of tools that an agent has, in a few words each.
    fn servers(&self, _agent: &Agent) -> Vec<String> {
        Vec::new()
    }

    /// Describes the error of a run, with what to do next.
    fn describe_error(&self, error: &AgentError) -> String {
        error.to_string()
    }
}
