//! The shell on a terminal, with programs and start files as people have them.

mod bad_input;
mod driver;
mod pictures;
mod programs;
mod trigger;
