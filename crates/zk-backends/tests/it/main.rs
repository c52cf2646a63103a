//! Backends with an agent in a process of its own.

mod conversation;
mod faults;
mod screens;
mod serving;
mod support;
