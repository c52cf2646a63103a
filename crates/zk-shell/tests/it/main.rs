//! The shell on a terminal, with programs and start files as people have them.

mod bad_input;
mod driver;
mod lost_marks;
mod pictures;
mod programs;
mod trigger;
