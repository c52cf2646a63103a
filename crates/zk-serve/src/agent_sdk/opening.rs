//! Opening of the conversation that arguments and the first request describe.

use std::sync::Arc;

use serde_json::{Value, json};
use zk_chat::{HostedConversation, HostedOptions, LaunchRequest, LaunchSession};
use zk_core::kernel::Plugin;
use zk_core::model::{EntryId, SessionId};
use zk_core::service::{Conversation, HostFiles, HostRead, Provider, Tool};
use zk_permission::ModeSwitch;

use super::args::{FAMILIES, Files, Given, PLAN, host_mode, launch_settings, zk_mode};
use super::hooks;
use super::host::{Host, PROTOCOL_VERSION};
use super::output::Output;
use super::permission::{ChangedCalls, ClosedSandbox, answer_questions};
use super::provider::SdkProvider;
use super::tools::{AskingTools, HostTools};
use super::wire::{id_of_uuid, uuid_of_id};

/// Maximum size of a settings file in bytes.
const MAX_SETTINGS_BYTES: usize = 1 << 20;

impl Host {
    /// Opens the conversation that the host's arguments and first request describe.
    ///
    /// # Errors
    /// A sentence for the host.
    pub(super) async fn open(self: &Arc<Self>) -> Result<(), String> {
        let session = self.selected_session().await?;
        let hosted = self.open_session(session).await?;
        self.set_conversation(Some(hosted));
        Ok(())
    }

    /// Opens a conversation on a session, with the host's tools and settings.
    pub(super) async fn open_session(
        self: &Arc<Self>,
        session: LaunchSession,
    ) -> Result<Arc<HostedConversation>, String> {
        let first = self.first.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let given = self.given(&first)?;
        let prompter = self.prompter(given, &first)?;
        let begins = {
            let mut known = self.known();
            known.asking.prompter = prompter;
            known.asking.keeps_asking = given.settings.keeps_asking;
            // A conversation that replaces another one keeps its mode.
            if known.default_model.is_none() {
                known.mode = host_mode(self.args(), given).to_owned();
                known.notices.extend(given.told.iter().cloned());
            }
            known.mode.clone()
        };
        let tools = HostTools::find(self, given).await;
        let request = self.launch_request(session, tools, given, &first)?;
        let factory = self.launcher.launch(&request).map_err(|error| error.to_string())?;
        let files = factory.setup().host_files.clone();
        let options = HostedOptions { attended: self.is_attended(), asks_about_project: false };
        let opened = HostedConversation::open(factory, options).await;
        let hosted = opened.map_err(|error| error.to_string())?;
        let spawn = hosted.agent().bus().item::<dyn Tool>("spawn");
        let agents = spawn.and_then(|tool| {
            let named = tool.spec().schema.pointer("/properties/agent/enum")?.as_array()?;
            Some(named.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        });
        let reads_project = self.args().reads_source("project");
        let commands = hosted.commands().await.into_iter().map(|command| command.name);
        let commands = commands.filter(|name| reads_project || !self.is_of_project(name, &*files)).collect();
        {
            let style = self.output_style(&*files);
            let mut known = self.known();
            known.commands = commands;
            known.agents = agents.unwrap_or_default();
            known.output_style = style;
        }
        if self.is_attended() {
            tokio::spawn(answer_questions(self.clone(), hosted.questions().clone()));
        }
        if begins != host_mode(self.args(), given) || begins == PLAN {
            let modes = hosted.agent().bus().service::<ModeSwitch>();
            let modes = modes.ok_or("this conversation has no permission modes")?;
            let mode = zk_mode(&begins).unwrap_or("ask");
            modes.choose_by_name(mode).map_err(|error| error.to_string())?;
        }
        Ok(hosted)
    }

    /// Returns the host's parsed arguments. They are read once, so that later conversations use the same.
    fn given(&self, first: &Value) -> Result<&Given, String> {
        if let Some(given) = self.given.get() {
            return Ok(given);
        }
        let at = Files { files: &*self.options.host_files, cwd: &self.options.cwd };
        let given = Given::read(self.args(), first, &at)?;
        Ok(self.given.get_or_init(|| given))
    }

    fn launch_request(
        self: &Arc<Self>,
        session: LaunchSession,
        tools: HostTools,
        given: &Given,
        first: &Value,
    ) -> Result<LaunchRequest, String> {
        let settings = launch_settings(self.args(), given)?;
        let mut plugins: Vec<Arc<dyn Plugin>> =
            vec![Arc::new(Output(self.clone())), Arc::new(ChangedCalls(self.clone())), Arc::new(tools)];
        let hooks = &given.settings.hooks;
        // Callbacks are code of the host, not hooks of settings, so `disableAllHooks` leaves them.
        if let Some(callbacks) = hooks::plugin(self)? {
            plugins.push(Arc::new(callbacks));
        }
        if let Some(hooks) = hooks::of_settings(self, &hooks.running_hooks())? {
            plugins.push(Arc::new(hooks));
        }
        if given.settings.sandbox.is_closed() {
            plugins.push(Arc::new(ClosedSandbox));
        }
        if self.is_attended() && self.known().asking.prompter.is_none() {
            plugins.push(Arc::new(AskingTools(self.clone())));
        }
        let names = self.names.clone();
        let agents =
            first.get("agents").filter(|agents| agents.as_object().is_some_and(|agents| !agents.is_empty()));
        Ok(LaunchRequest {
            cwd: None,
            add_dirs: self
                .args()
                .all("add-dir")
                .iter()
                .chain(&given.settings.directories)
                .map(|dir| self.options.cwd.join(dir))
                .collect(),
            session,
            settings,
            plugins,
            agents: agents.map(agents_of),
            bundle_dirs: given.plugins.clone(),
            only_its_servers: self.args().has("strict-mcp-config"),
            only_managed_hooks: given.settings.hooks.are_off,
            needs_sandbox: given.settings.sandbox.is_needed,
            provider_layer: Some(Arc::new(move |inner| {
                Arc::new(SdkProvider { inner, names: names.clone() }) as Arc<dyn Provider>
            })),
        })
    }

    /// Returns the session that the arguments select.
    async fn selected_session(&self) -> Result<LaunchSession, String> {
        let args = self.args();
        let Some(wanted) = args.text("resume").filter(|id| !id.is_empty()) else {
            return Ok(match (args.has("continue"), args.text("session-id")) {
                (true, _) => self.latest_session().await?,
                (false, Some(id)) => LaunchSession::Named(id.to_owned()),
                (false, None) => LaunchSession::New,
            });
        };
        self.known().session = wanted.to_owned();
        let (id, _) = id_of_uuid(wanted);
        let id = SessionId::from(id);
        let store = self.launcher.store().map_err(|error| error.to_string())?;
        let Ok(snapshot) = store.read(&id).await else {
            return Err(format!("No conversation found with session ID: {wanted}"));
        };
        let entry = match args.text("resume-session-at") {
            Some(line) => Some(self.entry_of(line, &snapshot.entries)?),
            None => None,
        };
        if !args.has("fork-session") && entry.is_none() {
            return Ok(LaunchSession::Stored(id.to_string()));
        }
        let copied = self.launcher.copy(&id, entry.as_ref()).await.map_err(|error| error.to_string())?;
        Ok(LaunchSession::Stored(copied.to_string()))
    }

    async fn latest_session(&self) -> Result<LaunchSession, String> {
        let store = self.launcher.store().map_err(|error| error.to_string())?;
        let filter = zk_core::service::SessionFilter {
            cwd: Some(self.options.cwd.clone()),
            limit: Some(1),
            unanswered: false,
        };
        let newest = store.list(&filter).await.unwrap_or_default().into_iter().next();
        let Some(newest) = newest else { return Ok(LaunchSession::New) };
        if !self.args().has("fork-session") {
            return Ok(LaunchSession::Stored(newest.id.to_string()));
        }
        let copied = self.launcher.copy(&newest.id, None).await.map_err(|error| error.to_string())?;
        Ok(LaunchSession::Stored(copied.to_string()))
    }

    /// Finds the entry with the message of a transcript line, after which the session is cut off. The host
    /// may name the first prompt to drop, which must match.
    fn entry_of(&self, line: &str, entries: &[zk_core::service::Entry]) -> Result<EntryId, String> {
        let (message, _) = id_of_uuid(line);
        let said = |entry: &zk_core::service::Entry| serde_json::to_value(&entry.kind).unwrap_or_default();
        let at = entries.iter().position(|entry| holds(&said(entry), &message));
        let at = at.ok_or_else(|| format!("No message found with message.uuid of: {line}"))?;
        let entry = entries.get(at).ok_or("the session has no such entry")?;
        if let Some(dropped) = self.args().text("resume-drops-turn") {
            let prompt = entries.iter().skip(at + 1).find_map(|entry| prompt_of(&said(entry)));
            let prompt = prompt.map(|id| uuid_of_id(&id, 0));
            if prompt.as_deref() != Some(dropped) {
                let found = prompt.unwrap_or_else(|| "no turn".to_owned());
                return Err(format!(
                    "Resume rejected by --resume-drops-turn: {dropped} is not the turn behind {line}, which is {found}"
                ));
            }
        }
        Ok(entry.id.clone())
    }

    /// Whether a command is a file of the project.
    fn is_of_project(&self, command: &str, files: &dyn HostFiles) -> bool {
        let file = format!("{}.md", command.replace(':', "/"));
        let in_project = |folder: &str| self.options.cwd.join(folder).join(&file);
        [".claude/commands", ".zk/commands"]
            .iter()
            .any(|folder| files.read(&in_project(folder), &HostRead::whole(MAX_SETTINGS_BYTES)).is_ok())
    }

    /// Returns the name of the output style in the person's files. zk has no styles; only the name is passed
    /// to the host.
    fn output_style(&self, files: &dyn HostFiles) -> String {
        let options = &self.options;
        let user = options.config_dir.clone().or_else(|| Some(options.home.as_ref()?.join(".claude")));
        let project = options.cwd.join(".claude");
        let places = [
            ("local", Some(project.join("settings.local.json"))),
            ("project", Some(project.join("settings.json"))),
            ("user", user.map(|dir| dir.join("settings.json"))),
        ];
        let named = places.into_iter().filter(|(source, _)| self.args().reads_source(source)).find_map(
            |(_, file)| {
                let read = files.read(&file?, &HostRead::whole(MAX_SETTINGS_BYTES)).ok()?;
                let settings: Value = serde_json::from_slice(&read.bytes).ok()?;
                settings.get("outputStyle")?.as_str().map(str::to_owned)
            },
        );
        named.unwrap_or_else(|| "default".to_owned())
    }

    /// Returns the answer to the first request.
    pub(super) async fn initialize_reply(&self) -> Value {
        let hosted = self.present();
        let commands = match &hosted {
            Some(hosted) => hosted.commands().await,
            None => Vec::new(),
        };
        let commands: Vec<Value> = commands
            .into_iter()
            .map(|command| {
                let hint = command.argument_hint.unwrap_or_default();
                json!({"name": command.name, "description": command.help, "argumentHint": hint})
            })
            .collect();
        let agents: Vec<Value> =
            self.agent_names().into_iter().map(|name| json!({"name": name, "description": ""})).collect();
        let model = hosted.map(|hosted| hosted.agent().model().id).unwrap_or_default();
        let (style, mode) = {
            let known = self.known();
            (known.output_style.clone(), known.mode.clone())
        };
        json!({
            "commands": commands,
            "agents": agents,
            "output_style": style,
            "available_output_styles": ["default"],
            "models": [{"value": "default", "displayName": model, "description": "The model of this start", "resolvedModel": model}],
            "account": {"tokenSource": "none", "apiKeySource": "none"},
            "claude_code_version": PROTOCOL_VERSION,
            "zk_version": self.options.version,
            "current_permission_mode": mode,
            "hook_on_failure_supported": true,
        })
    }

    /// Closes the conversation after storing everything.
    pub(super) async fn close(&self) {
        if let Some(hosted) = self.present() {
            hosted.conversation().cancel("the host ended the conversation");
            for line in hosted.close().await {
                self.warn_host(&line);
            }
        }
    }
}

/// Returns the sub-agents as JSON with only the fields that zk reads. A model family or `inherit` means the
/// conversation's model.
fn agents_of(agents: &Value) -> String {
    const KEYS: [&str; 4] = ["description", "prompt", "tools", "model"];
    let mut agents = agents.clone();
    for agent in agents.as_object_mut().into_iter().flat_map(|agents| agents.values_mut()) {
        if let Some(fields) = agent.as_object_mut() {
            fields.retain(|key, value| KEYS.contains(&key.as_str()) && !value.is_null());
            if fields.get("model").and_then(Value::as_str).is_some_and(|model| FAMILIES.contains(&model)) {
                fields.remove("model");
            }
        }
    }
    agents.to_string()
}

/// Whether an entry contains the message with this id.
fn holds(entry: &Value, message: &str) -> bool {
    match entry {
        Value::Object(fields) => {
            fields.get("id").is_some_and(|id| id == message)
                || fields.values().any(|value| holds(value, message))
        }
        Value::Array(items) => items.iter().any(|item| holds(item, message)),
        _ => false,
    }
}

/// Returns the id of the first prompt in an entry.
fn prompt_of(entry: &Value) -> Option<String> {
    match entry {
        Value::Object(fields) => {
            let is_prompt = fields.get("role").is_some_and(|role| role == "user")
                && fields.get("injected_by").is_none_or(Value::is_null)
                && fields.get("content").is_some_and(|content| !content.to_string().contains("call_id"));
            if is_prompt && let Some(id) = fields.get("id").and_then(Value::as_str) {
                return Some(id.to_owned());
            }
            fields.values().find_map(prompt_of)
        }
        Value::Array(items) => items.iter().find_map(prompt_of),
        _ => None,
    }
}
