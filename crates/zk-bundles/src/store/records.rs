//! Records of what a person added.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::origin::Source;

/// Version of the file.
pub(crate) const RECORDS_VERSION: u32 = 1;

/// Bundles and marketplaces that a person added, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Records {
    pub(crate) version: u32,
    /// Bundles.
    #[serde(default)]
    pub plugins: BTreeMap<String, KeptBundle>,
    /// Marketplaces.
    #[serde(default)]
    pub marketplaces: BTreeMap<String, KeptMarketplace>,
}

impl Default for Records {
    fn default() -> Self {
        Self { version: RECORDS_VERSION, plugins: BTreeMap::new(), marketplaces: BTreeMap::new() }
    }
}

/// Bundle that a person added and trusts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptBundle {
    /// Origin of the bundle's files.
    pub source: Source,
    /// SHA-256 of all files as they were approved.
    pub digest: String,
    /// Commit of the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Version as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether the bundle is enabled.
    pub enabled: bool,
    /// Values of options that are not secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// Marketplace that a person added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptMarketplace {
    /// Origin of the marketplace's file.
    pub source: Source,
    /// Names of the marketplace's bundles at its last read.
    pub plugins: Vec<String>,
}
