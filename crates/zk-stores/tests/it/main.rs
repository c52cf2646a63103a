//! Integration tests of the stores.

#[cfg(test)]
#[cfg(feature = "files")]
mod disk;
#[cfg(test)]
#[cfg(feature = "files")]
mod files;
#[cfg(test)]
#[cfg(feature = "postgres")]
mod postgres;
