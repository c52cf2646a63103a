//! Skills on disk, in an agent, and against the reference validator.

#[cfg(test)]
mod agent;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod discovery;
#[cfg(test)]
mod prompt;
#[cfg(test)]
mod support;
