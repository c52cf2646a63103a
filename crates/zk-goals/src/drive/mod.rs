//! The goal of a conversation on its bus: handlers that feed the state machine and carry out its effects.

mod command;
mod goals;
mod handlers;
mod outcome;
mod record;
mod section;
mod shared;
mod supervisor;

pub use goals::Goals;
pub(crate) use handlers::question_line;
pub use outcome::describe_goal;
pub(crate) use record::cut;
pub use shared::GoalRetry;
pub(crate) use shared::stop_agents;
