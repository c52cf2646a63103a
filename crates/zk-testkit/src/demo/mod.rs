//! Demonstration of zk: a small project whose tests fail, and a model that repairs it as a script tells it.

mod project;
mod script;

pub use project::Project;
pub use script::repair;

/// Prompt of the demonstration: the work on the [`Project`].
pub const PROMPT: &str = "The tests of this project fail. Find out why and repair it.";

/// Command that runs the project's tests, in its directory.
pub const TEST: &str = "bash test.sh";
