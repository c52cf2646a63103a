use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use flate2::read::DeflateDecoder;

/// Variable that has relocations packed, which loaders of glibc before 2.36 refuse.
const PACKED_VARIABLE: &str = "ZK_PACK_RELOCATIONS";

/// Packed names of the functions that usual runs call, written by `cargo xtask order`.
const ORDER: &str = "build/order.deflate";

/// Flags of LLVM's linker, which others refuse: equal functions are there once, and names of a list that the program
/// does not have are no fault.
const OF_LLD: [&str; 2] = ["-Wl,--icf=all", "-Wl,--no-warn-symbol-ordering"];

pub(crate) fn choose() -> io::Result<()> {
    println!("cargo:rerun-if-changed={ORDER}");
    println!("cargo:rerun-if-env-changed={PACKED_VARIABLE}");
    let is_gnu = env::var("TARGET").is_ok_and(|target| target.ends_with("linux-gnu"));
    if !is_gnu || env::var("HOST") != env::var("TARGET") {
        return Ok(());
    }
    if env::var(PACKED_VARIABLE).is_ok_and(|wanted| wanted == "1") {
        // The program's table of relocations shrinks from 24 bytes each to little more than a bit, in the
        // file and in memory.
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") && is_lld(Path::new(&out)) {
        OF_LLD.iter().for_each(|flag| println!("cargo:rustc-link-arg-bins={flag}"));
        // A run calls one function of ten. Beside each other they take a quarter of the pages.
        let order = Path::new(&out).join("order");
        io::copy(&mut DeflateDecoder::new(BufReader::new(File::open(ORDER)?)), &mut File::create(&order)?)?;
        println!("cargo:rustc-link-arg-bins=-Wl,--symbol-ordering-file={}", order.display());
    }
    Ok(())
}

/// Whether the linker is LLVM's, seen by linking an empty program with its flags.
fn is_lld(out: &Path) -> bool {
    let source = out.join("empty.rs");
    let Ok(()) = fs::write(&source, "fn main() {}") else { return false };
    let Some(rustc) = env::var_os("RUSTC") else { return false };
    let mut command = Command::new(rustc);
    command.arg("--out-dir").arg(out).arg(&source);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        command.arg(format!("-Clinker={}", linker.to_string_lossy()));
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    command.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    command.args(OF_LLD.map(|flag| format!("-Clink-arg={flag}")));
    command.output().is_ok_and(|ended| ended.status.success())
}
