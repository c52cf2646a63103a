//! Conversations as documents: sessions become pages, Markdown and JSON lines, and transcripts of other agents become
//! sessions.
//!
//! | item | purpose |
//! |---|---|
//! | [`Exporter`] | writes a session, entry by entry, in one of the [`ExportFormat`]s |
//! | [`export_markdown`], [`export_page`] | documents of the blocks of a running conversation |
//! | [`create_document`] | new private file, never in the place of another |
//! | [`list_transcripts`], [`read_transcript`] | transcripts of other agents as entries |
//! | [`find_places`] | usual places of transcripts |
//! | [`store_transcript`] | one transcript as a session, all or nothing |
//!
//! # Example
//!
//! `cargo run -p zk-harness-transcripts --example page`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/page.rs")]
#![doc = "```"]
//!
//! # What it keeps
//!
//! - A page needs nothing from elsewhere and allows nothing from elsewhere; all text of a conversation is escaped.
//! - Secrets that the redactor knows are in no document and in no imported session.
//! - Memory is bounded by the largest run of a session, and a document by the limits in [`Limits`], which it says where it
//!   leaves something out.
//!
//! # What this crate must never know
//!
//! No store, no terminal, no settings and no home directory.

mod error;
mod export;
mod html;
mod import;
mod store;
mod time;

pub use error::{ExportError, ImportError};
pub use export::document::{DocumentFacts, Limits, Totals};
pub use export::exporter::{ExportFormat, Exporter};
pub use export::file::create_document;
pub use export::jsonl::{TRANSCRIPT_VERSION, TranscriptHeader, TranscriptLine};
pub use export::markdown::export_markdown;
pub use html::export_page;
pub use import::detect::list_transcripts;
pub use import::format::{TranscriptFormat, TranscriptRef};
pub use import::places::{FoundPlace, PlaceRoots, find_places};
pub use import::read::read_transcript;
pub use import::transcript::Transcript;
pub use store::{StoredTranscript, store_transcript};
