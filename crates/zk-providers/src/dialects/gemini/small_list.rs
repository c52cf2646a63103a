//! Lists that normally have one element.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};

/// A list that allocates only from its second element on, since most chunks have one candidate of one part.
#[derive(Debug)]
pub(super) struct SmallList<T> {
    first: Option<T>,
    more: Vec<T>,
}

impl<T> SmallList<T> {
    pub(super) fn first(self) -> Option<T> {
        self.first
    }
}

impl<T> IntoIterator for SmallList<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.more)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for SmallList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
            type Value = SmallList<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<SmallList<T>, A::Error> {
                let first = seq.next_element()?;
                let mut more = Vec::new();
                while first.is_some()
                    && let Some(next) = seq.next_element()?
                {
                    more.push(next);
                }
                Ok(SmallList { first, more })
            }
        }
        deserializer.deserialize_seq(Elements(PhantomData))
    }
}
