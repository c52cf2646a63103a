use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use zk_agent::{Agent, AgentConversation};
use zk_chat::{
    ChatError, ChatSetup, ConversationFactory, ConversationHost, ConversationSource, KeptChoice, NamedModel,
    OpenedConversation, ProviderAccess, Reread, SettingsReport, UnapprovedProject,
};
use zk_core::kernel::BoxError;
use zk_core::model::{AgentError, Model};
use zk_core::service::{Conversation, FileKind, Files};
use zk_tui::Keymap;
use zk_view::Block;

use crate::plugin::ShellPlugin;

/// Current conversation of a shell, if one is open.
#[derive(Clone, Default)]
pub(crate) struct Present(Arc<Mutex<Option<AgentConversation>>>);

impl Present {
    fn set(&self, conversation: AgentConversation) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(conversation);
    }

    fn get(&self) -> Option<AgentConversation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the working directory of the conversation, if its tools may work there.
    pub(crate) async fn set_working_dir(&self, dir: Option<String>) {
        let (Some(conversation), Some(dir)) = (self.get(), dir) else { return };
        let Some(files) = conversation.agent().bus().service::<dyn Files>() else { return };
        let now = conversation.state().cwd;
        let found = tokio::task::spawn_blocking(move || {
            let at = files.resolve(&now, &dir).ok()?;
            (files.stat(&at).ok()?.kind == FileKind::Directory).then_some(at.path)
        });
        if let Ok(Some(dir)) = found.await {
            conversation.set_cwd(dir);
        }
    }
}

/// Factory of conversations with the plugin of the shell.
pub(crate) struct ShellFactory {
    pub(crate) inner: Arc<dyn ConversationFactory>,
    pub(crate) plugin: ShellPlugin,
    pub(crate) present: Present,
}

impl ShellFactory {
    fn wrap(&self, inner: Arc<dyn ConversationFactory>) -> Arc<dyn ConversationFactory> {
        Arc::new(Self { inner, plugin: self.plugin.clone(), present: self.present.clone() })
    }
}

/// Trust question about a project, after which conversations get the plugin of the shell.
struct Unapproved {
    inner: Box<dyn UnapprovedProject>,
    plugin: ShellPlugin,
    present: Present,
}

#[async_trait]
impl UnapprovedProject for Unapproved {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    async fn ask(
        self: Box<Self>,
        questions: &zk_core::service::Questions,
        cx: &zk_core::kernel::Cx,
    ) -> Result<Arc<dyn ConversationFactory>, BoxError> {
        let Self { inner, plugin, present } = *self;
        Ok(Arc::new(ShellFactory { inner: inner.ask(questions, cx).await?, plugin, present }))
    }
}

#[async_trait]
impl ConversationFactory for ShellFactory {
    fn setup(&self) -> &ChatSetup {
        self.inner.setup()
    }

    fn keymap(&self) -> (Keymap, Vec<String>) {
        self.inner.keymap()
    }

    fn unapproved(&self) -> Option<Box<dyn UnapprovedProject>> {
        let (plugin, present) = (self.plugin.clone(), self.present.clone());
        let inner = self.inner.unapproved()?;
        Some(Box::new(Unapproved { inner, plugin, present }))
    }

    fn provider_access(&self) -> Option<Arc<dyn ProviderAccess>> {
        self.inner.provider_access()
    }

    async fn last_run(&self) -> Option<Vec<Arc<Block>>> {
        self.inner.last_run().await
    }

    async fn open(
        &self,
        source: ConversationSource<'_>,
        host: ConversationHost<'_>,
    ) -> Result<OpenedConversation, ChatError> {
        let opened = self.inner.open(source, host).await?;
        if let Err(error) = opened.agent.bus().install(&self.plugin) {
            opened.conversation.close().await;
            opened.agent.bus().close().await;
            return Err(ChatError::Factory(error.into()));
        }
        self.present.set(opened.conversation.clone());
        self.present.set_working_dir(self.plugin.dir()).await;
        Ok(opened)
    }

    fn reread(&self) -> Result<Reread, BoxError> {
        let Reread { factory, warnings } = self.inner.reread()?;
        Ok(Reread { factory: self.wrap(factory), warnings })
    }

    fn add_directory(&self, dir: &Path) -> Result<PathBuf, BoxError> {
        self.inner.add_directory(dir)
    }

    async fn find_model(&self, name: &str, agent: &Agent) -> Result<NamedModel, BoxError> {
        self.inner.find_model(name, agent).await
    }

    async fn find_provider(&self, name: &str, model: Option<&str>, agent: &Agent) -> Result<Model, BoxError> {
        self.inner.find_provider(name, model, agent).await
    }

    async fn programs_ready(&self, agent: &Agent) {
        self.inner.programs_ready(agent).await;
    }

    async fn keep_choice(&self, choice: KeptChoice) -> Result<(), BoxError> {
        self.inner.keep_choice(choice).await
    }

    async fn own_model(&self, agent: &Agent) -> Result<Model, BoxError> {
        self.inner.own_model(agent).await
    }

    async fn known_models(&self) -> Vec<Model> {
        self.inner.known_models().await
    }

    fn thinking_levels(&self, model: &Model) -> Vec<String> {
        self.inner.thinking_levels(model)
    }

    fn purpose(&self, model: &Model) -> Option<String> {
        self.inner.purpose(model)
    }

    fn describe_place(&self, agent: &Agent) -> Option<String> {
        self.inner.describe_place(agent)
    }

    fn settings_report(&self) -> SettingsReport {
        self.inner.settings_report()
    }

    async fn sign_out(&self, provider: &str) -> Result<String, BoxError> {
        self.inner.sign_out(provider).await
    }

    fn remark_on(&self, model: &Model) -> Option<String> {
        self.inner.remark_on(model)
    }

    fn servers(&self, agent: &Agent) -> Vec<String> {
        self.inner.servers(agent)
    }

    fn describe_error(&self, error: &AgentError) -> String {
        self.inner.describe_error(error)
    }
}
