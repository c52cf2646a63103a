use std::sync::Arc;

use tokio::sync::Mutex;
use zk_core::service::{FrontEnd, PendingQuestion, Question, Ui, UiAnswer};

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

    async fn yes(&self, question: &[(Style, String)], session: bool) -> UiAnswer {
        let _turn = self.turn.lock().await;
        let wanted = move |key| matches!(key, 'y' | 'n') || (session && key == 's');
        let answer = match self.keyboard.key(wanted, || self.show(question)).await {
            Some('y') => (UiAnswer::Once, "yes"),
            Some('s') => (UiAnswer::Session, "session"),
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

/// Draws the questions and gives the answers, one after the other, for ever.
pub(crate) async fn attend(front_end: FrontEnd, ui: Arc<TerminalUi>) {
    loop {
        let pending = front_end.next().await;
        let answer = ui.ask(&pending).await;
        // One that was withdrawn meanwhile needs no answer.
        let _ = front_end.answer(pending.id, pending.digest, answer);
    }
}

impl Ui for TerminalUi {
    fn notify(&self, text: &str) {
        self.screen.line(Style::Yellow, text);
    }
}

impl TerminalUi {
    async fn ask(&self, pending: &PendingQuestion) -> UiAnswer {
        match &pending.question {
            Question::Approve(approval) => {
                let origin = &pending.origin;
                let who = if origin.depth > 0 { format!("{}: ", origin.agent) } else { String::new() };
                let mut question = vec![(Style::Bold, format!("? {who}{}", approval.tool))];
                for section in approval.sections() {
                    question.push((Style::Dim, format!("  {}", section.heading)));
                    question.extend(section.lines.iter().map(|line| (Style::Plain, format!("  | {line}"))));
                }
                let session = approval.session.as_deref().unwrap_or("this call");
                let how = format!("Run? [y]es · [n]o · [s]ession: {session}");
                question.push((Style::Plain, how));
                self.yes(&question, approval.session.is_some()).await
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
                    Some(number) if (1..=options.len()).contains(&number) => {
                        UiAnswer::Choice { index: number - 1 }
                    }
                    Some(_) | None => UiAnswer::Absent,
                }
            }
            Question::Input { text } => {
                let question = [(Style::Bold, format!("? {text}"))];
                self.line(&question).await.map_or(UiAnswer::Absent, |text| UiAnswer::Text { text })
            }
        }
    }
}
