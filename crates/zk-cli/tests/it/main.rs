//! The program, run from outside.

#[cfg(test)]
mod answers;
#[cfg(test)]
mod auth;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod flags;
#[cfg(test)]
mod providers;
mod sessions;
#[cfg(test)]
mod settings;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod zk;
