//! Chooses how the program is linked, and packs the pages of the documentation for `zk help`.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "cargo tells a build script by its environment and reads its output, and it runs at no other time"
)]

mod link;

use std::io::Write;
use std::path::Path;
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// Pages that the program makes itself, from its command line and its settings.
const MADE: [&str; 2] = ["cli", "settings"];

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-changed=docs");
    pack_pages()?;
    link::choose()
}

/// Packs the pages that the summary lists, and the decisions, as records: part, name, title, text.
fn pack_pages() -> io::Result<()> {
    let docs = Path::new("docs");
    let summary = read(&docs.join("SUMMARY.md"))?;
    let mut packed = String::new();
    let mut part = "";
    for line in summary.lines() {
        part = line.strip_prefix("# ").unwrap_or(part);
        let listed = line.strip_prefix("- [").and_then(|entry| entry.strip_suffix(".md)")?.split_once("]("));
        // Pages outside of the folder are no part of the package.
        if let Some((title, name)) = listed.filter(|(_, name)| !name.starts_with("../")) {
            let is_made = MADE.contains(&name);
            let text = if is_made { String::new() } else { read(&docs.join(format!("{name}.md")))? };
            add(&mut packed, [part, name, title, &text]);
        }
    }
    let mut decisions =
        fs::read_dir(docs.join("adr"))?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    decisions.sort();
    for path in decisions {
        let text = read(&path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let title = text.lines().next().unwrap_or_default().trim_start_matches("# ");
        add(&mut packed, ["Decisions", &format!("adr/{name}"), title, &text]);
    }
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    let mut encoder =
        DeflateEncoder::new(fs::File::create(Path::new(&out).join("pages"))?, Compression::best());
    encoder.write_all(packed.as_bytes())?;
    encoder.finish()?;
    Ok(())
}

fn read(path: &Path) -> io::Result<String> {
    let said = |error| io::Error::other(format!("{}, a page of `zk help`: {error}", path.display()));
    fs::read_to_string(path).map_err(said)
}

fn add(packed: &mut String, record: [&str; 4]) {
    packed.push_str(&record.join("\u{1f}"));
    packed.push('\u{1e}');
}
