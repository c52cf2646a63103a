use anyhow::Result;

use super::entry::{Entry, ar, tar_gz};
use super::{About, Contents};

/// Directory in which zsh of Debian and its relatives looks for completions of packages.
const ZSH_FUNCTIONS: &str = "usr/share/zsh/vendor-completions";

/// Package for Debian and its relatives.
pub(super) fn package(about: &About<'_>, contents: &Contents) -> Result<Vec<u8>> {
    let mut files = contents.system(&about.binary.bytes, ZSH_FUNCTIONS)?;
    files.push(Entry::file("usr/share/doc/zk/copyright", about.licence_note()));
    let kilobytes: usize = files.iter().map(|file| file.bytes.len().div_ceil(1024)).sum();
    let depends = match about.binary.glibc {
        Some((major, minor)) => format!("Depends: libc6 (>= {major}.{minor}), libgcc-s1\n"),
        None => String::new(),
    };
    let control = format!(
        "Package: zk\nVersion: {}\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {kilobytes}\n{depends}\
         Section: devel\nPriority: optional\nHomepage: {}\nDescription: {}\n",
        // A tilde comes before the end of a version, as a pre-release does.
        about.version.replace('-', "~"),
        about.target.deb,
        about.author,
        about.repository,
        about.description,
    );
    let sums = super::sums(&files);
    let control = [Entry::file("control", control), Entry::file("sha256sums", sums)];
    let members = [
        Entry::file("debian-binary", "2.0\n"),
        Entry::file("control.tar.gz", tar_gz(&control, about.seconds)?),
        Entry::file("data.tar.gz", tar_gz(&files, about.seconds)?),
    ];
    Ok(ar(&members, about.seconds))
}
