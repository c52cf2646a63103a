//! The commands about the context window in a conversation: `/compact`, `/uncompact` and `/context`.

use std::sync::Arc;

use async_trait::async_trait;
use zk_agent::AgentConversation;
use zk_compaction::{LazyCounter, report};
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{Command, CommandOutcome, ContextWindow, Conversation, SessionLog, WindowFill};

use super::context_lines::{compaction_line, context_lines, fill_line};
use zk_tui::thousands;

/// Creates the commands.
pub(crate) fn window_commands(conversation: &AgentConversation) -> Vec<Arc<dyn Command>> {
    let make =
        |kind| Arc::new(WindowCommand { kind, conversation: conversation.clone() }) as Arc<dyn Command>;
    [Kind::Compact, Kind::Uncompact, Kind::Context].map(make).into()
}

struct WindowCommand {
    kind: Kind,
    conversation: AgentConversation,
}

#[derive(Clone, Copy)]
enum Kind {
    Compact,
    Uncompact,
    Context,
}

#[async_trait]
impl Command for WindowCommand {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Compact => "compact",
            Kind::Uncompact => "uncompact",
            Kind::Context => "context",
        }
    }

    fn help(&self) -> &str {
        match self.kind {
            Kind::Compact => "make the conversation smaller; WORDS say what to keep",
            Kind::Uncompact => "take the last compaction back",
            Kind::Context => "what fills the context window",
        }
    }

    fn argument_hint(&self) -> Option<&str> {
        match self.kind {
            Kind::Compact => Some("[WORDS]"),
            Kind::Uncompact | Kind::Context => None,
        }
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let text = match self.kind {
            Kind::Compact => self.compact(args).await?,
            Kind::Uncompact => self.uncompact(cx).await?,
            Kind::Context => self.describe_context(cx).await,
        };
        Ok(CommandOutcome::Show(text))
    }
}

impl WindowCommand {
    fn context_window(&self) -> Result<Arc<dyn ContextWindow>, BoxError> {
        let window = self.conversation.agent().bus().service::<dyn ContextWindow>();
        Ok(window.ok_or("nothing makes conversations smaller here: `shorten` is false in the settings")?)
    }

    fn window_fill(&self) -> Option<WindowFill> {
        self.context_window().ok()?.fill(&self.conversation.agent().context())
    }

    async fn compact(&self, instructions: &str) -> Result<String, BoxError> {
        self.context_window()?;
        let instructions = Some(instructions.to_owned()).filter(|text| !text.is_empty());
        let before = self.window_fill().map_or(0, |fill| fill.compactions);
        self.conversation.compact(instructions).await?;
        Ok(match self.window_fill().filter(|fill| fill.compactions > before).and_then(|fill| fill.last) {
            Some(last) => format!(
                "compacted: about {} tokens are {} now; /uncompact takes it back, the session keeps everything",
                thousands(last.before),
                thousands(last.after)
            ),
            None => "nothing could be left out: the conversation stays as it is".to_owned(),
        })
    }

    async fn uncompact(&self, cx: &Cx) -> Result<String, BoxError> {
        let undone = self.context_window()?.restore(&self.conversation.agent().context(), cx).await?;
        if undone && cx.service::<dyn SessionLog>().is_some_and(|log| log.earlier() > 0) {
            // Messages before the compaction were not loaded with the session.
            self.conversation.reload().await?;
        }
        let text = if undone {
            "taken back: what was left out is sent again, until the window overflows or /compact"
        } else {
            "there is no compaction to take back"
        };
        Ok(text.to_owned())
    }

    async fn describe_context(&self, cx: &Cx) -> String {
        let agent = self.conversation.agent();
        let sent = self
            .context_window()
            .ok()
            .and_then(|window| window.sent(&agent.context(), &agent.history()))
            .unwrap_or_else(|| agent.history());
        let counter =
            tokio::task::spawn_blocking(|| LazyCounter::default().loaded()).await.unwrap_or_default();
        let mut report = report(&sent, &counter, cx).await;
        report.add_system(agent.system(), &counter);
        let mut lines = context_lines(&report);
        if let Some(fill) = self.window_fill() {
            lines.insert(0, fill_line(&fill));
            lines.extend(compaction_line(&fill));
        }
        lines.join("\n")
    }
}
