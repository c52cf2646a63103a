use std::path::PathBuf;

use clap::{Args, Subcommand};
use zk_extensions::ScaffoldLanguage;

/// Commands below `zk ext`.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum ExtAction {
    /// List the extensions that are set up, and whether they count
    List,
    /// Add an extension to your own settings
    Add(ExtAdd),
    /// Remove an extension from your own settings
    Remove {
        /// The extension
        name: String,
    },
    /// Start an extension, list what it registers, and call something of it without asking
    Test {
        /// The extension
        name: Option<String>,
        /// A tool to call, or a command as /NAME
        #[arg(long, value_name = "TOOL")]
        call: Option<String>,
        /// Arguments of the tool as JSON, or those of the command
        #[arg(long, requires = "call")]
        args: Option<String>,
        /// A command to start in place of an extension that is set up
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Print what an extension printed to standard error
    Logs {
        /// The extension
        name: String,
    },
    /// Write a first extension with a tool, a gate and a command
    New {
        /// Name for the extension
        name: String,
        /// Language: python, or ts for TypeScript
        #[arg(long, value_name = "LANGUAGE", default_value = "python")]
        lang: ScaffoldLanguage,
        /// Directory to write it to; one of its name unless it is given
        #[arg(long)]
        dir: Option<PathBuf>,
    },
}

/// Extension that `zk ext add` adds.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ExtAdd {
    /// Name for the extension
    pub name: String,
    /// A variable for its program, NAME=VALUE
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Program of the extension and its arguments
    #[arg(last = true, required = true)]
    pub command: Vec<String>,
}
