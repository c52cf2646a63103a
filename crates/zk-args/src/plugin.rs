use clap::{Args, Subcommand};

/// Commands below `zk plugin`.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
#[expect(missing_docs, reason = "commands and groups are described at their types")]
pub enum PluginAction {
    /// List the plugins that were added, and those that this project asks for
    List {
        /// One JSON array, an object for each
        #[arg(long)]
        json: bool,
    },
    /// Show what a plugin brings, ask whether it is trusted as it is, and keep a copy of it
    Add {
        /// A directory, a .tar.gz or .zip, the address of a repository, or NAME@MARKETPLACE
        source: String,
        #[command(flatten)]
        consent: Consent,
        /// Set an option of the plugin, such as region=eu, or be asked for a secret one by its KEY alone; may be repeated
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Show what a plugin brings
    Show {
        /// Name of the plugin
        name: String,
    },
    /// Check a plugin's directory or archive without adding it; ends with 1 if it is not valid
    Check {
        /// The directory or archive
        source: String,
    },
    /// Fetch plugins anew, show what changed, and ask again
    Update {
        /// Name of the plugin; all unless named
        name: Option<String>,
        #[command(flatten)]
        consent: Consent,
    },
    /// Remove a plugin with all of its files and its data
    Remove {
        /// Name of the plugin
        name: String,
    },
    /// Use a plugin again
    Enable {
        /// Name of the plugin
        name: String,
    },
    /// Keep a plugin, but use nothing of it
    Disable {
        /// Name of the plugin
        name: String,
    },
    /// Add, list or remove marketplaces: files that list plugins
    Marketplace {
        #[command(subcommand)]
        action: Option<MarketplaceAction>,
    },
}

/// Consent to a plugin that is given without a question.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Consent {
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Do not ask if it has exactly these bytes: the SHA-256 that was shown
    #[arg(long, value_name = "SHA256", conflicts_with = "yes")]
    pub digest: Option<String>,
}

/// Commands below `zk plugin marketplace`.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum MarketplaceAction {
    /// List the marketplaces and their plugins
    List,
    /// Add a marketplace, or read it anew
    Add {
        /// A directory with a .claude-plugin/marketplace.json, or the address of a repository
        source: String,
    },
    /// Forget a marketplace; plugins from it stay
    Remove {
        /// Name of the marketplace
        name: String,
    },
}
