use std::sync::Arc;

use async_trait::async_trait;
use zk_agent::Agent;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{ArgumentChoice, Command, CommandOutcome, visible_line};
use zk_skills::Skills;
use zk_tui::Theme;
use zk_view::ViewDriver;

use super::{cost, export, settings, side_question, status};
use crate::conversation::wanted_screen::WantedScreen;
use crate::opening::factory::{ConversationFactory, OpenedConversation};
use crate::opening::sessions::ConversationSessions;

/// Parts of a conversation that these commands tell of.
pub(super) struct InfoContext {
    pub(super) agent: Agent,
    pub(super) sessions: Arc<dyn ConversationSessions>,
    pub(super) factory: Arc<dyn ConversationFactory>,
    pub(super) view: ViewDriver,
    pub(super) wanted: WantedScreen,
}

/// The commands.
pub(crate) fn info_commands(
    opened: &OpenedConversation,
    factory: &Arc<dyn ConversationFactory>,
    view: &ViewDriver,
    wanted: &WantedScreen,
) -> Vec<Arc<dyn Command>> {
    let context = Arc::new(InfoContext {
        agent: opened.agent.clone(),
        sessions: opened.sessions.clone(),
        factory: factory.clone(),
        view: view.clone(),
        wanted: wanted.clone(),
    });
    let make = |kind| Arc::new(InfoCommand { kind, context: context.clone() }) as Arc<dyn Command>;
    Kind::ALL.map(make).into()
}

struct InfoCommand {
    kind: Kind,
    context: Arc<InfoContext>,
}

#[derive(Clone, Copy)]
enum Kind {
    Agents,
    Btw,
    Config,
    Cost,
    Export,
    Login,
    Logout,
    Skills,
    Status,
    Theme,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Agents,
        Self::Btw,
        Self::Config,
        Self::Cost,
        Self::Export,
        Self::Login,
        Self::Logout,
        Self::Skills,
        Self::Status,
        Self::Theme,
    ];
}

#[async_trait]
impl Command for InfoCommand {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Agents => "agents",
            Kind::Btw => "btw",
            Kind::Config => "config",
            Kind::Cost => "cost",
            Kind::Export => "export",
            Kind::Login => "login",
            Kind::Logout => "logout",
            Kind::Skills => "skills",
            Kind::Status => "status",
            Kind::Theme => "theme",
        }
    }

    fn help(&self) -> &str {
        match self.kind {
            Kind::Agents => "sub-agents of this conversation, and their work",
            Kind::Btw => "ask something beside the run; it leaves no trace in the conversation",
            Kind::Config => "where settings come from; /config edit opens your file",
            Kind::Cost => "what this session has cost so far, by model",
            Kind::Export => "write the conversation to a file, as Markdown",
            Kind::Login => "sign in to a provider, or store a key",
            Kind::Logout => "forget the key or sign-in of a provider",
            Kind::Skills => "skills there are, and who has them",
            Kind::Status => "model, mode, directory, session, servers, context and cost",
            Kind::Theme => "other colours, at once",
        }
    }

    fn argument_hint(&self) -> Option<&str> {
        match self.kind {
            Kind::Btw => Some("QUESTION"),
            Kind::Config => Some("[edit]"),
            Kind::Export => Some("[FILE]"),
            Kind::Login => Some("[PROVIDER]"),
            Kind::Logout => Some("PROVIDER"),
            Kind::Agents | Kind::Cost | Kind::Skills | Kind::Status | Kind::Theme => None,
        }
    }

    async fn complete(&self, before: &str, _: &Cx) -> Vec<ArgumentChoice> {
        match self.kind {
            Kind::Config if before.is_empty() => {
                vec![ArgumentChoice::new("edit", "open your settings in your editor")]
            }
            Kind::Theme if before.is_empty() => {
                let choice = |(name, about): &(&str, &str)| ArgumentChoice::new(*name, *about);
                Theme::NAMES.iter().map(choice).collect()
            }
            Kind::Agents
            | Kind::Btw
            | Kind::Config
            | Kind::Cost
            | Kind::Export
            | Kind::Login
            | Kind::Logout
            | Kind::Skills
            | Kind::Status
            | Kind::Theme => Vec::new(),
        }
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let context = &*self.context;
        let text = match self.kind {
            Kind::Agents => agents(context),
            Kind::Btw => side_question::ask(&context.agent, args, cx).await?,
            Kind::Config => settings::config(context, args)?,
            Kind::Cost => cost::cost(&*context.sessions, &context.agent).await?,
            Kind::Export => export::export(context, args, cx)?,
            Kind::Login => {
                let provider = Some(args).filter(|name| !name.is_empty());
                context.factory.sign_in(provider, cx).await?
            }
            Kind::Logout if args.is_empty() => {
                return Err("/logout takes the name of a provider, such as `/logout anthropic`".into());
            }
            Kind::Logout => context.factory.sign_out(args).await?,
            Kind::Skills => skills(cx).await?,
            Kind::Status => status::status(context, cx).await,
            Kind::Theme => settings::theme(context, args)?,
        };
        Ok(CommandOutcome::Show(text))
    }
}

/// The sub-agents of this conversation in a line each.
fn agents(context: &InfoContext) -> String {
    let view = context.view.view();
    let mut lines: Vec<String> = Vec::new();
    for agent in &view.agents {
        lines.push(format!("{:<16} {}", agent.name, agent.task));
    }
    for agent in view.blocks.iter().filter_map(|block| block.agent.as_ref()) {
        if !lines.iter().any(|line| line.split_whitespace().next() == Some(agent.name.as_str())) {
            lines.push(format!("{:<16} of an earlier run", agent.name));
        }
    }
    if lines.is_empty() { "no sub-agent has worked yet".to_owned() } else { lines.join("\n") }
}

/// The skills in a line each.
async fn skills(cx: &Cx) -> Result<String, BoxError> {
    let Some(skills) = cx.service::<Skills>() else {
        return Ok("this conversation has no skills".to_owned());
    };
    let set = skills.refresh(cx).await?;
    let line = |skill: &Arc<zk_skills::Skill>| {
        let about = visible_line(&skill.manifest.description);
        format!("/skill:{:<20} {:<9} {about}", skill.name(), skill.source.as_str())
    };
    let lines: Vec<String> = set.skills.iter().map(line).collect();
    Ok(match lines.is_empty() {
        true => "no skills here: `.zk/skills/NAME/SKILL.md` is one of the project, and `zk skills` says more"
            .to_owned(),
        false => lines.join("\n"),
    })
}
