//! The front door of zk, as a program outside of it uses it.

mod guides;
mod prelude;
