//! Unhandled input of a conversation that leaves its screen, for the next screen.

use zk_tui::plain::{Keyboard, Waiting};
use zk_view::Effect;

use super::host_messages::{HostRequest, Queued};

/// Splits a burst of input after a line that leaves the screen, so that only that line is handled here.
pub(crate) fn split_after_leaving_line(text: &str) -> (&str, Option<&str>) {
    let text = text.trim();
    let Some((first, behind)) = text.split_once('\n') else { return (text, None) };
    let is_leaving = matches!(first.split_whitespace().next(), Some("/login" | "/reload" | "/screen"));
    if is_leaving { (first, Some(behind)) } else { (text, None) }
}

/// Unhandled requests and the draft.
#[derive(Default)]
pub(crate) struct PendingInput {
    /// Requests from submitted lines, in order.
    pub(crate) work: Vec<HostRequest>,
    /// Text that was not submitted.
    pub(crate) draft: String,
}

impl PendingInput {
    /// Pending input of a screen that has ended: its queued requests and its draft.
    pub(crate) fn of_screen(queued: Queued, draft: String) -> Self {
        let Queued { first, mut rest } = queued;
        let rest = std::iter::from_fn(|| rest.try_recv().ok());
        Self { work: first.into_iter().chain(rest).collect(), draft }
    }

    /// Takes all pending input of a keyboard.
    pub(crate) fn take_from(&mut self, keyboard: &Keyboard) {
        let work = |Waiting { text, is_prompt }| match is_prompt {
            true => HostRequest::Effect(Effect::Run { text }),
            false => HostRequest::Line(text),
        };
        self.work.extend(std::iter::from_fn(|| keyboard.next_queued()).map(work));
        self.draft.push_str(&keyboard.take_draft());
    }

    /// Queued lines and draft, as one text for the composer or the file of drafts.
    pub(crate) fn text(&self) -> String {
        join(self.work.iter().filter_map(typed_text).chain([self.draft.clone()]))
    }

    /// Moves the first `count` requests back into the draft, since they were typed for a state that did not
    /// come. Returns whether any was a text.
    pub(crate) fn return_to_draft(&mut self, count: usize) -> bool {
        let later = self.work.split_off(count.min(self.work.len()));
        let given_back = std::mem::replace(&mut self.work, later);
        let texts: Vec<String> = given_back.iter().filter_map(typed_text).collect();
        let is_any = !texts.is_empty();
        self.draft = join(texts.into_iter().chain([std::mem::take(&mut self.draft)]));
        // Picker choices are not text, and quitting needs no draft.
        let rest = given_back
            .into_iter()
            .filter(|work| typed_text(work).is_none() && !matches!(work, HostRequest::Quit));
        self.work.splice(..0, rest);
        is_any
    }
}

/// Text that the person typed for a request.
fn typed_text(work: &HostRequest) -> Option<String> {
    match work {
        HostRequest::Line(text) | HostRequest::Effect(Effect::Run { text } | Effect::GiveBack { text }) => {
            Some(text.clone())
        }
        HostRequest::Effect(_) | HostRequest::Quit => None,
    }
}

/// Joins non-empty texts with line ends.
pub(crate) fn join(texts: impl IntoIterator<Item = String>) -> String {
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use zk_view::Effect;

    use super::{HostRequest, PendingInput, split_after_leaving_line};

    #[test]
    fn only_a_command_that_leaves_the_screen_is_split_from_later_input() {
        for (text, expected) in [
            ("/reload\nhello\nyou\n", ("/reload", Some("hello\nyou"))),
            ("/screen plain\n/help", ("/screen plain", Some("/help"))),
            ("/reload ", ("/reload", None)),
            ("/greet all\nof you", ("/greet all\nof you", None)),
            ("hello\n/reload", ("hello\n/reload", None)),
            ("/reloaded\nhello", ("/reloaded\nhello", None)),
        ] {
            assert_eq!(split_after_leaving_line(text), expected, "{text:?}");
        }
    }
    #[test]
    fn returned_text_precedes_the_draft_and_other_requests_stay() {
        let line = |text: &str| HostRequest::Line(text.to_owned());
        let prompt = HostRequest::Effect(Effect::Run { text: "/two".to_owned() });
        let work =
            vec![line("one"), prompt, HostRequest::Effect(Effect::Hurry), HostRequest::Quit, line("three")];
        let mut pending = PendingInput { work, draft: "four".to_owned() };
        assert!(pending.return_to_draft(4));
        assert_eq!(pending.draft, "one\n/two\nfour");
        assert!(
            matches!(&pending.work[..], [HostRequest::Effect(Effect::Hurry), HostRequest::Line(text)] if text == "three")
        );
        assert!(!pending.return_to_draft(0) && pending.return_to_draft(usize::MAX));
        assert_eq!(pending.draft, "three\none\n/two\nfour");
    }
}
