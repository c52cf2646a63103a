//! Persistent state: accepted tools, eras, states and logs of servers.

pub(crate) mod approved_scripts;
pub(crate) mod era_files;
pub(crate) mod eras;
pub(crate) mod pin_files;
pub(crate) mod pins;
pub(crate) mod recorded_states;
pub(crate) mod scripts;
pub(crate) mod server_records;
