//! Skills on disk, in an agent, and against the reference validator.

#[cfg(test)]
mod agent;
#[cfg(test)]
mod bounds;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod discovery;
#[cfg(test)]
mod prompt;
#[cfg(test)]
mod quarantine;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod steer;
#[cfg(test)]
mod support;
