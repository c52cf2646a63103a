use std::path::{Path, PathBuf};

use zk_exec::ProgramEnv;

/// Installation method of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Installed {
    Npm,
    Npx,
    Pipx,
    UvTool,
    Uvx,
    Pip,
    Homebrew,
    Cargo,
    Checkout,
    Deb,
    Rpm,
    Script,
    Unknown,
}

/// Path parts that identify one installation method, the most specific first.
const PLACES: [(&str, Installed); 6] = [
    ("/_npx/", Installed::Npx),
    ("/node_modules/@zk-agent/", Installed::Npm),
    ("/pipx/venvs/", Installed::Pipx),
    ("/uv/tools/", Installed::UvTool),
    ("/uv/archive-v0/", Installed::Uvx),
    ("/Cellar/zk/", Installed::Homebrew),
];

/// Name of a file that cargo keeps at the top of its build directory.
const CARGO_OUTPUT_MARK: &str = ".rustc_info.json";
/// Most directory levels between a program that cargo built and the top of the build directory: the profile, and the
/// target if one was named.
const CARGO_OUTPUT_DEPTH: usize = 3;

impl Installed {
    /// Returns the installation method of the program at `path`, judged by its directory and the files beside it.
    pub(super) fn of(path: &Path, env: &ProgramEnv) -> Self {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let home = env.path("HOME");
        let cargo = env.path("CARGO_HOME").or_else(|| Some(home.as_ref()?.join(".cargo")));
        Self::detect(&real, home.as_deref(), cargo.as_deref(), &|path| path.exists())
    }

    fn detect(
        real: &Path,
        home: Option<&Path>,
        cargo: Option<&Path>,
        exists: &dyn Fn(&Path) -> bool,
    ) -> Self {
        let text = real.to_string_lossy();
        if let Some((_, way)) = PLACES.iter().find(|(part, _)| text.contains(part)) {
            return *way;
        }
        if real.ancestors().take(CARGO_OUTPUT_DEPTH + 1).any(|above| exists(&above.join(CARGO_OUTPUT_MARK))) {
            return Self::Checkout;
        }
        let dir = real.parent().unwrap_or(Path::new("/"));
        let is_in = |of: Option<PathBuf>| of.is_some_and(|of| of == dir);
        // Directory of programs that `cargo install` installed.
        if is_in(cargo.map(|cargo| cargo.join("bin"))) {
            return Self::Cargo;
        }
        if dir.parent().is_some_and(|root| exists(&root.join("pyvenv.cfg"))) {
            return Self::Pip;
        }
        if dir == Path::new("/usr/bin") {
            return match exists(Path::new("/var/lib/dpkg/info/zk.list")) {
                true => Self::Deb,
                false if exists(Path::new("/usr/lib/sysimage/rpm")) || exists(Path::new("/var/lib/rpm")) => {
                    Self::Rpm
                }
                false => Self::Unknown,
            };
        }
        if is_in(home.map(|home| home.join(".local/bin"))) { Self::Script } else { Self::Unknown }
    }

    /// Describes the installation method, for the end of a sentence.
    pub(super) fn from(self) -> &'static str {
        match self {
            Self::Npm => "from npm",
            Self::Npx => "from npm, by npx",
            Self::Pipx => "from PyPI, by pipx",
            Self::UvTool => "from PyPI, by uv",
            Self::Uvx => "from PyPI, by uvx",
            Self::Pip => "from PyPI, by pip",
            Self::Homebrew => "from Homebrew",
            Self::Cargo => "by cargo",
            Self::Checkout => "from a checkout",
            Self::Deb => "from a .deb",
            Self::Rpm => "from an .rpm",
            Self::Script => "from an archive",
            Self::Unknown => "installed in a way that its place does not tell",
        }
    }

    /// Returns the command or advice that installs the release `version` by this method.
    pub(super) fn advice(self, version: &str) -> String {
        match self {
            Self::Npm => format!("npm install -g @zk-agent/zk@{version}"),
            Self::Npx => format!("npx @zk-agent/zk@{version}"),
            Self::Pipx => "pipx upgrade zk-agent".to_owned(),
            Self::UvTool => "uv tool upgrade zk-agent".to_owned(),
            Self::Uvx => "uvx --refresh --from zk-agent zk".to_owned(),
            Self::Pip => format!("pip install --upgrade zk-agent=={version}"),
            Self::Homebrew => "get zk.rb of the release, then brew upgrade ./zk.rb".to_owned(),
            Self::Cargo => format!("cargo install zk-harness-cli --version {version}"),
            Self::Checkout => format!("git checkout v{version}, then build it as before"),
            Self::Deb => {
                format!("get the .deb of zk {version} for this processor, then apt install ./FILE")
            }
            Self::Rpm => format!("get the .rpm of zk {version} for this processor, then dnf install ./FILE"),
            Self::Script => "sh install.sh, the script of that release".to_owned(),
            Self::Unknown => "install it as it was installed before".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_program_tells_how_it_was_installed() {
        let (home, cargo) = (Path::new("/home/a"), Path::new("/home/a/.cargo"));
        for (path, beside, way) in [
            ("/usr/lib/node_modules/@zk-agent/zk/node_modules/@zk-agent/zk-linux-x64/zk", "", Installed::Npm),
            ("/home/a/.npm/_npx/1f/node_modules/@zk-agent/zk-linux-x64/zk", "", Installed::Npx),
            ("/home/a/.local/share/pipx/venvs/zk-agent/bin/zk", "", Installed::Pipx),
            ("/home/a/.local/share/uv/tools/zk-agent/bin/zk", "", Installed::UvTool),
            ("/home/a/.cache/uv/archive-v0/x1/bin/zk", "", Installed::Uvx),
            ("/home/a/env/bin/zk", "/home/a/env/pyvenv.cfg", Installed::Pip),
            ("/home/linuxbrew/.linuxbrew/Cellar/zk/0.1.0/bin/zk", "", Installed::Homebrew),
            ("/home/a/.cargo/bin/zk", "", Installed::Cargo),
            ("/src/zk/target/release/zk", "/src/zk/target/.rustc_info.json", Installed::Checkout),
            ("/built/x86_64-unknown-linux-musl/quick/zk", "/built/.rustc_info.json", Installed::Checkout),
            ("/usr/bin/zk", "/var/lib/dpkg/info/zk.list", Installed::Deb),
            ("/usr/bin/zk", "/var/lib/rpm", Installed::Rpm),
            ("/usr/bin/zk", "", Installed::Unknown),
            ("/home/a/.local/bin/zk", "", Installed::Script),
            ("/opt/zk", "", Installed::Unknown),
        ] {
            let found = Installed::detect(Path::new(path), Some(home), Some(cargo), &|path| {
                path == Path::new(beside)
            });
            assert_eq!(found, way, "{path}");
            assert!(!way.advice("0.2.0").is_empty() && !way.from().is_empty());
        }
    }
}
