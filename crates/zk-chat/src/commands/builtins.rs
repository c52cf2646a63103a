use std::sync::Arc;

use async_trait::async_trait;
use zk_agent::Agent;
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::{Model, ThinkingLevel, ThinkingRequest, ThinkingSupport};
use zk_core::service::{Command, CommandOutcome, SessionFilter, Tool, looks_like_key};
use zk_permission::ModeSwitch;
use zk_tui::plain::{folded, help};
use zk_tui::{Modes, ScreenKind, thousands};
use zk_view::{Block, Content, Intent, ViewDriver};

use super::backends::active_foreign_backend;
use super::kept_choices::KeptChoice;
use super::models;
use super::session_lines::{found_lines, session_lines};
use crate::conversation::wanted_screen::WantedScreen;
use crate::opening::factory::{ConversationFactory, NamedModel, OpenedConversation};
use crate::opening::sessions::ConversationSessions;

/// Maximum number of sessions that `/sessions` lists.
const LISTED_SESSIONS: usize = 20;

/// Built-in commands of every conversation.
pub(crate) fn all(
    opened: &OpenedConversation,
    factory: &Arc<dyn ConversationFactory>,
    view: &ViewDriver,
    wanted: &WantedScreen,
) -> Vec<Arc<dyn Command>> {
    let (view, wanted) = (view.clone(), wanted.clone());
    let (agent, sessions) = (opened.agent.clone(), opened.sessions.clone());
    let context = CommandContext { agent, sessions, factory: factory.clone(), view, wanted };
    let context = Arc::new(context);
    let make = |kind| Arc::new(Builtin { kind, context: context.clone() }) as Arc<dyn Command>;
    BuiltinKind::ALL.map(make).into()
}

/// Context that the built-in commands share.
struct CommandContext {
    agent: Agent,
    sessions: Arc<dyn ConversationSessions>,
    factory: Arc<dyn ConversationFactory>,
    view: ViewDriver,
    wanted: WantedScreen,
}

struct Builtin {
    kind: BuiltinKind,
    context: Arc<CommandContext>,
}

#[derive(Clone, Copy)]
enum BuiltinKind {
    Copy,
    Effort,
    Exit,
    Help,
    Login,
    Model,
    Models,
    Permissions,
    Provider,
    Quit,
    Reload,
    Screen,
    Search,
    Sessions,
    Show,
    Thinking,
    Tools,
}

impl BuiltinKind {
    const ALL: [Self; 17] = [
        Self::Copy,
        Self::Effort,
        Self::Exit,
        Self::Help,
        Self::Login,
        Self::Model,
        Self::Models,
        Self::Permissions,
        Self::Provider,
        Self::Quit,
        Self::Reload,
        Self::Screen,
        Self::Search,
        Self::Sessions,
        Self::Show,
        Self::Thinking,
        Self::Tools,
    ];
}

#[async_trait]
impl Command for Builtin {
    fn name(&self) -> &str {
        match self.kind {
            BuiltinKind::Copy => "copy",
            BuiltinKind::Effort => "effort",
            BuiltinKind::Exit => "exit",
            BuiltinKind::Help => "help",
            BuiltinKind::Login => "login",
            BuiltinKind::Model => "model",
            BuiltinKind::Models => "models",
            BuiltinKind::Permissions => "permissions",
            BuiltinKind::Provider => "provider",
            BuiltinKind::Quit => "quit",
            BuiltinKind::Reload => "reload",
            BuiltinKind::Screen => "screen",
            BuiltinKind::Search => "search",
            BuiltinKind::Sessions => "sessions",
            BuiltinKind::Show => "show",
            BuiltinKind::Thinking => "thinking",
            BuiltinKind::Tools => "tools",
        }
    }

    fn help(&self) -> &str {
        match self.kind {
            BuiltinKind::Copy => "the last answer to the clipboard, through ssh and tmux as well",
            BuiltinKind::Effort | BuiltinKind::Thinking => "how much the model thinks: show it, or change it",
            BuiltinKind::Exit | BuiltinKind::Quit => "end the conversation; it is kept",
            BuiltinKind::Help => "commands and keys",
            BuiltinKind::Login => "sign in to a provider, or store its key, and go on with it",
            BuiltinKind::Model => "choose a model, also during a run",
            BuiltinKind::Models => "list models that contain a word",
            BuiltinKind::Permissions => "what runs without asking: show it, or change it",
            BuiltinKind::Provider => "go on with another service",
            BuiltinKind::Reload => "read settings, hooks, keys, skills, agents and MCP servers anew",
            BuiltinKind::Screen => "draw the conversation in another way",
            BuiltinKind::Search => "find earlier sessions by what was said in them: /search [--all] WORDS",
            BuiltinKind::Sessions => "sessions of this directory: resume, rename, remove",
            BuiltinKind::Show => "a result with all its lines",
            BuiltinKind::Tools => "tools of the model",
        }
    }

    fn argument_hint(&self) -> Option<&str> {
        match self.kind {
            BuiltinKind::Effort | BuiltinKind::Thinking => Some("LEVEL"),
            BuiltinKind::Login => Some("[PROVIDER]"),
            BuiltinKind::Models => Some("[WORD]"),
            BuiltinKind::Permissions => Some("[MODE]"),
            BuiltinKind::Provider => Some("[NAME]"),
            BuiltinKind::Screen => Some("KIND"),
            BuiltinKind::Search => Some("WORDS"),
            BuiltinKind::Copy
            | BuiltinKind::Exit
            | BuiltinKind::Help
            | BuiltinKind::Model
            | BuiltinKind::Quit
            | BuiltinKind::Reload
            | BuiltinKind::Sessions
            | BuiltinKind::Show
            | BuiltinKind::Tools => None,
        }
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let text = match self.kind {
            BuiltinKind::Exit | BuiltinKind::Quit => return Ok(CommandOutcome::Quit),
            BuiltinKind::Reload => return Ok(CommandOutcome::Reload),
            BuiltinKind::Copy => self.context.copy_answer(),
            BuiltinKind::Help => help(cx, self.context.wanted.is_drawn(), Modes::size().width),
            BuiltinKind::Login => self.context.request_sign_in(args)?,
            BuiltinKind::Permissions => run_permissions(args, cx)?,
            BuiltinKind::Model => self.context.switch_model(args).await?,
            BuiltinKind::Models => {
                let others = self.context.factory.known_models().await;
                models::list_models(args, &self.context.agent.model().reference(), others, cx).await?
            }
            BuiltinKind::Provider => self.context.switch_provider(args).await?,
            BuiltinKind::Screen => self.context.request_screen(args)?,
            BuiltinKind::Search => self.context.search_sessions(args, cx).await?,
            BuiltinKind::Sessions => self.context.run_sessions(args, cx).await?,
            BuiltinKind::Show => self.context.request_result(args)?,
            BuiltinKind::Effort | BuiltinKind::Thinking => self.context.set_thinking(args).await?,
            BuiltinKind::Tools => list_tools(cx),
        };
        Ok(CommandOutcome::Show(text))
    }
}

impl CommandContext {
    async fn switch_model(&self, name: &str) -> Result<String, BoxError> {
        let before = (self.agent.model(), self.agent.thinking().level);
        if !name.is_empty() {
            let NamedModel { model, thinking } = self.factory.find_model(name, &self.agent).await?;
            self.agent.set_model(model).await?;
            if let Some(level) = thinking {
                self.agent.set_thinking(ThinkingRequest { level, budget: None }).await?;
            }
            let thinking = self.adapt_thinking(&before).await?;
            let unkept = self.keep_model(&before).await;
            return Ok(self.describe_model() + &thinking + self.effect_note() + &unkept);
        }
        let thinking = self.adapt_thinking(&before).await?;
        Ok(self.describe_model() + &thinking)
    }

    /// Keeps the present model for the next start in this directory, and the reasoning if that changed with it.
    /// Returns a message if that fails. The model of another program's agent is not kept.
    async fn keep_model(&self, before: &(Model, ThinkingLevel)) -> String {
        if active_foreign_backend(&self.agent).is_some() {
            return String::new();
        }
        let thinking = Some(self.agent.thinking().level).filter(|level| *level != before.1);
        self.keep_choice(KeptChoice { model: Some(self.agent.model().reference()), thinking }).await
    }

    async fn keep_choice(&self, choice: KeptChoice) -> String {
        let kept = self.factory.keep_choice(choice).await;
        kept.map_or_else(|why| format!("\nnot kept for the next start: {why}"), |()| String::new())
    }

    /// Note about when a choice made during a run takes effect; empty without a run.
    fn effect_note(&self) -> &'static str {
        if self.agent.is_running() { "\nthis holds from the next turn of the run on" } else { "" }
    }

    async fn switch_provider(&self, args: &str) -> Result<String, BoxError> {
        let mut words = args.split_whitespace();
        let before = (self.agent.model(), self.agent.thinking().level);
        let named = words.next();
        if let Some(name) = named {
            self.agent.set_model(self.factory.find_provider(name, words.next(), &self.agent).await?).await?;
        }
        let thinking = self.adapt_thinking(&before).await?;
        let unkept = if named.is_some() { self.keep_model(&before).await } else { String::new() };
        Ok(self.describe_model() + &thinking + &unkept)
    }

    fn describe_model(&self) -> String {
        let model = self.agent.model();
        let window =
            model.window.map_or(String::new(), |tokens| format!(", window {} tokens", thousands(tokens)));
        let remark = self.factory.remark_on(&model);
        let note = remark.map_or(String::new(), |remark| format!(" ({remark})"));
        format!("{}{window}{note}", model.reference())
    }

    async fn set_thinking(&self, level: &str) -> Result<String, BoxError> {
        if !level.is_empty() {
            let level: ThinkingLevel = level.parse()?;
            self.agent.set_thinking(ThinkingRequest { level, budget: None }).await?;
            let unkept = self.keep_choice(KeptChoice { model: None, thinking: Some(level) }).await;
            return Ok(format!("thinking: {}{}{unkept}", self.describe_thinking(), self.effect_note()));
        }
        Ok(self.describe_thinking())
    }

    /// Whether the requested reasoning exceeds the known limits of the model.
    fn exceeds_thinking_limits(&self) -> bool {
        self.agent.model().capabilities.thinking == ThinkingSupport::None
            && !matches!(self.agent.thinking().level, ThinkingLevel::Off | ThinkingLevel::Adaptive)
    }

    fn describe_thinking(&self) -> String {
        let (level, model) = (self.agent.thinking().level, self.agent.model());
        let note = if self.exceeds_thinking_limits() {
            format!(" (as far as zk knows, {} cannot)", model.id)
        } else {
            String::new()
        };
        format!("{}{note}", level.as_str())
    }

    /// Turns reasoning off if the new model does not support it. Returns a message if the provider or the
    /// effective level differs from `before`.
    async fn adapt_thinking(&self, (before, _): &(Model, ThinkingLevel)) -> Result<String, BoxError> {
        let ThinkingRequest { level, budget } = self.agent.thinking();
        let now = self.agent.model();
        // Reasoning stays as it is for a model without metadata.
        if now.window.is_some() && self.exceeds_thinking_limits() && now.reference() != before.reference() {
            self.agent.set_thinking(ThinkingRequest { level: ThinkingLevel::Off, budget: None }).await?;
            let level = level.as_str();
            return Ok(format!(
                "\nthinking is off now (it was {level}): {} cannot; /thinking {level} asks for it again",
                now.id
            ));
        }
        Ok(self.thinking_message(&before.provider, level, budget))
    }

    fn thinking_message(&self, before: &str, level: ThinkingLevel, budget: Option<u32>) -> String {
        if *self.agent.model().provider == *before || level == ThinkingLevel::Off {
            return String::new();
        }
        let budget = budget.map_or(String::new(), |tokens| format!(" with {tokens} tokens"));
        let (level, to) = (self.describe_thinking(), &self.agent.model().provider);
        format!("\nthinking stays {level}{budget}; reasoning so far is not sent to {to}")
    }

    /// Has the host put the last answer into the clipboard.
    fn copy_answer(&self) -> String {
        let blocks = self.view.view().blocks;
        let answer = blocks.iter().rev().find_map(|block| match &block.content {
            Content::Answer { text, .. } if block.agent.is_none() && !text.is_empty() => {
                Some(text.as_str().to_owned())
            }
            _ => None,
        });
        match answer {
            Some(text) => {
                self.wanted.request_copy(text);
                String::new()
            }
            None => "there is no answer to copy yet".to_owned(),
        }
    }

    /// Requests the provider dialog from the host.
    fn request_sign_in(&self, name: &str) -> Result<String, BoxError> {
        if self.factory.provider_access().is_none() {
            return Err("this program has only one provider".into());
        }
        if looks_like_key(name) {
            return Err("/login takes the name of a provider; what stands behind it looks like a key and was not used: \
                        type /login alone, and give the key where it is asked for, unseen"
                .into());
        }
        self.wanted.request_sign_in(Some(name.to_owned()).filter(|name| !name.is_empty()));
        Ok(String::new())
    }

    /// Requests another screen from the host.
    fn request_screen(&self, name: &str) -> Result<String, BoxError> {
        let kind = name.parse()?;
        if kind != ScreenKind::Plain && ScreenKind::is_plain_only(&self.factory.setup().terminal) {
            return Err("this terminal cannot move its cursor (TERM=dumb): only plain lines work here".into());
        }
        self.wanted.request_screen(kind);
        Ok(String::new())
    }

    /// Sends the intent to print a whole tool result.
    fn request_result(&self, number: &str) -> Result<String, BoxError> {
        let back: usize = match number {
            "" => 0,
            number => number.parse().map_err(|_| format!("/show takes a number, not `{number}`"))?,
        };
        let has_body = |block: &&Arc<Block>| block.content.body().is_some();
        match self.view.view().blocks.iter().rev().filter(has_body).nth(back) {
            Some(block) => {
                self.view.intent(&Intent::Expand { id: block.id.clone() });
                Ok(String::new())
            }
            None if back == 0 => Ok("nothing to show yet".to_owned()),
            None => Ok(format!("there is no result {back} before the last one")),
        }
    }

    /// Lists sessions of this directory, or of all, with these words in their text.
    async fn search_sessions(&self, args: &str, cx: &Cx) -> Result<String, BoxError> {
        let (words, is_everywhere) = match args.strip_prefix("--all") {
            Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => (rest.trim(), true),
            Some(_) | None => (args, false),
        };
        if words.is_empty() {
            return Err(
                "/search takes words: /search lock file, or /search --all WORDS for all directories".into()
            );
        }
        let cwd = (!is_everywhere).then(|| self.factory.setup().cwd_now(cx));
        let mut lines = found_lines(&self.sessions.search(words, cwd).await?);
        lines.push(match (lines.is_empty(), is_everywhere) {
            (false, _) => "/resume ID goes on with one".to_owned(),
            (true, false) => {
                "no session of this directory has that in it; /search --all looks in all".to_owned()
            }
            (true, true) => "no session has that in it".to_owned(),
        });
        Ok(lines.join("\n"))
    }

    /// Lists sessions; `rename ID TITLE` and `remove ID` act like the keys of the session picker.
    async fn run_sessions(&self, args: &str, cx: &Cx) -> Result<String, BoxError> {
        let mut words = args.splitn(3, char::is_whitespace);
        match (words.next().unwrap_or_default(), words.next(), words.next()) {
            ("" | "list", None, _) => {}
            ("rename", Some(id), Some(title)) if !title.trim().is_empty() => {
                let id = self.sessions.find(id).await?;
                self.sessions.rename(&id, title.trim()).await?;
                return Ok(format!("{id} is called `{}` now", title.trim()));
            }
            ("remove", Some(id), None) => {
                let id = self.sessions.find(id).await?;
                self.sessions.delete(&id).await?;
                return Ok(format!("{id} is removed"));
            }
            _ => {
                return Err(
                    "/sessions lists them; /sessions rename ID TITLE and /sessions remove ID change one"
                        .into(),
                );
            }
        }
        let cwd = Some(self.factory.setup().cwd_now(cx));
        let filter = SessionFilter { cwd, limit: Some(LISTED_SESSIONS), unanswered: false };
        let lines = session_lines(&self.sessions.list(&filter).await?, false);
        Ok(if lines.is_empty() { "no sessions here yet".to_owned() } else { lines.join("\n") })
    }
}

fn run_permissions(name: &str, cx: &Cx) -> Result<String, BoxError> {
    let modes = cx.service::<ModeSwitch>().ok_or("this conversation has no permission modes")?;
    if !name.is_empty() {
        modes.choose_by_name(name)?;
    }
    Ok(format!("{}: {}", modes.name(), modes.describe()))
}

fn list_tools(cx: &Cx) -> String {
    let lines: Vec<String> = cx
        .items::<dyn Tool>()
        .iter()
        .map(|tool| {
            let description = &tool.value.spec().description;
            let first = description.split_inclusive(". ").next().unwrap_or(description);
            format!("{:<14}  {}", tool.name, first.trim())
        })
        // A drawn screen has a margin of two columns.
        .flat_map(|line| folded(&line, Modes::size().width.saturating_sub(2)))
        .collect();
    lines.join("\n")
}
