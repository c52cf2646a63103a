//! The provider tests: real sockets, recorded traffic, injected faults.

mod collect;
mod faults;
mod fixtures;
mod naive;
mod recorded;
mod requests;
mod server;
