use std::fmt::Write as _;

use anyhow::Result;

/// Archive that is there for a platform.
pub(super) struct Archive {
    pub(super) triple: String,
    pub(super) sha256: String,
    /// Minor version of the oldest C library that it runs with, 0 for any.
    pub(super) glibc: u32,
}

/// Script that installs the archive of the machine which it runs on.
pub(super) fn script(version: &str, base: &str, archives: &[Archive]) -> Result<String> {
    let mut picks = String::new();
    // An archive for the C library of the machine comes before the one for any.
    let mut sorted: Vec<&Archive> =
        archives.iter().filter(|archive| archive.triple.contains("linux")).collect();
    sorted.sort_by_key(|archive| (archive.triple.ends_with("musl"), archive.triple.clone()));
    for archive in sorted {
        let libc = archive.triple.rsplit('-').next().unwrap_or_default();
        writeln!(picks, "pick {} {} {} {libc}", archive.triple, archive.glibc, archive.sha256)?;
    }
    let text = include_str!("install.sh").replace("@VERSION@", version).replace("@BASE@", base);
    Ok(text.replace("@PICKS@\n", &picks))
}

/// Formula of Homebrew with the archives that are there.
pub(super) fn formula(
    about: (&str, &str),
    version: &str,
    base: &str,
    archives: &[Archive],
) -> Result<String> {
    let (description, repository) = about;
    let mut out = format!(
        "class Zk < Formula\n  desc {:?}\n  homepage {repository:?}\n  version {version:?}\n  license any_of: [\"MIT\", \"Apache-2.0\"]\n",
        description.trim_end_matches('.'),
    );
    for (system, part) in [("linux", "linux-gnu"), ("macos", "apple-darwin")] {
        let of_system: Vec<&Archive> =
            archives.iter().filter(|archive| archive.triple.ends_with(part)).collect();
        if of_system.is_empty() {
            continue;
        }
        writeln!(out, "\n  on_{system} do")?;
        for archive in of_system {
            let cpu = if archive.triple.starts_with("x86_64") { "intel" } else { "arm" };
            let url = format!("{base}/zk-{version}-{}.tar.gz", archive.triple);
            writeln!(out, "    on_{cpu} do\n      url {url:?}\n      sha256 {:?}\n    end", archive.sha256)?;
        }
        writeln!(out, "  end")?;
    }
    out.push_str(
        "\n  def install\n    bin.install \"zk\"\n    man1.install Dir[\"man/*.1\"]\n    bash_completion.install \"completions/zk.bash\" => \"zk\"\n    \
         zsh_completion.install \"completions/_zk\"\n    fish_completion.install \"completions/zk.fish\"\n  end\n\n  \
         test do\n    assert_match version.to_s, shell_output(\"#{bin}/zk --version\")\n  end\nend\n",
    );
    Ok(out)
}
