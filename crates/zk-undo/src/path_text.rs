//! Paths in JSON: text, in which a byte that is no UTF-8, and the percent sign, is `%` and two digits.

use std::borrow::Borrow;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// Path in a record, of any bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SavedPath(#[serde(with = "crate::path_text")] pub(crate) PathBuf);

impl Borrow<Path> for SavedPath {
    fn borrow(&self) -> &Path {
        &self.0
    }
}

pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&text_of(path))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    let text = String::deserialize(from)?;
    path_of(&text).ok_or_else(|| D::Error::custom(format!("`{text}` is no path")))
}

fn text_of(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for char in chunk.valid().chars() {
            if char == '%' { text.push_str("%25") } else { text.push(char) }
        }
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("%{byte:02x}")));
    }
    text
}

fn path_of(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = behind;
            continue;
        }
        let (digits, behind) = behind.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = behind;
    }
    Some(OsString::from_vec(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_of_a_path_come_back() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..500 {
            let bytes: Vec<u8> = (0..random.usize(0..24)).map(|_| random.u8(1..)).collect();
            let path = PathBuf::from(OsString::from_vec(bytes));
            assert_eq!(path_of(&text_of(&path)), Some(path));
        }
        assert_eq!(path_of("%4"), None);
        assert_eq!(path_of("%zz"), None);
    }
}
