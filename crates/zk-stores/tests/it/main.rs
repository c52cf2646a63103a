//! Integration tests of the stores.

#[cfg(all(test, feature = "files"))]
mod disk;
#[cfg(all(test, feature = "files"))]
mod files;
#[cfg(all(test, feature = "postgres"))]
mod postgres;
