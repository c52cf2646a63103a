#![expect(
    clippy::disallowed_methods,
    reason = "a build depends on the folders that cargo uses, which variables name"
)]

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::target::{Target, host};
use crate::run::Run;
use crate::workspace::names::PROGRAM_PACKAGE;

/// Separator of the compiler's arguments in one variable.
const FLAG_SEPARATOR: &str = "\u{1f}";

/// Minor version of the first C library whose loader reads packed relocations.
const PACKED_GLIBC: u32 = 36;

/// Program that is packaged.
pub(super) struct Binary {
    pub(super) bytes: Vec<u8>,
    /// Newest symbols of the C library that it asks for: `None` for a program that asks for none.
    pub(super) glibc: Option<(u32, u32)>,
}

impl Binary {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| format!("there is no program {}", path.display()))?;
        let glibc = glibc(&bytes);
        Ok(Self { bytes, glibc })
    }

    /// Whether it runs without any file beside it.
    pub(super) fn is_static(&self) -> bool {
        self.bytes.starts_with(b"\x7fELF")
            && !has(&self.bytes, b"/lib64/ld-")
            && !has(&self.bytes, b"/lib/ld-")
    }
}

/// Newest C library that a program asks for, as major and minor version.
pub(in crate::release) fn glibc_of(path: &Path) -> Result<Option<(u32, u32)>> {
    Ok(Binary::read(path)?.glibc)
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Variables of a build in the folders `root` and `out` that has neither the folders nor the day in it.
pub(in crate::release) fn variables(
    root: &Path,
    out: &Path,
    is_static: bool,
    seconds: u64,
) -> Vec<(&'static str, String)> {
    let cargo_home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    // The last one that fits counts: a folder inside of another one comes after it.
    let moved =
        [(Some(root.to_path_buf()), "/zk"), (Some(out.to_path_buf()), "/zk/target"), (cargo_home, "/cargo")];
    let moved: Vec<(String, &str)> =
        moved.into_iter().filter_map(|(from, to)| Some((from?.to_str()?.to_owned(), to))).collect();
    let mut flags: Vec<String> =
        moved.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")).collect();
    if is_static {
        flags.push("-Ctarget-feature=+crt-static".to_owned());
    }
    let c_flags: Vec<String> =
        moved.iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}")).collect();
    vec![
        ("CARGO_ENCODED_RUSTFLAGS", flags.join(FLAG_SEPARATOR)),
        ("CARGO_INCREMENTAL", "0".to_owned()),
        ("CFLAGS", c_flags.join(" ")),
        ("SOURCE_DATE_EPOCH", seconds.to_string()),
    ]
}

/// Builds the program so that neither the folder nor the day is in it, and returns its path.
pub(super) fn build(root: &Path, target: Target, seconds: u64) -> Result<PathBuf> {
    let mut args = vec!["build", "--release", "--locked", "--package", PROGRAM_PACKAGE, "--bin", "zk"];
    let mut out =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
    let variables = variables(root, &out, target.is_musl(), seconds);
    // A named target is part of the names of functions, and those of the linker's list are of a build for this platform.
    if host(root)? != target.triple {
        args.extend(["--target", target.triple]);
        out.push(target.triple);
    }
    let build = Run::cargo(&args, root);
    variables
        .iter()
        .fold(build, |build, (name, value)| build.env(name, value))
        .wait()
        .with_context(|| format!("is the standard library there? `rustup target add {}`", target.triple))?;
    Ok(out.join("release").join("zk"))
}

/// Newest version among the names of versions in a program.
fn glibc(bytes: &[u8]) -> Option<(u32, u32)> {
    const NAME: &[u8] = b"GLIBC_2.";
    let at = bytes.windows(NAME.len()).enumerate().filter(|(_, window)| *window == NAME);
    let minors = at.filter_map(|(index, _)| {
        let digits = bytes.get(index + NAME.len()..)?.iter().take_while(|byte| byte.is_ascii_digit()).take(3);
        String::from_utf8(digits.copied().collect()).ok()?.parse().ok()
    });
    // Packed relocations have a name without a number.
    let packed = has(bytes, b"GLIBC_ABI_DT_RELR").then_some(PACKED_GLIBC);
    Some((2, minors.chain(packed).max()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_symbol_of_the_c_library_is_the_floor() {
        assert_eq!(glibc(b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.17\0"), Some((2, 34)));
        assert_eq!(glibc(b"GLIBC_2.34\0GLIBC_ABI_DT_RELR\0"), Some((2, 36)));
        assert_eq!(glibc(b"GLIBC_2."), None);
        let of = |bytes: &[u8]| Binary { bytes: bytes.to_vec(), glibc: None }.is_static();
        assert!(of(b"\x7fELF..."));
        assert!(!of(b"\x7fELF../lib64/ld-linux-x86-64.so.2"));
        assert!(!of(b"#!/bin/sh"));
    }
}
