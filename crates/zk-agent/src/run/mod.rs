//! One run: its handle, its state, and the driver that carries it out.

mod commit;
mod control;
mod driver;
mod error_formatter;
mod handle;
mod history;
mod leg;
mod leg_children;
mod lineage;
mod machine;
mod queues;
mod shared;
mod state;

pub use error_formatter::ErrorFormatter;
pub use handle::{
    Run, RunEvent, RunEvents, RunHandle, RunOutcome, RunStream, RunText, RunUpdate, RunUpdates,
};
pub use machine::{Machine, Next, Seen, Stop};
pub use queues::QueueMode;

pub(crate) use commit::{Commit, identified};
pub(crate) use control::{Control, concerns_model};
pub(crate) use driver::Driver;
pub(crate) use leg_children::{LegLedger, SUB_AGENTS};
pub(crate) use lineage::{Lineage, RunLimits};
pub(crate) use queues::{Queues, take_queued};
pub(crate) use shared::RunShared;
pub(crate) use state::{RunModels, RunSpending, RunState, SystemPrompt};
