//! Integration tests of the servers.

mod sessions;
