//! Commands about what is remembered.

use clap::Subcommand;
use zk_memory::FactId;

/// Commands below `zk memory`.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum MemoryAction {
    /// List the facts of this project and of every project, or those that wait for you
    List {
        /// The facts of all projects
        #[arg(long)]
        all: bool,
        /// Proposals: texts that a model wanted to keep when nobody was there to be asked
        #[arg(long)]
        proposed: bool,
        /// One JSON array, an object for each
        #[arg(long)]
        json: bool,
    },
    /// Keep a fact for later sessions of this project
    Add {
        /// The fact
        text: String,
        /// Recall it in every project
        #[arg(long)]
        everywhere: bool,
    },
    /// Show a fact with its origin, its session and its use
    Show {
        /// Number of the fact, such as m12
        id: FactId,
    },
    /// Remove a fact for good: its text is overwritten
    Forget {
        /// Number of the fact, such as m12
        id: FactId,
    },
    /// Replace the text of a fact
    Edit {
        /// Number of the fact, such as m12
        id: FactId,
        /// The new text
        text: String,
    },
    /// Say which facts were told for the last prompt here, by which words and with which scores
    Why,
    /// Keep a proposed fact; only at a terminal
    Accept {
        /// Number of the proposal, such as m12
        id: FactId,
    },
    /// Remove a proposed fact
    Reject {
        /// Number of the proposal, such as m12
        id: FactId,
    },
}
