//! Goals on real runs, and the list of conversations over processes.

#[cfg(test)]
mod fleet;
#[cfg(test)]
mod goals;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod support;
