//! Names of fields.

/// Fields of a vendor's own in which the last chunk of a Chat Completions stream counts tokens, one level deeper than
/// where the others do.
pub(crate) const OWN_COUNTS: &[&str] = &["x_groq"];
