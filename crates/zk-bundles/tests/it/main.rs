//! Bundles, from real directories, archives and repositories.

#[cfg(test)]
mod archives;
#[cfg(test)]
mod copies;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod origins;
#[cfg(test)]
mod parts;
#[cfg(test)]
mod stores;
#[cfg(test)]
mod support;
