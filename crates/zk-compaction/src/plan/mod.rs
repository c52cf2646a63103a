//! Preparation of a request: asks the strategies and carries out their plans.

pub(crate) mod ask_strategies;
pub(crate) mod background;
pub(crate) mod compaction_result;
pub(crate) mod cut;
pub(crate) mod pins;
pub(crate) mod plugin_summary;
pub(crate) mod prepare;
