//! Integration tests of the stores.

#[cfg(feature = "files")]
mod disk;
#[cfg(feature = "files")]
mod files;
#[cfg(feature = "postgres")]
mod postgres;
