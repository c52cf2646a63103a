//! Code for people: colours of a block of code, and the changed words of a changed line.

mod languages;
mod lexer;
mod words;

pub use lexer::{CodeLexer, CodeToken, MAX_COLOURED_BYTES};
pub use words::changed_words;
