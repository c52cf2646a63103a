use super::{denial, git, hosts, placeholders, places, policy, printed, report};

mod broker;
mod caches;
mod connector;
mod exec;
mod inside;
mod plan;
mod process;
mod proxy;
mod repositories;
mod self_test;
mod sys;

pub(crate) use broker::ReportReader;
pub use exec::SandboxExec;
pub(crate) use inside::{Confinement, Inside, read_answer, receive_file, write_frame};
pub(crate) use proxy::Proxy;
pub(crate) use self_test::run_probe;
