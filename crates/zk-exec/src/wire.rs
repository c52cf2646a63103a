//! Encoding of texts and numbers between zk and its own helper processes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

pub(crate) fn put_len(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(&(len as u64).to_le_bytes());
}

/// Appends a text with its length in bytes before it, as eight bytes.
pub(crate) fn put(out: &mut Vec<u8>, text: impl AsRef<OsStr>) {
    let bytes = text.as_ref().as_bytes();
    put_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

pub(crate) fn put_all<T: AsRef<OsStr>>(out: &mut Vec<u8>, texts: &[T]) {
    put_len(out, texts.len());
    for text in texts {
        put(out, text);
    }
}

pub(crate) fn take_len(from: &mut &[u8]) -> Option<usize> {
    let (len, rest) = from.split_first_chunk::<8>()?;
    *from = rest;
    usize::try_from(u64::from_le_bytes(*len)).ok()
}

pub(crate) fn take(from: &mut &[u8]) -> Option<OsString> {
    let len = take_len(from)?;
    let (bytes, rest) = from.split_at_checked(len)?;
    *from = rest;
    Some(OsString::from_vec(bytes.to_vec()))
}

#[cfg_attr(not(feature = "sandbox"), expect(dead_code, reason = "the sandbox asks for it"))]
pub(crate) fn take_paths(from: &mut &[u8]) -> Option<Vec<PathBuf>> {
    (0..take_len(from)?).map(|_| take(from).map(PathBuf::from)).collect()
}
