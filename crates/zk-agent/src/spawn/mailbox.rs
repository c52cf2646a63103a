use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use crate::lock::lock;

/// Maximum number of unread messages of one agent.
const MAX_UNREAD_MESSAGES: usize = 32;
/// Maximum size of one message, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 << 10;
/// Maximum size of the excerpt of an unread message for its sender, in bytes.
const MAX_EXCERPT_BYTES: usize = 200;

/// Message from one agent to another. Only mailboxes create it, so that its sender is not forged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Letter {
    /// Name of the agent that sent the message.
    pub(super) from: Arc<str>,
    pub(super) text: String,
    /// Whether the message tells its reader of messages that were not read, so that nobody is told of it in turn.
    is_return: bool,
}

/// Reason for which a message was not delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MailError {
    #[error("{to} has ended, so nobody will read the message; start another sub-agent")]
    Ended { to: String },
    #[error(
        "{to} has {MAX_UNREAD_MESSAGES} unread messages, as many as there may be; wait until it has read some"
    )]
    Full { to: String },
    #[error("a message may have {MAX_MESSAGE_BYTES} bytes, this one has {bytes}; write less, or name a file")]
    TooLong { bytes: usize },
}

/// Mailboxes of the agents of a tree that are alive. Messages are read on request and never interrupt.
#[derive(Debug, Default)]
pub(super) struct Mailboxes(Mutex<HashMap<String, VecDeque<Letter>>>);

impl Mailboxes {
    /// Opens the mailbox of an agent.
    pub(super) fn open(&self, agent: &str) {
        lock(&self.0).entry(agent.to_owned()).or_default();
    }

    /// Closes the mailbox of an ended agent. Each sender of unread messages is told once, in its own mailbox.
    pub(super) fn close(&self, agent: &str) {
        let mut boxes = lock(&self.0);
        let unread = boxes.remove(agent).unwrap_or_default();
        let mut returned: BTreeMap<Arc<str>, Vec<String>> = BTreeMap::new();
        for letter in unread.into_iter().filter(|letter| !letter.is_return) {
            returned.entry(letter.from).or_default().push(letter.text);
        }
        for (sender, texts) in returned {
            // A sender that has ended, or whose mailbox is full, is not told.
            let mailbox = boxes.get_mut(&*sender).filter(|unread| unread.len() < MAX_UNREAD_MESSAGES);
            if let Some(mailbox) = mailbox {
                let (from, text) = (agent.into(), return_text(agent, &texts));
                mailbox.push_back(Letter { from, text, is_return: true });
            }
        }
    }

    /// Puts a message into a mailbox.
    pub(super) fn send(&self, from: &str, to: &str, text: &str) -> Result<(), MailError> {
        if text.len() > MAX_MESSAGE_BYTES {
            return Err(MailError::TooLong { bytes: text.len() });
        }
        let mut boxes = lock(&self.0);
        let Some(unread) = boxes.get_mut(to) else { return Err(MailError::Ended { to: to.to_owned() }) };
        if unread.len() >= MAX_UNREAD_MESSAGES {
            return Err(MailError::Full { to: to.to_owned() });
        }
        unread.push_back(Letter { from: from.into(), text: text.to_owned(), is_return: false });
        Ok(())
    }

    /// Takes the unread messages of an agent, oldest first.
    pub(super) fn take(&self, agent: &str) -> Vec<Letter> {
        lock(&self.0).get_mut(agent).map(|unread| unread.drain(..).collect()).unwrap_or_default()
    }

    pub(super) fn unread(&self, agent: &str) -> usize {
        lock(&self.0).get(agent).map_or(0, VecDeque::len)
    }

    /// Empties all mailboxes, because another conversation begins.
    pub(super) fn clear(&self) {
        lock(&self.0).values_mut().for_each(VecDeque::clear);
    }
}

/// Message to the sender of messages that an ended agent did not read.
fn return_text(agent: &str, texts: &[String]) -> String {
    let first = texts.first().map(String::as_str).unwrap_or_default();
    let shown = first.get(..first.floor_char_boundary(MAX_EXCERPT_BYTES)).unwrap_or_default();
    let cut = if shown.len() < first.len() { "…" } else { "" };
    match texts.len() {
        0 | 1 => format!("{agent} ended without reading your message: {shown}{cut}"),
        count => format!("{agent} ended without reading {count} messages of yours, the first: {shown}{cut}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mailbox_is_bounded_and_ends_with_its_agent() {
        let boxes = Mailboxes::default();
        let ended = MailError::Ended { to: "main.1".into() };
        assert_eq!(boxes.send("main", "main.1", "hi"), Err(ended.clone()));
        boxes.open("main.1");
        for number in 0..MAX_UNREAD_MESSAGES {
            assert_eq!(boxes.send("main", "main.1", &number.to_string()), Ok(()));
        }
        assert_eq!(boxes.send("main", "main.1", "more"), Err(MailError::Full { to: "main.1".into() }));
        let long = "x".repeat(MAX_MESSAGE_BYTES + 1);
        assert_eq!(boxes.send("main", "main.1", &long), Err(MailError::TooLong { bytes: long.len() }));
        let read = boxes.take("main.1");
        assert_eq!((read.len(), &*read[0].from, &*read[31].text), (32, "main", "31"));
        assert_eq!(boxes.unread("main.1"), 0);
        boxes.close("main.1");
        assert_eq!(boxes.send("main", "main.1", "hi"), Err(ended));
    }

    #[test]
    fn senders_are_told_once_of_what_an_ended_agent_did_not_read() {
        let boxes = Mailboxes::default();
        for agent in ["main", "main.1", "main.2"] {
            boxes.open(agent);
        }
        let long = "é".repeat(MAX_EXCERPT_BYTES);
        boxes.send("main", "main.1", &long).unwrap();
        boxes.send("main", "main.1", "hurry").unwrap();
        boxes.send("main.2", "main.1", "hi").unwrap();
        boxes.send("main.1", "main.2", "hello").unwrap();
        boxes.close("main.1");
        let told = boxes.take("main");
        let expected = format!(
            "main.1 ended without reading 2 messages of yours, the first: {}…",
            "é".repeat(MAX_EXCERPT_BYTES / 2)
        );
        assert_eq!((told.len(), &*told[0].from, &*told[0].text), (1, "main.1", &*expected));
        // The notice waits unread at main.2, and is returned to nobody; its sender has ended, too.
        boxes.open("main.1");
        boxes.close("main.2");
        let left: Vec<String> = boxes.take("main.1").into_iter().map(|letter| letter.text).collect();
        assert_eq!(left, ["main.2 ended without reading your message: hello"]);
        boxes.close("main.1");
        assert!(boxes.take("main").is_empty());
    }
}
