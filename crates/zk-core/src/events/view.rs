#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::notify;
use crate::model::Display;

/// Something a plugin shows to the person in the conversation: a plan, a list of tasks, a summary.
///
/// A second event of one `source` and `key` replaces what was shown, until `last` says that it stays as it
/// is. Front-ends draw the `body` by its kind; they need to know nothing of the plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ViewBlock {
    /// The plugin, as its scope is called.
    pub source: String,
    /// Name of the block among those of the plugin.
    pub key: String,
    /// Kind of the block, in the plugin's own words: `goal`, `todo`. A front-end may know some and draw them
    /// better.
    pub kind: String,
    /// A line above the body.
    pub title: String,
    /// Content of the block.
    pub body: Display,
    /// Whether it stays as it is now.
    pub last: bool,
}
notify!(ViewBlock, "view:block", CANCELLABLE = false);
