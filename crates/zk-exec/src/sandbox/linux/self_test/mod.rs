pub(super) mod planted;
pub(super) mod probe;
pub(super) mod remedy;

pub(crate) use probe::run as run_probe;
