use zk_agent::section_texts;
use zk_compaction::{LazyCounter, TokenCounter};
use zk_core::model::Disclosure;
use zk_core::service::{ContextMode, ContextProducer, Tool, visible_line, visible_lines};

use super::context::wait_for_servers;
use crate::app::{AppContext, runtime};
use crate::args::actions::PromptAction;
use crate::commands::print;
use crate::compose::{self, HostOptions};
use crate::exit::{Exit, Failure, Outcome};
use crate::prompt;
use crate::sessions::Session;

/// Prints the system prompt and the context before a conversation, part by part.
pub(crate) fn prompt_command(app: &AppContext, action: &PromptAction) -> Outcome<Exit> {
    let PromptAction::Show { sizes } = action;
    runtime()?.block_on(async {
        let bus = compose::bus(app, &Session::default(), HostOptions::unattended(&app.settings)).await?;
        compose::install_sections(&app.work, &app.settings, &bus)?;
        wait_for_servers(&app.work.machine, &app.settings, &bus).await;
        let cx = bus.cx();
        let mut lines = Vec::new();
        let mut total = 0;
        let counter = LazyCounter::default().loaded();
        let mut part = |what: &str, source: &str, all: &str, text: &str, is_sent: bool| {
            let tokens = counter.count(all);
            total += if is_sent { tokens } else { 0 };
            let when = match (is_sent, tokens) {
                (false, _) => ", once it is looked for: not counted",
                (true, 0) => ", nothing now",
                (true, _) => "",
            };
            let head = format!("{what:<30} {tokens:>6} tokens  of {source}{when}");
            if *sizes {
                lines.push(visible_line(&head));
            } else {
                lines.push(format!("=== {}", visible_line(&head)));
                lines.extend(visible_lines(text).into_iter().filter(|_| tokens > 0));
                lines.push(String::new());
            }
        };
        for section in
            section_texts(&cx, &prompt::own_prompt(&app.settings)).await.map_err(Failure::failed)?
        {
            part(&format!("section {}", section.id), &section.source, &section.text, &section.text, true);
        }
        for tool in cx.items::<dyn Tool>() {
            let spec = tool.value.spec();
            let all = format!("{}\n{}\n{}", spec.name, spec.description, spec.schema);
            let is_sent = spec.disclosure == Disclosure::Always;
            part(&format!("tool {}", tool.name), tool.source.as_str(), &all, &spec.description, is_sent);
        }
        for context in cx.items::<dyn ContextProducer>() {
            let when = match context.value.mode() {
                ContextMode::PerQuery => "before a prompt",
                ContextMode::PerRequest => "behind a request",
            };
            let text = context.value.text(&cx).await.ok().flatten().unwrap_or_default();
            part(&format!("{when}: {}", context.name), context.source.as_str(), &text, &text, true);
        }
        lines.push(format!("{:<30} {total:>6} tokens, by an estimate", "all"));
        bus.close().await;
        print(&app.work.machine, &lines)
    })
}
