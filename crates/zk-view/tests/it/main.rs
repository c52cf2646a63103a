//! Runs of a scripted model, as a person sees them.

#[cfg(test)]
mod batches;
#[cfg(test)]
mod blocks;
#[cfg(test)]
mod keep;
#[cfg(test)]
mod person;
#[cfg(test)]
mod plugins;
#[cfg(test)]
mod random;
#[cfg(test)]
mod readers;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod status;
#[cfg(test)]
mod support;
