use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use tokio::sync::Mutex;
use zk_core::service::{Question, Ui, UiAnswer};

use super::keys;
use crate::mode::show::Shown;
use crate::term::Style;

/// The person at this terminal.
pub(crate) struct TerminalUi {
    shown: Shown,
    /// One question at a time: calls that run side by side may ask side by side.
    turn: Arc<Mutex<()>>,
}

impl TerminalUi {
    pub(crate) fn new(shown: Shown) -> Self {
        Self { shown, turn: Arc::default() }
    }

    /// Waits until no question reads from the terminal any more, which it then has left as it was.
    pub(crate) async fn settled(&self) {
        drop(self.turn.lock().await);
    }

    /// Waits for `read` on a thread of its own. When the question is dropped, the reading ends with it, and
    /// only then the next question's turn comes.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&AtomicBool) -> std::io::Result<Option<T>> + Send + 'static,
    ) -> Option<T> {
        let turn = self.turn.clone().lock_owned().await;
        let unwanted = Arc::new(AtomicBool::new(false));
        let dropped = Dropped(unwanted.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            read(&unwanted)
        });
        let typed = reading.await;
        drop(dropped);
        typed.ok()?.ok()?
    }

    async fn yes(&self, always: bool) -> UiAnswer {
        loop {
            let answer = match self.read(keys::key).await.map(|key| key.to_ascii_lowercase()) {
                Some('y') => (UiAnswer::Yes, "yes"),
                Some('a') if always => (UiAnswer::Always, "always"),
                Some('n' | '\u{1b}') => (UiAnswer::No { message: None }, "no"),
                Some(_) => continue,
                None => return UiAnswer::Absent,
            };
            self.shown.line(Style::Dim, &format!("  {}", answer.1));
            return answer.0;
        }
    }
}

/// Ends the reading of a question nobody waits for any more.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[async_trait]
impl Ui for TerminalUi {
    fn is_interactive(&self) -> bool {
        true
    }

    async fn ask(&self, question: Question) -> UiAnswer {
        match question {
            Question::Approve { agent, depth, tool, summary, .. } => {
                let who = if depth > 0 { format!("{agent}: ") } else { String::new() };
                self.shown.line(Style::Bold, &format!("? {who}{tool}: {summary}"));
                self.shown.line(Style::Plain, "  run it? y yes · n no · a always, for this tool");
                self.yes(true).await
            }
            Question::Confirm { text } => {
                self.shown.line(Style::Bold, &format!("? {text}"));
                self.shown.line(Style::Plain, "  y yes · n no");
                self.yes(false).await
            }
            Question::Select { text, options } => {
                self.shown.line(Style::Bold, &format!("? {text}"));
                for (number, option) in options.iter().enumerate() {
                    self.shown.line(Style::Plain, &format!("  {} {option}", number + 1));
                }
                match self.read(keys::line).await.and_then(|line| line.parse::<usize>().ok()) {
                    Some(number) if (1..=options.len()).contains(&number) => UiAnswer::Choice(number - 1),
                    Some(_) | None => UiAnswer::Absent,
                }
            }
            Question::Input { text } => {
                self.shown.line(Style::Bold, &format!("? {text}"));
                self.read(keys::line).await.map_or(UiAnswer::Absent, UiAnswer::Text)
            }
        }
    }

    fn notify(&self, text: &str) {
        self.shown.line(Style::Yellow, text);
    }
}
