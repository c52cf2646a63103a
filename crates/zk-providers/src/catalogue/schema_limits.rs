//! Limits of JSON schemas in the APIs that hold answers to one, beside what all can express.

/// Limits of one API.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SchemaLimits {
    /// Every property has to be required.
    pub(crate) all_required: bool,
    /// The most properties that are not required.
    pub(crate) optional: usize,
    /// The most unions.
    pub(crate) unions: usize,
}

/// The Messages API.
pub(crate) const MESSAGES: SchemaLimits = SchemaLimits { all_required: false, optional: 24, unions: 16 };

/// Chat Completions and the Responses API.
pub(crate) const COMPLETIONS: SchemaLimits =
    SchemaLimits { all_required: true, optional: 0, unions: usize::MAX };
