//! Demonstration of zk: a small project with failing tests, and a scripted model that repairs it.

mod project;
mod script;

pub use project::Project;
pub use script::repair;

/// Prompt for the work on the [`Project`].
pub const PROMPT: &str = "The tests of this project fail. Find out why and repair it.";

/// Command that runs the project's tests, in the project's directory.
pub const TEST: &str = "bash test.sh";
