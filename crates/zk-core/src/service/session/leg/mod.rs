//! Runs that outlive their workers: legs, open turns, questions with answers, and mail.

mod budget;
mod children;
mod mail;
mod open_turn;
mod question;
mod relay;
mod wait;

pub use budget::{ChildBudget, RUN_BUDGET_ENTRY, RunBudget, StoredRunBudget, spent_in};
pub use children::{ChildRun, ChildRuns, ChildRunsError, ChildState};
pub use mail::{MAX_MAIL_BYTES, Mail, MailKind, Mailbox};
pub use open_turn::{OpenTurn, StoredCall, StoredCallState, UnfinishedRun};
pub use question::{ANSWER_ENTRY, Leg, LegAnswer, ParkedQuestion, QUESTION_ENTRY, StoredQuestion, WithinLeg};
pub use relay::{Relay, RelayListener, RelayPiece, RelaySide, RelaySignal};
pub use wait::{ParkedCall, ParkedWait, StoredWait, WAIT_ENTRY};
