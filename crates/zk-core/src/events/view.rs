#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::notify;
use crate::model::Display;

/// Block that a plugin shows to the person in the conversation: a plan, a list of tasks, a summary.
///
/// A later event with the same `source` and `key` replaces the block, until `last` marks it as final.
/// Front-ends draw the `body` by its kind; they need to know nothing of the plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ViewBlock {
    /// Source of the plugin's scope.
    pub source: String,
    /// Key of the block, unique within its plugin.
    pub key: String,
    /// Kind of the block, named by the plugin: `goal`, `todo`. A front-end may have special drawings for some
    /// kinds.
    pub kind: String,
    /// Heading above the body.
    pub title: String,
    /// Content of the block.
    pub body: Display,
    /// Whether the block is final.
    pub last: bool,
}
notify!(ViewBlock, "view:block", CANCELLABLE = false);
