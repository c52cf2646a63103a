use super::{broker, connector, plan, policy, proxy, report, sys};

mod confine;
mod helper;
mod mounts;
mod namespaces;
mod seccomp;

pub(crate) use confine::Confinement;
pub(crate) use helper::{Inside, read_answer, receive_file, write_frame};
