//! Backends with an agent in a process of its own.

#[cfg(test)]
mod conversation;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod screens;
#[cfg(test)]
mod serving;
#[cfg(test)]
mod support;
