use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use zk_agent::{Agent, AgentConversation};
use zk_auth::CredentialStore;
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::{AgentError, Model};
use zk_core::service::{CustomEntry, Provider, TurnCwd};
use zk_exec::ContextName;
use zk_mcp::{McpServers, ServerStatus};
use zk_permission::ModeSwitch;
use zk_providers::select::SelectedEndpoint;
use zk_tui::{Keymap, Palette};
use zk_view::Block;

use super::models;
use super::sessions::ChatSessions;
use super::trust_question::Unapproved;
use crate::app::{AppContext, Machine};
use crate::args::Resume;
use crate::commands::Access;
use crate::compose::backends::Answering;
use crate::compose::{self, HostOptions};
use crate::credentials;
use crate::exit::{Failure, Outcome};
use crate::kept;
use crate::mode::summary;
use crate::session_switch::{SessionSwitch, SwitchSettings};
use crate::sessions::{self, Session};
use crate::settings::{ScreenName, ThemeName};
use zk_chat::{
    Carried, CarriedSession, ChatError, ChatSetup, ConversationFactory, ConversationHost, ConversationSource,
    EditorEnv, ExecutionPlace, KeptChoice, NamedModel, OpenedConversation, ProviderAccess, Reread,
    SettingsReport, UnapprovedProject, UnsavedSession,
};

/// Factory of conversations, with the settings of the start or of a reload.
pub(super) struct ChatFactory {
    app: AppContext,
    setup: ChatSetup,
    /// Session to resume.
    resume: Option<Resume>,
    /// Whether the conversation starts in plan mode.
    plans: bool,
    /// Whether the person's choice of a model is kept for the next conversation in this directory.
    keeps_choices: bool,
}

impl ChatFactory {
    pub(super) fn new(mut app: AppContext, resume: Option<Resume>) -> Self {
        let plans = app.settings.plan_with_person();
        let context = match app.settings.context() {
            ContextName::Process | ContextName::Sandbox => ExecutionPlace::ThisMachine,
            ContextName::Docker(_) => ExecutionPlace::Container,
            ContextName::Remote(_) | ContextName::Ssh(_) => ExecutionPlace::OtherMachine,
        };
        let theme = app.settings.program.theme.as_ref();
        let setup = ChatSetup {
            terminal: app.work.machine.terminal(),
            theme: theme.and_then(ThemeName::built_in),
            palette: theme.and_then(ThemeName::file).and_then(|name| palette(&app.work.machine, name)),
            screen: app.settings.program.screen.map(ScreenName::kind),
            editor: EditorEnv::new(|name| app.work.machine.env.get(name).map(OsStr::to_owned)),
            program_path: app.work.machine.env.get("PATH").map(OsStr::to_owned),
            cwd: app.work.cwd.clone(),
            home: app.work.machine.env.get("HOME").map(PathBuf::from),
            sets_title: app.settings.program.title,
            execution_place: context,
            state_dir: app.work.machine.dirs.state.clone(),
            line_history: app.work.machine.dirs.line_history(),
            allow_all: app.settings.permissions.allow_all,
            thinking: app.settings.program.thinking,
            output_file_bytes: app.settings.tools.output_file_bytes,
            limits: app.shared.limits.clone(),
            notices: app.work.machine.notices.clone(),
            host_files: Arc::new(app.work.machine.host_files.clone()),
            phrases: summary::PHRASES,
        };
        Self { app, setup, resume, plans, keeps_choices: false }
    }

    /// Makes a conversation begin with the model that the person chose in this directory before, and keeps the next
    /// choice.
    pub(super) fn keep_choices(self, keeps_choices: bool) -> Self {
        Self { keeps_choices, ..self }
    }

    /// Returns the endpoint of the provider with which the conversation continues.
    async fn endpoint(&self, app: &AppContext, source: ConversationSource<'_>) -> Outcome<SelectedEndpoint> {
        let ConversationSource::Carried(carried) = source else { return app.endpoint().await };
        // Address and key of the command line are for the provider of the start.
        match self.app.endpoint().await {
            Ok(endpoint) if *endpoint.provider.name == *carried.model.provider => Ok(endpoint),
            Ok(_) | Err(_) => self.app.endpoint_of(&carried.model.provider).await,
        }
    }

    async fn session(&self, source: ConversationSource<'_>) -> Outcome<Session> {
        let ConversationSource::Carried(Carried { session, .. }) = source else {
            return sessions::begin(&self.app.work, &self.app.settings, self.resume.as_ref()).await;
        };
        match session {
            CarriedSession::Stored(id) => {
                sessions::begin(&self.app.work, &self.app.settings, Some(&Resume::Id(id.to_string()))).await
            }
            CarriedSession::Unsaved(UnsavedSession(before), messages) => {
                let before = before.downcast_ref::<Session>();
                let foreign = || Failure::failed("the session before is of another program");
                Ok(before.ok_or_else(foreign)?.continued(messages.clone()))
            }
            CarriedSession::Empty => sessions::begin(&self.app.work, &self.app.settings, None).await,
        }
    }
}

/// Returns the colours of the person's own theme `name`; `None`, with a notice, if its file cannot be used.
fn palette(machine: &Machine, name: &str) -> Option<Palette> {
    let path = machine.dirs.config.as_ref()?.join("themes").join(format!("{name}.toml"));
    let read = Palette::read(&machine.host_files, &path);
    let shown = |why| machine.notices.show(&format!("warning: {why}; the usual colours are used"));
    read.map_err(|error| shown(error.to_string())).ok()
}

#[async_trait]
impl ConversationFactory for ChatFactory {
    fn setup(&self) -> &ChatSetup {
        &self.setup
    }

    fn keymap(&self) -> (Keymap, Vec<String>) {
        let machine = &self.app.work.machine;
        let path = machine.dirs.config.as_ref().map(|config| config.join("keys.toml"));
        path.map_or_else(Default::default, |path| zk_chat::read_key_file(&path, &machine.host_files))
    }

    fn provider_access(&self) -> Option<Arc<dyn ProviderAccess>> {
        Some(Arc::new(Access(self.app.clone())))
    }

    fn unapproved(&self) -> Option<Box<dyn UnapprovedProject>> {
        let (resume, keeps) = (self.resume.clone(), self.keeps_choices);
        let unapproved = Unapproved::of(&self.app, move |app| {
            Arc::new(Self::new(app, resume).keep_choices(keeps)) as Arc<dyn ConversationFactory>
        });
        unapproved.map(|unapproved| Box::new(unapproved) as Box<dyn UnapprovedProject>)
    }

    async fn last_run(&self) -> Option<Vec<Arc<Block>>> {
        Some(sessions::last_run_blocks(&self.app.work, &self.app.settings, self.resume.as_ref()?).await)
    }

    async fn paths_changed_since(&self, branch: Vec<CustomEntry>, cx: &Cx) -> Vec<String> {
        let Some(journal) = cx.service::<zk_undo::Journal>() else { return Vec::new() };
        let cwd = TurnCwd::of(cx).unwrap_or_default();
        let read = move || zk_undo::paths_changed_since(&journal, &branch).unwrap_or_default();
        let paths = tokio::task::spawn_blocking(read).await.unwrap_or_default();
        paths.iter().map(|path| path.strip_prefix(&cwd).unwrap_or(path).display().to_string()).collect()
    }

    async fn open(
        &self,
        source: ConversationSource<'_>,
        host: ConversationHost<'_>,
    ) -> Result<OpenedConversation, ChatError> {
        let ConversationHost { ui, questions, view, stop, on_shown } = host;
        let is_carried = matches!(source, ConversationSource::Carried(_));
        // A resumed session continues with its own model.
        let begins = !is_carried && self.resume.is_none() && self.keeps_choices;
        let restored = if begins { kept::with_kept_choice(&self.app).await } else { None };
        let app = restored.as_ref().unwrap_or(&self.app);
        let session = self.session(source).await?;
        let used = match source {
            ConversationSource::Carried(carried) => Some(&*carried.model.provider),
            ConversationSource::Start => session.loaded.model.as_ref().map(|model| &*model.provider),
        };
        let finding = Box::pin(Answering::find(app, used, self.endpoint(app, source)));
        let found = ConversationHost::unless_stopped(stop, async { Ok(finding.await?) }).await;
        let answering = match found {
            Ok(answering) => answering,
            Err(error) => {
                if is_carried {
                    session.keep_outputs();
                }
                // The first error is reported, not one of closing.
                let _ = session.close().await;
                return Err(error);
            }
        };
        let mut not_shown = None;
        // A carried-over conversation is shown already.
        if let Some(entries) = session.restored().filter(|_| !is_carried) {
            view.begin(&entries);
            not_shown = sessions::not_shown(&session);
        }
        on_shown(not_shown);
        let allow_all = app.settings.permissions.allow_all;
        let options = HostOptions { ui: Some(ui), questions, allow_all, is_listed: true, view, lease: None };
        // The session's own plugins are installed later, since they are replaced with the session.
        let bus = match compose::bus(app, &Session::default(), options).await {
            Ok(bus) => bus,
            Err(failure) => {
                if is_carried {
                    session.keep_outputs();
                }
                // Closing lets another conversation open the session.
                let _ = session.close().await;
                return Err(failure.into());
            }
        };
        if self.plans && !is_carried {
            bus.service::<ModeSwitch>().iter().for_each(|modes| modes.plan());
        }
        let provider = match answering.provider(&bus, &app.settings).await {
            Ok(provider) => provider,
            Err(failure) => {
                bus.close().await;
                let _ = session.close().await;
                return Err(failure.into());
            }
        };
        let host = SwitchSettings { app: self.app.clone(), bus: bus.clone() };
        let switch = SessionSwitch::new(host, bus.clone(), provider.clone(), session);
        let first = switch.current();
        let opened = ConversationHost::unless_stopped(stop, async {
            let model = match source {
                ConversationSource::Start => answering.model(app, &*provider, &first, true).await?,
                ConversationSource::Carried(carried) => {
                    compose::describe_model(&*provider, &carried.model.id).await
                }
            };
            let agent =
                compose::agent(app, &bus, provider.clone(), model, &first, summary::conversation_error)?;
            let conversation = AgentConversation::stored(agent.clone(), switch.clone(), &switch.parts()?)
                .await
                .map_err(Failure::failed)?;
            if let Answering::Provider(provider) = &answering {
                bus.scope("provider")
                    .provide::<dyn Provider>(provider.name(), provider.clone())
                    .map_err(Failure::failed)?;
            }
            Ok((agent, conversation))
        });
        match opened.await {
            Ok((agent, conversation)) => {
                let sessions = Arc::new(ChatSessions { app: app.clone(), switch });
                Ok(OpenedConversation { agent, conversation, sessions })
            }
            Err(error) => {
                if is_carried {
                    first.keep_outputs();
                }
                // Closing ends everything of this conversation before another one is opened.
                bus.close().await;
                if switch.take_left().is_empty() {
                    // No plugin that would close the session was installed. The error is reported already.
                    let _ = first.close().await;
                }
                Err(error)
            }
        }
    }

    fn reread(&self) -> Result<Reread, BoxError> {
        let (app, warnings) = self.app.reread()?;
        app.settings.check_preset(&app.work.project)?;
        let factory = Self::new(app, self.resume.clone()).keep_choices(self.keeps_choices);
        Ok(Reread { factory: Arc::new(factory), warnings })
    }

    fn add_directory(&self, dir: &Path) -> Result<PathBuf, BoxError> {
        Ok(self.app.add_directory(dir)?)
    }

    async fn find_model(&self, name: &str, agent: &Agent) -> Result<NamedModel, BoxError> {
        Ok(models::find_model(&self.app, name, agent).await?)
    }

    async fn find_provider(&self, name: &str, model: Option<&str>, agent: &Agent) -> Result<Model, BoxError> {
        Ok(models::find_provider(&self.app, name, model, agent).await?)
    }

    async fn keep_choice(&self, choice: KeptChoice) -> Result<(), BoxError> {
        if self.keeps_choices { kept::keep(&self.app, choice).await } else { Ok(()) }
    }

    async fn programs_ready(&self, agent: &Agent) {
        compose::extensions::wait_for_extensions(agent.bus()).await;
    }

    async fn own_model(&self, agent: &Agent) -> Result<Model, BoxError> {
        Ok(models::own_model(&self.app, agent).await?)
    }

    async fn known_models(&self) -> Vec<Model> {
        models::known_models(&self.app).await
    }

    fn thinking_levels(&self, model: &Model) -> Vec<String> {
        self.app.settings.models(&model.provider).thinking_levels(model)
    }

    fn purpose(&self, model: &Model) -> Option<String> {
        zk_providers::purpose(model).map(str::to_owned)
    }

    fn describe_place(&self, agent: &Agent) -> Option<String> {
        Some(models::describe_place(&self.app.settings, agent))
    }

    fn settings_report(&self) -> SettingsReport {
        SettingsReport {
            lines: self
                .app
                .settings
                .lines(true)
                .into_iter()
                .filter(|line| !line.ends_with("# default"))
                .collect(),
            file: self.app.work.machine.dirs.settings(),
        }
    }

    async fn sign_out(&self, provider: &str) -> Result<String, BoxError> {
        let store = credentials::store(&self.app.work.machine)?;
        match store.remove(provider).await? {
            true => Ok(format!("{provider}: removed; this conversation keeps what it has until /reload")),
            false => Err(format!("nothing is stored for {provider}; `zk auth status` lists what is").into()),
        }
    }

    fn remark_on(&self, model: &Model) -> Option<String> {
        models::remark_on(&self.app.settings, model)
    }

    fn servers(&self, agent: &Agent) -> Vec<String> {
        let status = agent.bus().service::<McpServers>().map(|servers| servers.status()).unwrap_or_default();
        status.iter().map(ServerStatus::brief).collect()
    }

    fn describe_error(&self, error: &AgentError) -> String {
        summary::conversation_error(error)
    }
}
