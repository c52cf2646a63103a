//! The provider of a conversation, and the credential that it is asked with.

pub(crate) mod credentials;
pub(crate) mod kept;
pub(crate) mod parts;
pub(crate) mod select;
