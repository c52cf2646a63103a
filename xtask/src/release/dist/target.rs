use anyhow::{Context, Result};

use crate::run::Run;

/// Platform that packages are made for, by the names that it has elsewhere.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) triple: &'static str,
    pub(super) deb: &'static str,
    pub(super) rpm: &'static str,
    /// Processor and system as npm calls them.
    pub(super) npm_cpu: &'static str,
    pub(super) npm_os: &'static str,
    /// Processor and system as an image calls them.
    pub(super) oci_cpu: &'static str,
}

const fn linux(triple: &'static str, rpm: &'static str, deb: &'static str, npm_cpu: &'static str) -> Target {
    Target { triple, deb, rpm, npm_cpu, npm_os: "linux", oci_cpu: deb }
}

const fn macos(triple: &'static str, npm_cpu: &'static str) -> Target {
    Target { triple, deb: "", rpm: "", npm_cpu, npm_os: "darwin", oci_cpu: "" }
}

/// Supported platforms. Those of macOS are compiled by nobody who makes releases.
pub(super) const TARGETS: [Target; 6] = [
    linux("x86_64-unknown-linux-gnu", "x86_64", "amd64", "x64"),
    linux("x86_64-unknown-linux-musl", "x86_64", "amd64", "x64"),
    linux("aarch64-unknown-linux-gnu", "aarch64", "arm64", "arm64"),
    linux("aarch64-unknown-linux-musl", "aarch64", "arm64", "arm64"),
    macos("x86_64-apple-darwin", "x64"),
    macos("aarch64-apple-darwin", "arm64"),
];

impl Target {
    pub(super) fn named(triple: &str) -> Result<Self> {
        if triple.contains("windows") {
            anyhow::bail!(
                "{triple}: zk runs on Windows inside of WSL2: build for x86_64-unknown-linux-gnu there"
            );
        }
        let known = TARGETS.iter().map(|target| target.triple).collect::<Vec<_>>().join(", ");
        let found = TARGETS.into_iter().find(|target| target.triple == triple);
        found.with_context(|| format!("{triple}: no platform that zk is packaged for; there are {known}"))
    }

    pub(super) fn is_linux(self) -> bool {
        self.npm_os == "linux"
    }

    pub(super) fn is_musl(self) -> bool {
        self.triple.ends_with("musl")
    }
}

/// Platform of this machine.
pub(in crate::release) fn host(root: &std::path::Path) -> Result<String> {
    let printed = String::from_utf8(Run::new("rustc", &["-vV"], root).output()?)?;
    let host = printed.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.to_owned())
}
