use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{ArgumentChoice, Command, CommandOutcome, visible_line};
use zk_skills::Skills;
use zk_tui::Theme;

use super::info_context::InfoContext;
use super::{agents, cost, export, settings, side_question, status};
use crate::opening::setup::OWN_THEME;

/// Command with its name, arguments and help.
struct CommandInfo {
    kind: Kind,
    name: &'static str,
    help: &'static str,
    hint: Option<&'static str>,
}

#[derive(Clone, Copy)]
enum Kind {
    Agents,
    Btw,
    Config,
    Cost,
    Export,
    Logout,
    Recap,
    Skills,
    Status,
    Theme,
}

const fn command_info(
    kind: Kind,
    name: &'static str,
    hint: Option<&'static str>,
    help: &'static str,
) -> CommandInfo {
    CommandInfo { kind, name, help, hint }
}

const COMMANDS: [CommandInfo; 10] = [
    command_info(
        Kind::Agents,
        "agents",
        Some("[NAME | stop NAME | steer NAME TEXT]"),
        "sub-agents of this conversation; /agents NAME shows its work, stop and steer reach one that works",
    ),
    command_info(
        Kind::Btw,
        "btw",
        Some("QUESTION"),
        "ask beside the run; the conversation does not know of it",
    ),
    command_info(
        Kind::Config,
        "config",
        Some("[edit]"),
        "where settings come from; /config edit opens your file",
    ),
    command_info(Kind::Cost, "cost", None, "what this session has cost so far, by model"),
    command_info(
        Kind::Export,
        "export",
        Some("[FILE]"),
        "write the conversation to a file: .md, .html or .jsonl",
    ),
    command_info(Kind::Logout, "logout", Some("PROVIDER"), "forget the key or sign-in of a provider"),
    command_info(Kind::Recap, "recap", None, "what happened in this conversation, in a few lines"),
    command_info(Kind::Skills, "skills", None, "skills there are, and who has them"),
    command_info(Kind::Status, "status", None, "model, mode, directory, session, servers, context and cost"),
    command_info(Kind::Theme, "theme", None, "other colours, at once"),
];

struct InfoCommand {
    about: &'static CommandInfo,
    context: Arc<InfoContext>,
}

/// Creates the commands.
pub(crate) fn info_commands(context: InfoContext) -> Vec<Arc<dyn Command>> {
    let context = Arc::new(context);
    COMMANDS.iter().map(|about| Arc::new(InfoCommand { about, context: context.clone() }) as _).collect()
}

#[async_trait]
impl Command for InfoCommand {
    fn name(&self) -> &str {
        self.about.name
    }

    fn help(&self) -> &str {
        self.about.help
    }

    fn argument_hint(&self) -> Option<&str> {
        self.about.hint
    }

    async fn complete(&self, before: &str, _: &Cx) -> Vec<ArgumentChoice> {
        match self.about.kind {
            Kind::Config if before.is_empty() => {
                vec![ArgumentChoice::new("edit", "open your settings in your editor")]
            }
            Kind::Theme if before.is_empty() => {
                let choice = |(name, about): &(&str, &str)| ArgumentChoice::new(*name, *about);
                let own = self.context.factory.setup().palette.is_some().then_some(&OWN_THEME);
                Theme::NAMES.iter().chain(own).map(choice).collect()
            }
            Kind::Agents if before.is_empty() => agents::choices(&self.context),
            Kind::Agents
            | Kind::Btw
            | Kind::Config
            | Kind::Cost
            | Kind::Export
            | Kind::Logout
            | Kind::Recap
            | Kind::Skills
            | Kind::Status
            | Kind::Theme => Vec::new(),
        }
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let context = &*self.context;
        let text = match self.about.kind {
            Kind::Agents => agents::agents(context, args)?,
            Kind::Btw => side_question::ask(&context.agent, args, cx).await?,
            Kind::Config => settings::config(context, args)?,
            Kind::Cost => cost::cost(&*context.sessions, &context.agent).await?,
            Kind::Export => export::export(context, args, cx).await?,
            Kind::Logout if args.is_empty() => {
                return Err("/logout takes the name of a provider, such as `/logout anthropic`".into());
            }
            Kind::Logout => context.factory.sign_out(args).await?,
            Kind::Recap => side_question::recap(&context.agent, cx).await?,
            Kind::Skills => list_skills(cx).await?,
            Kind::Status => status::status(context, cx).await,
            Kind::Theme => settings::theme(context, args)?,
        };
        Ok(CommandOutcome::Show(text))
    }
}

/// Lists the skills, one per line.
async fn list_skills(cx: &Cx) -> Result<String, BoxError> {
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
