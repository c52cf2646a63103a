//! `/status`: the present state of the conversation, in a few lines.

use zk_core::kernel::Cx;
use zk_core::service::{Command, CommandOutcome};
use zk_permission::ModeSwitch;
use zk_tui::thousands;

use super::cost::cost;
use super::info_context::InfoContext;
use crate::commands::backends::{OWN_PERMISSIONS, active_foreign_backend};
use crate::conversation::summary;

/// Width of the name column.
const NAME_COLUMNS: usize = 11;

/// Lists the present state, one fact per line.
pub(super) async fn status(context: &InfoContext, cx: &Cx) -> String {
    let agent = &context.agent;
    let model = agent.model();
    let level = agent.thinking().level;
    let window =
        model.window.map_or(String::new(), |tokens| format!(" · window {} tokens", thousands(tokens)));
    let mut rows = vec![
        ("zk", env!("CARGO_PKG_VERSION").to_owned()),
        ("model", format!("{}{window} · thinking {}", model.reference(), level.as_str())),
    ];
    if let Some(backend) = active_foreign_backend(agent) {
        let own = if backend.has_own_permissions() { OWN_PERMISSIONS } else { "zk's permissions" };
        rows.push(("backend", format!("{}: {own}", backend.name())));
        rows.extend(backend.unenforced().into_iter().map(|line| ("", line)));
    }
    if let Some(modes) = cx.service::<ModeSwitch>() {
        rows.push(("mode", format!("{}: {}", modes.name(), modes.describe())));
    }
    rows.extend(context.factory.describe_place(agent).map(|place| ("commands", place)));
    rows.push(("directory", context.factory.setup().cwd_now(cx).display().to_string()));
    rows.push((
        "session",
        match context.sessions.open_session() {
            Some(open) => format!("{} · {} messages", open.id(), agent.history().len()),
            None => "not saved".to_owned(),
        },
    ));
    let servers = server_lines(cx).await;
    rows.extend(servers.into_iter().enumerate().map(|(at, line)| (if at == 0 { "mcp" } else { "" }, line)));
    let fill = summary::context_fill(&context.view.view().status);
    rows.push(("context", fill.unwrap_or_else(|| "nothing was sent yet".to_owned())));
    if let Ok(spent) = cost(&*context.sessions, agent).await
        && let Some(first) = spent.lines().next()
    {
        rows.push(("cost", first.to_owned()));
    }
    let line = |(name, text): (&str, String)| format!("{name:<NAME_COLUMNS$}{text}");
    rows.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// State of the MCP servers, as their own command reports it.
async fn server_lines(cx: &Cx) -> Vec<String> {
    let Some(command) = cx.item::<dyn Command>("mcp") else { return Vec::new() };
    match command.run("", cx).await {
        Ok(CommandOutcome::Show(text)) => text.lines().map(str::to_owned).collect(),
        Ok(
            CommandOutcome::Done | CommandOutcome::Prompt(_) | CommandOutcome::Quit | CommandOutcome::Reload,
        )
        | Err(_) => Vec::new(),
    }
}
