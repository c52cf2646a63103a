use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use flate2::write::{DeflateEncoder, GzEncoder};
use flate2::{Compression, Crc, GzBuilder};
use sha2::{Digest, Sha256};

/// Permissions of a file, and of a program.
pub(super) const FILE_MODE: u32 = 0o644;
pub(super) const PROGRAM_MODE: u32 = 0o755;

/// File of a package.
#[derive(Clone)]
pub(super) struct Entry {
    /// Path inside of the package, with `/`.
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
}

impl Entry {
    pub(super) fn file(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode: FILE_MODE, bytes: bytes.into() }
    }

    pub(super) fn program(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { mode: PROGRAM_MODE, ..Self::file(path, bytes) }
    }

    /// Entry below a folder.
    pub(super) fn below(&self, folder: &str) -> Self {
        Self { path: format!("{folder}/{}", self.path), ..self.clone() }
    }
}

/// Compressed archive in which nothing depends on the machine: sorted, of one time, owned by root.
pub(super) fn tar_gz(entries: &[Entry], seconds: u64) -> Result<Vec<u8>> {
    gzip(&tar(entries, seconds)?)
}

pub(super) fn tar(entries: &[Entry], seconds: u64) -> Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    let header = |mode, kind, size| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(seconds);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(size);
        header
    };
    for dir in folders(entries) {
        let mut of = header(PROGRAM_MODE, tar::EntryType::Directory, 0);
        builder.append_data(&mut of, format!("{dir}/"), std::io::empty())?;
    }
    for entry in sorted(entries) {
        let mut of = header(entry.mode, tar::EntryType::Regular, u64::try_from(entry.bytes.len())?);
        builder.append_data(&mut of, &entry.path, entry.bytes.as_slice())?;
    }
    builder.into_inner().context("an archive in memory")
}

pub(super) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    // No name and no time in the header.
    let mut gzip: GzEncoder<Vec<u8>> =
        GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::best());
    gzip.write_all(bytes)?;
    Ok(gzip.finish()?)
}

fn sorted(entries: &[Entry]) -> Vec<&Entry> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by(|a, b| a.path.cmp(&b.path));
    sorted
}

/// Folders above the entries, each after the one that it is in.
fn folders(entries: &[Entry]) -> std::collections::BTreeSet<String> {
    let above = |entry: &Entry| {
        let folders = Path::new(&entry.path).ancestors().skip(1);
        folders.map(|dir| dir.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    entries.iter().flat_map(above).filter(|dir| !dir.is_empty() && dir != ".").collect()
}

/// First moment that an archive of this kind can name: 1980-01-01.
const ZIP_DATE: u16 = (1 << 5) | 1;

/// Archive as `pip` reads it: deflated, in the given order, with permissions of Unix and without times.
pub(super) fn zip(entries: &[Entry]) -> Result<Vec<u8>> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let mut deflated = DeflateEncoder::new(Vec::new(), Compression::best());
        deflated.write_all(&entry.bytes)?;
        let deflated = deflated.finish()?;
        let mut crc = Crc::new();
        crc.update(&entry.bytes);
        let mut both = Vec::new();
        for number in [20_u16, 0, 8, 0, ZIP_DATE] {
            both.extend(number.to_le_bytes());
        }
        let sizes = [u32::try_from(deflated.len())?, u32::try_from(entry.bytes.len())?];
        for number in [crc.sum()].into_iter().chain(sizes) {
            both.extend(number.to_le_bytes());
        }
        both.extend(u16::try_from(entry.path.len())?.to_le_bytes());
        both.extend(0_u16.to_le_bytes());

        let begins = u32::try_from(out.len())?;
        directory.extend(b"PK\x01\x02");
        // Made on Unix, so that the permissions count.
        directory.extend([20, 3]);
        directory.extend(&both);
        directory.extend([0; 6]);
        directory.extend(((0o100_000 | entry.mode) << 16).to_le_bytes());
        directory.extend(begins.to_le_bytes());
        directory.extend(entry.path.as_bytes());

        out.extend(b"PK\x03\x04");
        out.extend(&both);
        out.extend(entry.path.as_bytes());
        out.extend(deflated);
    }
    let count = u16::try_from(entries.len())?.to_le_bytes();
    let (begins, size) = (u32::try_from(out.len())?, u32::try_from(directory.len())?);
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([count, count].concat());
    out.extend(size.to_le_bytes());
    out.extend(begins.to_le_bytes());
    out.extend([0; 2]);
    Ok(out)
}

/// Archive of `ar`, as Debian's packages are.
pub(super) fn ar(entries: &[Entry], seconds: u64) -> Vec<u8> {
    let mut out = b"!<arch>\n".to_vec();
    for Entry { path, bytes, .. } in entries {
        let header = format!("{path:<16}{seconds:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, "100644", bytes.len());
        out.extend(header.as_bytes());
        out.extend(bytes);
        if bytes.len() % 2 == 1 {
            out.push(b'\n');
        }
    }
    out
}

pub(in crate::release) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

pub(in crate::release) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
