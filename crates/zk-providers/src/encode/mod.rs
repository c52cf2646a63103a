//! Helpers shared by dialects for writing requests and reading answers: incremental bodies, schemas,
//! documents, effort levels, arguments of calls.

pub(crate) mod answered;
pub(crate) mod args;
pub(crate) mod block_label;
pub(crate) mod compact_at;
pub(crate) mod documents;
pub(crate) mod effort;
pub(crate) mod fields;
pub(crate) mod json_str;
pub(crate) mod loose_schema;
pub(crate) mod prefix;
pub(crate) mod size;
pub(crate) mod strict_schema;
pub(crate) mod tool_schema;
