use async_trait::async_trait;
use tokio::sync::Mutex;
use zk_core::service::{Question, Ui, UiAnswer};

use super::keyboard::Keyboard;
use crate::mode::shared_screen::SharedScreen;
use crate::term::Style;

/// The person at this terminal.
pub(crate) struct TerminalUi {
    screen: SharedScreen,
    keyboard: Keyboard,
    /// One question at a time: calls that run side by side may ask side by side.
    turn: Mutex<()>,
}

impl TerminalUi {
    pub(crate) fn new(screen: SharedScreen, keyboard: Keyboard) -> Self {
        Self { screen, keyboard, turn: Mutex::default() }
    }

    async fn yes(&self, question: &[(Style, String)], always: bool) -> UiAnswer {
        let _turn = self.turn.lock().await;
        let wanted = move |key| matches!(key, 'y' | 'n') || (always && key == 'a');
        let answer = match self.keyboard.key(wanted, || self.show(question)).await {
            Some('y') => (UiAnswer::Yes, "yes"),
            Some('a') => (UiAnswer::Always, "always"),
            Some(_) => (UiAnswer::No { message: None }, "no"),
            None => return UiAnswer::Absent,
        };
        self.screen.line(Style::Dim, &format!("  {}", answer.1));
        answer.0
    }

    async fn line(&self, question: &[(Style, String)]) -> Option<String> {
        let _turn = self.turn.lock().await;
        let line = self.keyboard.line(|| self.show(question)).await?;
        self.screen.line(Style::Dim, &format!("  {line}"));
        Some(line.trim().to_owned())
    }

    fn show(&self, question: &[(Style, String)]) {
        question.iter().for_each(|(style, line)| self.screen.line(*style, line));
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
                let question = [(Style::Bold, format!("? {who}{tool}: {summary}")), (Style::Plain, how)];
                self.yes(&question, true).await
            }
            Question::Confirm { text } => {
                let how = "  y yes · n no".to_owned();
                self.yes(&[(Style::Bold, format!("? {text}")), (Style::Plain, how)], false).await
            }
            Question::Select { text, options } => {
                let mut question = vec![(Style::Bold, format!("? {text}"))];
                let numbered = options.iter().zip(1..);
                question
                    .extend(numbered.map(|(option, number)| (Style::Plain, format!("  {number} {option}"))));
                match self.line(&question).await.and_then(|line| line.parse::<usize>().ok()) {
                    Some(number) if (1..=options.len()).contains(&number) => UiAnswer::Choice(number - 1),
                    Some(_) | None => UiAnswer::Absent,
                }
            }
            Question::Input { text } => {
                let question = [(Style::Bold, format!("? {text}"))];
                self.line(&question).await.map_or(UiAnswer::Absent, UiAnswer::Text)
            }
        }
    }

    fn notify(&self, text: &str) {
        self.screen.line(Style::Yellow, text);
    }
}
