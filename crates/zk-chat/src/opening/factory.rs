use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use zk_agent::{Agent, AgentConversation};
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::{AgentError, Model, ThinkingLevel, ThinkingSupport};
use zk_core::service::{CustomEntry, Questions, Ui};
use zk_tui::Keymap;
use zk_view::{Block, ViewDriver};

use super::carried::Carried;
use super::error::ChatError;
use super::provider_access::ProviderAccess;
use super::sessions::ConversationSessions;
use super::setup::ChatSetup;
use crate::commands::kept_choices::KeptChoice;

/// Beginning of a conversation.
#[derive(Clone, Copy, Debug)]
pub enum ConversationSource<'a> {
    /// A conversation with the settings that the program was started with.
    Start,
    /// Successor of another conversation, with new or unchanged settings.
    Carried(&'a Carried),
}

/// Callback, called once, with a note on the part of a session that is not shown.
pub type OnShown<'a> = Box<dyn FnOnce(Option<String>) + Send + 'a>;

/// User interface for a conversation that is being opened.
pub struct ConversationHost<'a> {
    /// Front end for questions to the person.
    pub ui: Arc<dyn Ui>,
    /// Open questions; `None` if nobody answers.
    pub questions: Option<Arc<Questions>>,
    /// View of the conversation.
    pub view: ViewDriver,
    /// Cancels the opening.
    pub stop: Option<&'a CancellationToken>,
    /// Callback after the view shows the session and before work resumes.
    pub on_shown: OnShown<'a>,
}

impl fmt::Debug for ConversationHost<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConversationHost").field("view", &self.view).finish_non_exhaustive()
    }
}

impl ConversationHost<'_> {
    /// Awaits `work` unless the opening is cancelled.
    ///
    /// # Errors
    /// Errors of `work`, and [`ChatError::StoppedOpening`].
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
    /// Agent, on its own bus.
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

/// Model and reasoning for a name such as `anthropic/opus:high`.
#[derive(Clone, Debug)]
pub struct NamedModel {
    /// Model of a registered provider.
    pub model: Model,
    /// Reasoning level in the name.
    pub thinking: Option<ThinkingLevel>,
}

/// Settings as a person reads them.
#[derive(Clone, Debug, Default)]
pub struct SettingsReport {
    /// Line for each non-default setting, with its origin.
    pub lines: Vec<String>,
    /// Path of the person's settings file; `None` if there is no home directory for it.
    pub file: Option<PathBuf>,
}

/// Result of rereading the settings.
pub struct Reread {
    /// Factory with the new settings.
    pub factory: Arc<dyn ConversationFactory>,
    /// Warnings about the settings.
    pub warnings: Vec<String>,
}

impl fmt::Debug for Reread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reread").field("warnings", &self.warnings).finish_non_exhaustive()
    }
}

/// Parts of a project that are ignored until the person approves them.
#[async_trait]
pub trait UnapprovedProject: Send {
    /// Names the ignored parts, and the way to approve them.
    fn describe(&self) -> String;

    /// Asks about each part. Every answer but yes leaves it ignored.
    ///
    /// # Errors
    /// When the stored approvals cannot be read.
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
    /// Directory, settings and environment of the conversation.
    fn setup(&self) -> &ChatSetup;

    /// Key bindings from the present settings, with a warning for each invalid one.
    fn keymap(&self) -> (Keymap, Vec<String>) {
        (Keymap::default(), Vec::new())
    }

    /// Parts of the project that need the person's approval, if any.
    fn unapproved(&self) -> Option<Box<dyn UnapprovedProject>> {
        None
    }

    /// Access to providers, for a person who has none or wants another; `None` if there is no choice.
    fn provider_access(&self) -> Option<Arc<dyn ProviderAccess>> {
        None
    }

    /// Preview of the last run of the stored session to resume, before all of it is read; `None` for a new
    /// session.
    async fn last_run(&self) -> Option<Vec<Arc<Block>>> {
        None
    }

    /// Opens a conversation. A failure leaves nothing running and keeps the carried state.
    ///
    /// # Errors
    /// [`ChatError::StoppedOpening`], and [`ChatError::Factory`] for other failures.
    async fn open(
        &self,
        source: ConversationSource<'_>,
        host: ConversationHost<'_>,
    ) -> Result<OpenedConversation, ChatError>;

    /// Rereads all settings; this factory stays unchanged.
    ///
    /// # Errors
    /// When a conversation could not start with them.
    fn reread(&self) -> Result<Reread, BoxError> {
        Err("this program reads nothing that could be read anew".into())
    }

    /// Adds a working directory for the next [`reread`](Self::reread); returns its path.
    ///
    /// # Errors
    /// When it is not a directory, or the conversation cannot use further directories.
    fn add_directory(&self, dir: &Path) -> Result<PathBuf, BoxError> {
        Err(format!("this program cannot add {}", dir.display()).into())
    }

    /// Resolves a model name for the conversation of an agent; opens the provider if necessary.
    ///
    /// # Errors
    /// When its provider cannot be opened.
    async fn find_model(&self, name: &str, _agent: &Agent) -> Result<NamedModel, BoxError> {
        Err(format!("there is no model {name}: this program has only one").into())
    }

    /// Returns a model of the provider `name`, by default its default model; opens the provider if necessary.
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

    /// Keeps a choice of the person for the next conversation in this directory.
    ///
    /// # Errors
    /// When it cannot be stored.
    async fn keep_choice(&self, _choice: KeptChoice) -> Result<(), BoxError> {
        Ok(())
    }

    /// Waits until programs with plugins for the conversation, such as extensions, have registered them or
    /// failed.
    async fn programs_ready(&self, _: &Agent) {}

    /// Initial model of the built-in agent, for a conversation that started with another backend. Opens the
    /// provider if necessary.
    ///
    /// # Errors
    /// When its provider cannot be opened, or has no model.
    async fn own_model(&self, _agent: &Agent) -> Result<Model, BoxError> {
        Err("this program has no model for the built-in agent".into())
    }

    /// Models of all usable providers, from local data without requests.
    async fn known_models(&self) -> Vec<Model> {
        Vec::new()
    }

    /// Reasoning levels of a model, lowest first; empty if it has none.
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

    /// Changed paths since a point of the conversation, at which the branch of these entries ends; empty where nothing is
    /// known.
    async fn paths_changed_since(&self, _branch: Vec<CustomEntry>, _cx: &Cx) -> Vec<String> {
        Vec::new()
    }

    /// Describes the place and the sandbox of commands.
    fn describe_place(&self, _agent: &Agent) -> Option<String> {
        None
    }

    /// Effective settings with their origins, and the person's settings file.
    fn settings_report(&self) -> SettingsReport {
        SettingsReport::default()
    }

    /// Deletes the stored key or sign-in of a provider. Returns a message.
    ///
    /// # Errors
    /// When nothing is stored, or the store cannot be written.
    async fn sign_out(&self, provider: &str) -> Result<String, BoxError> {
        Err(format!("this program stores nothing for {provider}").into())
    }

    /// Remark on a model without metadata.
    fn remark_on(&self, _model: &Model) -> Option<String> {
        None
    }

    /// Tool servers of an agent, each described in a few words.
    fn servers(&self, _agent: &Agent) -> Vec<String> {
        Vec::new()
    }

    /// Describes the error of a run and the next step.
    fn describe_error(&self, error: &AgentError) -> String {
        error.to_string()
    }
}
