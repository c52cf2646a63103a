//! Runs with a scripted model, as a collector receives them.

#[cfg(test)]
mod collector;
#[cfg(test)]
mod config;
#[cfg(test)]
mod export;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod scenes;
