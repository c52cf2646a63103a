//! Tests of the engines with real servers, where their programs are installed.

#[cfg(all(test, feature = "postgres"))]
mod postgres;
#[cfg(all(test, feature = "temporal"))]
mod temporal;
