use std::path::PathBuf;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;

use crate::candidates;

/// Arguments of `zk replay`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct ReplayArgs {
    /// Id of the session, or the beginning of it; or a file that --pack wrote
    #[arg(value_name = "SESSION|FILE", add = ArgValueCompleter::new(candidates::sessions))]
    pub session: String,
    /// File that --pack writes; zk-SESSION.zkpack by default
    #[arg(requires = "pack", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Run the real loop with recorded answers, those of this session or of SESSION, and list what differs (exit 1)
    #[arg(
        long,
        num_args = 0..=1,
        default_missing_value = "",
        value_name = "SESSION",
        conflicts_with_all = ["pack", "output"],
        add = ArgValueCompleter::new(candidates::sessions)
    )]
    pub provider_from: Option<String>,
    /// Write the session, redacted, with settings and versions into one file that replays elsewhere
    #[arg(long, conflicts_with = "output")]
    pub pack: bool,
    /// Form of the replayed session
    #[arg(long, value_enum, value_name = "FORM", default_value = "text")]
    pub output: ReplayOutput,
    /// One JSON object, of the differences or of the pack
    #[arg(long, conflicts_with = "output")]
    pub json: bool,
}

/// Form of a replayed session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReplayOutput {
    /// Lines for a person
    Text,
    /// A line for each event, as a session stores it
    StreamJson,
    /// A line for each block of the view
    ViewJson,
}
