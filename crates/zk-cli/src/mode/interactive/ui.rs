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

    async fn yes(&self, question: Vec<(Style, String)>, always: bool) -> UiAnswer {
        let ask = self.asking(question);
        let wanted = move |key| matches!(key, 'y' | 'n' | ESCAPE) || (always && key == 'a');
        let answer = match self.read(move |unwanted| keys::key(unwanted, ask, wanted)).await {
            Some('y') => (UiAnswer::Yes, "yes"),
            Some('a') => (UiAnswer::Always, "always"),
            Some(_) => (UiAnswer::No { message: None }, "no"),
            None => return UiAnswer::Absent,
        };
        self.shown.line(Style::Dim, &format!("  {}", answer.1));
        answer.0
    }

    async fn line(&self, question: Vec<(Style, String)>) -> Option<String> {
        let ask = self.asking(question);
        self.read(move |unwanted| keys::line(unwanted, ask)).await
    }

    /// Shows the question, when its turn has come.
    fn asking(&self, question: Vec<(Style, String)>) -> impl FnOnce() + Send + 'static {
        let shown = self.shown.clone();
        move || question.iter().for_each(|(style, line)| shown.line(*style, line))
    }
}

const ESCAPE: char = '\u{1b}';

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
                let how = "  run it? y yes · n no · a always, for this tool".to_owned();
                let question = vec![(Style::Bold, format!("? {who}{tool}: {summary}")), (Style::Plain, how)];
                self.yes(question, true).await
            }
            Question::Confirm { text } => {
                let how = "  y yes · n no".to_owned();
                self.yes(vec![(Style::Bold, format!("? {text}")), (Style::Plain, how)], false).await
            }
            Question::Select { text, options } => {
                let mut question = vec![(Style::Bold, format!("? {text}"))];
                let numbered = options.iter().zip(1..);
                question
                    .extend(numbered.map(|(option, number)| (Style::Plain, format!("  {number} {option}"))));
                match self.line(question).await.and_then(|line| line.parse::<usize>().ok()) {
                    Some(number) if (1..=options.len()).contains(&number) => UiAnswer::Choice(number - 1),
                    Some(_) | None => UiAnswer::Absent,
                }
            }
            Question::Input { text } => {
                let question = vec![(Style::Bold, format!("? {text}"))];
                self.line(question).await.map_or(UiAnswer::Absent, UiAnswer::Text)
            }
        }
    }

    fn notify(&self, text: &str) {
        self.shown.line(Style::Yellow, text);
    }
}
