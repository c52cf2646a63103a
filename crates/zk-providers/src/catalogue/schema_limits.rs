//! Limits on JSON schemas for structured output, by API.

/// Limits of one API on a schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SchemaLimits {
    /// Whether every property has to be required.
    pub(crate) all_required: bool,
    /// Maximum number of optional properties in a schema.
    pub(crate) optional: usize,
    /// Maximum number of unions in a schema.
    pub(crate) unions: usize,
}

/// Limits of the Messages API.
pub(crate) const MESSAGES: SchemaLimits = SchemaLimits { all_required: false, optional: 24, unions: 16 };

/// Limits of Chat Completions and of the Responses API.
pub(crate) const COMPLETIONS: SchemaLimits =
    SchemaLimits { all_required: true, optional: 0, unions: usize::MAX };
