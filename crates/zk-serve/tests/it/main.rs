//! Integration tests of the servers.

#[cfg(test)]
mod sessions;
