//! What zk is shown with: a small project whose tests fail, and a model that repairs it as a script tells it.

mod project;
mod script;

pub use project::Project;
pub use script::repair;

/// What the model is asked to do with the [`Project`].
pub const PROMPT: &str = "The tests of this project fail. Find out why and repair it.";

/// What runs the project's tests, in its directory.
pub const TEST: &str = "bash test.sh";
