//! Runs that outlive their worker: legs, the turn that one leaves open, questions and answers, mail.

mod mail;
mod open_turn;
mod question;

pub use mail::{MAX_MAIL_BYTES, Mail, MailKind, Mailbox};
pub use open_turn::{OpenTurn, StoredCall, StoredCallState, UnfinishedRun};
pub use question::{
    ANSWER_ENTRY, Leg, LegAnswer, ParkedCall, ParkedQuestion, QUESTION_ENTRY, StoredQuestion,
};
