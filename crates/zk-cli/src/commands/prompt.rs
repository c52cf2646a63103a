use zk_agent::section_texts;
use zk_compaction::{LazyCounter, TokenCounter};
use zk_core::service::{ContextMode, ContextProducer, Tool, visible_line, visible_lines};

use super::print;
use crate::app::{AppContext, runtime};
use crate::args::cli::PromptAction;
use crate::compose::{self, HostOptions};
use crate::exit::{Exit, Failure, Outcome};
use crate::prompt;
use crate::sessions::Session;

/// Prints what a model is told before the conversation, part by part.
pub(crate) fn prompt_command(app: &AppContext, action: &PromptAction) -> Outcome<Exit> {
    let PromptAction::Show { sizes } = action;
    runtime()?.block_on(async {
        let host = HostOptions {
            ui: None,
            questions: None,
            allow_all: app.settings.flag("permissions.allow_all"),
            view: zk_view::ViewDriver::new(),
        };
        let bus = compose::bus(app, &Session::default(), host)?;
        compose::install_sections(app, &bus)?;
        let cx = bus.cx();
        let mut lines = Vec::new();
        let mut total = 0;
        let counter = LazyCounter::default().loaded();
        let mut part = |what: &str, source: &str, all: &str, text: &str| {
            let tokens = counter.count(all);
            total += tokens;
            let head = format!("{what:<26} {tokens:>6} tokens  of {source}");
            if *sizes {
                lines.push(visible_line(&head));
            } else {
                lines.push(format!("=== {}", visible_line(&head)));
                lines.extend(visible_lines(text));
                lines.push(String::new());
            }
        };
        for section in section_texts(&cx, &prompt::own(&app.settings)).await.map_err(Failure::failed)? {
            part(&format!("section {}", section.id), &section.source, &section.text, &section.text);
        }
        for tool in cx.items::<dyn Tool>() {
            let spec = tool.value.spec();
            let all = format!("{}\n{}\n{}", spec.name, spec.description, spec.schema);
            part(&format!("tool {}", tool.name), tool.source.as_str(), &all, &spec.description);
        }
        for context in cx.items::<dyn ContextProducer>() {
            let when = match context.value.mode() {
                ContextMode::PerQuery => "before a prompt",
                ContextMode::PerRequest => "behind a request",
            };
            let text = context.value.text(&cx).await.ok().flatten().unwrap_or_default();
            part(&format!("{when}: {}", context.name), context.source.as_str(), &text, &text);
        }
        lines.push(format!("{:<26} {total:>6} tokens, by an estimate", "all"));
        bus.close().await;
        print(app, &lines)
    })
}
