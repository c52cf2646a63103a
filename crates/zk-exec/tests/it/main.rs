//! How commands run and files are reached, with real processes and a real file system.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod corpus;
mod files;
mod parent;
mod process;
mod support;
mod swap;
