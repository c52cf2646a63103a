//! What was typed for a conversation that leaves its screen: it goes on with the conversation.

use zk_view::Effect;

use super::chat::Chat;
use super::keyboard::Keyboard;
use super::worker::{Queued, Work};

/// Splits what was typed in one burst, of which a screen makes one text, behind a command that has the conversation leave
/// its screen: that takes no more than its line.
pub(super) fn split_line(text: &str) -> (&str, Option<&str>) {
    let text = text.trim();
    let Some((first, behind)) = text.split_once('\n') else { return (text, None) };
    let is_leaving = matches!(first.split_whitespace().next(), Some("/reload" | "/screen"));
    if is_leaving { (first, Some(behind)) } else { (text, None) }
}

/// Typed text and commands that nothing was done about yet.
#[derive(Default)]
pub(super) struct Unfinished {
    /// Work of lines that Enter ended, in order.
    pub(super) work: Vec<Work>,
    /// The text that Enter did not end.
    pub(super) draft: String,
}

impl Unfinished {
    /// The queued work of a screen that has ended, and its draft.
    pub(super) fn of_screen(queued: Queued, draft: String) -> Self {
        let Queued { first, mut rest } = queued;
        let rest = std::iter::from_fn(|| rest.try_recv().ok());
        Self { work: first.into_iter().chain(rest).collect(), draft }
    }

    /// Takes over everything that was typed at a keyboard.
    pub(super) fn take_from(&mut self, keyboard: &Keyboard) {
        self.work.extend(std::iter::from_fn(|| keyboard.next_queued()).map(Work::Line));
        self.draft.push_str(&keyboard.take_draft());
    }

    /// Queued lines and draft as one text, for the composer or the file of drafts.
    pub(super) fn text(&self) -> String {
        let line = |work: &Work| match work {
            Work::Line(text) | Work::Effect(Effect::Run { text } | Effect::GiveBack { text }) => {
                Some(text.clone())
            }
            Work::Effect(_) | Work::Quit => None,
        };
        let lines = self.work.iter().filter_map(line).chain([self.draft.clone()]);
        lines.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
    }

    /// Has plain lines do the work, and gives the text that the next line begins with.
    pub(super) async fn queue_in_lines(self, chat: &Chat) {
        let mut draft = self.draft;
        for work in self.work {
            match work {
                Work::Line(text) | Work::Effect(Effect::Run { text }) => chat.keyboard.queue(text),
                Work::Quit => chat.keyboard.queue("/quit".to_owned()),
                Work::Effect(effect) => {
                    if let Some(Effect::GiveBack { text }) =
                        chat.view.carry_out(&chat.conversation, effect).await
                    {
                        let texts = [text, draft];
                        draft =
                            texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
                    }
                }
            }
        }
        chat.keyboard.set_draft(draft);
    }
}

#[cfg(test)]
mod tests {
    use super::split_line;

    #[test]
    fn only_a_command_that_leaves_its_screen_is_split_from_what_came_with_it() {
        for (text, expected) in [
            ("/reload\nhello\nyou\n", ("/reload", Some("hello\nyou"))),
            ("/screen plain\n/help", ("/screen plain", Some("/help"))),
            ("/reload ", ("/reload", None)),
            ("/greet all\nof you", ("/greet all\nof you", None)),
            ("hello\n/reload", ("hello\n/reload", None)),
            ("/reloaded\nhello", ("/reloaded\nhello", None)),
        ] {
            assert_eq!(split_line(text), expected, "{text:?}");
        }
    }
}
