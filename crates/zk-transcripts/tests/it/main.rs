//! Tests of documents and imports.

mod hostile;
mod import;
mod large;
mod round_trip;
mod support;
