//! Chooses how the program is linked.

#![expect(
    clippy::disallowed_methods,
    reason = "cargo tells a build script by its environment, and it runs at no other time"
)]

use std::process::Command;

/// The first glibc whose loader reads packed relocations.
const PACKED: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_gnu = std::env::var("TARGET").is_ok_and(|target| target.ends_with("linux-gnu"));
    if is_gnu && std::env::var("HOST") == std::env::var("TARGET") && glibc().is_some_and(|own| own >= PACKED)
    {
        // The program's table of relocations shrinks from 24 bytes each to little more than a bit, in the
        // file and in memory.
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this machine's C library: a program linked here needs it anyway.
fn glibc() -> Option<(u32, u32)> {
    let printed = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(printed.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
