//! What an embedder sees of a conversation.

mod factory;
