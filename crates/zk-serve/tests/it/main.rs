//! Integration tests of the servers.

#[cfg(test)]
mod fleet;
#[cfg(test)]
mod sessions;
