//! Recorded sessions of many shapes, replayed as events and through the loop, and changes that are found.

#[cfg(test)]
mod between;
#[cfg(test)]
mod changes;
#[cfg(test)]
mod packs;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod support;
