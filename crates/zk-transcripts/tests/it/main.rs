//! Tests of documents and imports.

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod import;
#[cfg(test)]
mod large;
#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod support;
