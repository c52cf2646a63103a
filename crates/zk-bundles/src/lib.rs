//! Bundles: directories with commands, agents, skills, hooks and MCP servers, in the layout of Claude Code's plugins.
//!
//! | module | content |
//! |---|---|
//! | [`Tree`] | all files of a bundle in memory: from a directory, an archive or a repository; its digest |
//! | [`Bundle`] | manifest and parts of a tree, as plain data; faults, and parts that zk does not serve |
//! | [`Source`], [`Fetcher`] | origin of a bundle, and how its files are fetched |
//! | [`Marketplace`] | a file that lists bundles with their origins |
//! | [`BundleStore`] | bundles that a person added: pinned by digest, verified whenever they are loaded |
//! | [`ProjectBundle`] | a bundle in a project, which its settings name: used from a private copy once its digest was approved |
//! | [`Difference`] | files and lines that an update changes |
//!
//! For people a bundle is called a *plugin*, as in other programs; in Rust that word is taken.
//!
//! # Example
//!
//! `cargo run -p zk-harness-bundles --example read -- PATH`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/read.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! What commands, skills, hooks and servers mean: it depends on `zk-core` and no sibling, and hands parts out as paths
//! and JSON. It runs nothing of a bundle. Programs are started through `dyn Exec`, and only git.

mod bundle;
mod origin;
mod store;
mod tree;

pub use bundle::manifest::{Manifest, OptionField};
pub use bundle::placed::{PlacedBundle, Variables};
pub use bundle::{AgentPart, Bundle, BundleError, CommandPart, HookPart, ServerPart, is_bundle_name};
pub use origin::fetch::{FetchError, Fetched, Fetcher};
pub use origin::marketplace::{Marketplace, MarketplaceEntry, MarketplaceError};
pub use origin::{Source, SourceError};
pub use store::difference::Difference;
pub use store::project::{ProjectBundle, ProjectBundleError};
pub use store::records::{KeptBundle, KeptMarketplace, Records};
pub use store::wanted::wanted_by_project;
pub use store::{BundleStore, Loaded, StoreError};
pub use tree::{Tree, TreeError, TreeFile};
