use std::fmt::Write as _;

use anyhow::Result;

use super::entry::{Entry, sha256, zip};
use super::{About, Contents};

/// Name of the package on PyPI, and as it is in names of files.
const PYPI_NAME: &str = "zk-agent";
const PYPI_FILE: &str = "zk_agent";

/// Wheel that brings the program and no module: its name and its bytes.
pub(super) fn package(about: &About<'_>, contents: &Contents) -> Result<(String, Vec<u8>)> {
    let version = python_version(about.version);
    let tag = format!("py3-none-{}", platform(about));
    let dist_info = format!("{PYPI_FILE}-{version}.dist-info");
    let mut text = format!(
        "Metadata-Version: 2.4\nName: {PYPI_NAME}\nVersion: {version}\nSummary: {}\nHome-page: {}\nAuthor: {}\n\
         License-Expression: MIT OR Apache-2.0\n",
        about.description, about.repository, about.author,
    );
    let mut licences = Vec::new();
    for licence in contents.texts.iter().filter(|text| text.path != "README.md") {
        writeln!(text, "License-File: {}", licence.path)?;
        licences.push(licence.below(&format!("{dist_info}/licenses")));
    }
    text.push_str("Requires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n");
    if let Some(readme) = contents.texts.iter().find(|text| text.path == "README.md") {
        text.push_str(&String::from_utf8_lossy(&readme.bytes));
    }
    let wheel =
        format!("Wheel-Version: 1.0\nGenerator: zk\nRoot-Is-Purelib: false\nTag: {}\n", tag_lines(&tag));
    let mut files =
        vec![Entry::program(format!("{PYPI_FILE}-{version}.data/scripts/zk"), about.binary.bytes.clone())];
    files.extend(licences);
    files.push(Entry::file(format!("{dist_info}/METADATA"), text));
    files.push(Entry::file(format!("{dist_info}/WHEEL"), wheel));
    let mut record = String::new();
    for file in &files {
        writeln!(record, "{},sha256={},{}", file.path, base64_url(&sha256(&file.bytes)), file.bytes.len())?;
    }
    writeln!(record, "{dist_info}/RECORD,,")?;
    files.push(Entry::file(format!("{dist_info}/RECORD"), record));
    Ok((format!("{PYPI_FILE}-{version}-{tag}.whl"), zip(&files)?))
}

/// Platforms of a wheel, joined by dots: the oldest C library that has what the program asks for.
fn platform(about: &About<'_>) -> String {
    let cpu = about.target.rpm;
    match (about.target.npm_os, about.target.npm_cpu, about.binary.glibc) {
        ("darwin", "arm64", _) => "macosx_11_0_arm64".to_owned(),
        ("darwin", _, _) => "macosx_10_12_x86_64".to_owned(),
        (_, _, Some((major, minor))) => format!("manylinux_{major}_{minor}_{cpu}"),
        (_, _, None) => format!("manylinux2014_{cpu}.musllinux_1_1_{cpu}"),
    }
}

/// Tag of a wheel with several platforms, as its metadata names them: a line for each.
fn tag_lines(tag: &str) -> String {
    let Some((python, platforms)) = tag.rsplit_once('-') else { return tag.to_owned() };
    platforms.split('.').map(|platform| format!("{python}-{platform}")).collect::<Vec<_>>().join("\nTag: ")
}

/// Version in Python's spelling: `0.2.0-rc.1` is `0.2.0rc1`.
pub(in crate::release) fn python_version(version: &str) -> String {
    let Some((numbers, before)) = version.split_once('-') else { return version.to_owned() };
    let (word, number) = before.split_once('.').unwrap_or((before, "0"));
    let word = match word {
        "alpha" => "a",
        "beta" => "b",
        _ => "rc",
    };
    format!("{numbers}{word}{number}")
}

/// Digest as a wheel's record has it: letters that fit an address, without padding.
fn base64_url(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = (at(0) << 16) | (at(1) << 8) | at(2);
        for place in 0..=chunk.len() {
            let letter = usize::try_from((bits >> (18 - 6 * place)) & 63).unwrap_or(0);
            out.extend(LETTERS.get(letter).map(|letter| char::from(*letter)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_versions_and_tags_are_spelled_as_pip_reads_them() {
        assert_eq!(base64_url(b"any carnal pleas"), "YW55IGNhcm5hbCBwbGVhcw");
        assert_eq!(base64_url(b"\xff\xfe\xfd"), "__79");
        for (ours, theirs) in [("0.2.0", "0.2.0"), ("0.2.0-rc.1", "0.2.0rc1"), ("1.0.0-beta", "1.0.0b0")] {
            assert_eq!(python_version(ours), theirs);
        }
        assert_eq!(tag_lines("py3-none-a_1.b_2"), "py3-none-a_1\nTag: py3-none-b_2");
    }
}
