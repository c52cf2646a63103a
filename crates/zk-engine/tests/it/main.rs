//! Tests of the engine as its users have it.

#[cfg(test)]
mod agents;
#[cfg(test)]
mod conform;
mod damaged;
#[cfg(test)]
mod kills;
