use zk_core::model::Effect;

use super::{Outcome, Unseen};
use crate::connections::registries;

/// Dangerous effect, which needs a question in most modes even if a sandbox contains the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hazard {
    /// Sends work to another machine.
    Publishes,
    /// May discard work that exists nowhere else.
    Discards,
    /// Opens network connections.
    Network,
    /// Runs a program as another user.
    Privilege,
    /// Has a service do work that this process's restrictions do not bind.
    Delegates,
}

impl Hazard {
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Publishes => "it sends work elsewhere",
            Self::Discards => "it may throw away work that is nowhere else",
            Self::Network => "it opens connections",
            Self::Privilege => "it runs something as another user",
            Self::Delegates => "it gives work to a service outside",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Writes, creates or removes the files in its arguments.
    Writes,
    Network,
    Code,
    Shell,
    Privilege,
    Delegates,
    Opaque,
}

/// Programs that need a question, grouped by the reason.
const KNOWN: &[(Kind, &[&str])] = &[
    (
        Kind::Writes,
        &[
            "rm", "rmdir", "mv", "cp", "mkdir", "touch", "ln", "chmod", "chown", "chgrp", "tee", "dd",
            "truncate", "install", "shred", "unlink", "link", "mkfifo", "mknod", "patch", "split", "csplit",
            "tar", "zip", "unzip", "gzip", "gunzip", "bzip2", "xz", "zstd", "7z", "rsync",
        ],
    ),
    (
        Kind::Network,
        &[
            "curl", "wget", "ssh", "scp", "sftp", "nc", "ncat", "netcat", "socat", "telnet", "ftp", "ping",
            "dig", "nslookup", "host", "gh", "glab", "aws", "gcloud", "az",
        ],
    ),
    (
        Kind::Code,
        &[
            "make", "gmake", "ninja", "cmake", "cargo", "rustc", "npm", "npx", "yarn", "pnpm", "bun", "deno",
            "pip", "pip3", "uv", "go", "gradle", "mvn", "ant", "bazel", "pytest", "tox", "python", "python2",
            "python3", "perl", "ruby", "node", "php", "lua", "Rscript", "java", "dotnet", "swift", "just",
            "rake", "meson",
        ],
    ),
    (Kind::Shell, &["bash", "sh", "dash", "zsh", "ksh", "fish", "tcsh", "csh", "ash", "rbash"]),
    (
        Kind::Privilege,
        &["su", "runuser", "pkexec", "setpriv", "newgrp", "sg", "chroot", "unshare", "nsenter", "capsh"],
    ),
    (
        Kind::Delegates,
        &[
            "docker",
            "podman",
            "kubectl",
            "helm",
            "systemctl",
            "systemd-run",
            "crontab",
            "at",
            "batch",
            "tmux",
            "screen",
            "dbus-send",
            "busctl",
            "gdbus",
            "xdg-open",
            "open",
            "osascript",
            "loginctl",
            "machinectl",
            "virsh",
        ],
    ),
    (
        Kind::Opaque,
        &[
            "parallel",
            "watch",
            "flock",
            "script",
            "expect",
            "strace",
            "ltrace",
            "gdb",
            "lldb",
            "perf",
            "ip",
            "entr",
            "less",
            "more",
            "man",
            "vi",
            "vim",
            "nvim",
            "ed",
            "ex",
            "emacs",
            "nano",
            "busybox",
            "toybox",
            "start-stop-daemon",
            "ld.so",
            "run-parts",
            "fakeroot",
            "dbus-run-session",
            "xvfb-run",
            "unbuffer",
        ],
    ),
];

/// Outcome for a program that is in no other table.
pub(super) fn outcome(name: &str, args: &[String]) -> Outcome {
    let kind = KNOWN.iter().find(|(_, names)| names.contains(&name)).map(|(kind, _)| *kind);
    let argv = || std::iter::once(name.to_owned()).chain(args.iter().cloned()).collect::<Vec<_>>();
    let executes = || Effect::Executes { command: None, argv: argv() };
    if registries::connects(name, args) {
        let effects = vec![executes(), Effect::Network { hosts: Vec::new() }];
        let changes = Some(format!("`{name}` fetches packages and may run code of theirs"));
        let (hazard, unseen) = (Some(Hazard::Network), Unseen::ALL);
        return Outcome { effects, changes, hazard, unseen, ..Outcome::default() };
    }
    let Some(kind) = kind else {
        let changes = Some(format!("nothing is known of what `{name}` does"));
        return Outcome { effects: vec![executes()], changes, unseen: Unseen::ALL, ..Outcome::default() };
    };
    if is_version_question(name, args) {
        return Outcome::default();
    }
    let (effects, changes, hazard) = match kind {
        Kind::Writes => {
            let hazard = discards(name, args).then_some(Hazard::Discards);
            let found = super::writers::outcome(name, args, format!("`{name}` writes or removes files"));
            return Outcome { hazard, ..found };
        }
        Kind::Network => {
            let effects = vec![executes(), Effect::Network { hosts: Vec::new() }];
            (effects, format!("`{name}` opens connections"), Some(Hazard::Network))
        }
        Kind::Code => {
            let hazard = publishes(name, args).then_some(Hazard::Publishes);
            (vec![executes()], format!("`{name}` runs code of the project or of its arguments"), hazard)
        }
        Kind::Shell => (vec![executes()], format!("`{name}` runs what it is given"), None),
        Kind::Privilege => (vec![executes()], format!("`{name}` changes rights"), Some(Hazard::Privilege)),
        Kind::Delegates => {
            (vec![executes()], format!("`{name}` gives work to a service outside"), Some(Hazard::Delegates))
        }
        Kind::Opaque => (vec![executes()], format!("`{name}` can start any program"), None),
    };
    let is_opaque = match kind {
        Kind::Shell | Kind::Privilege | Kind::Opaque => true,
        Kind::Network => matches!(name, "ssh" | "nc" | "ncat" | "netcat" | "socat"),
        Kind::Writes | Kind::Code | Kind::Delegates => false,
    };
    let unseen = Unseen::ALL;
    Outcome { effects, changes: Some(changes), is_opaque, hazard, unseen, ..Outcome::default() }
}

/// Hazard of a program with these arguments, computed without copying them.
pub(super) fn hazard(name: &str, args: &[String]) -> Option<Hazard> {
    let (kind, _) = KNOWN.iter().find(|(_, names)| names.contains(&name))?;
    if is_version_question(name, args) {
        return None;
    }
    match kind {
        Kind::Writes => discards(name, args).then_some(Hazard::Discards),
        Kind::Network => Some(Hazard::Network),
        Kind::Code => publishes(name, args).then_some(Hazard::Publishes),
        Kind::Privilege => Some(Hazard::Privilege),
        Kind::Delegates => Some(Hazard::Delegates),
        Kind::Shell | Kind::Opaque => None,
    }
}

/// Whether connecting to other machines is the program's purpose.
pub(crate) fn is_network_program(name: &str) -> bool {
    KNOWN.iter().any(|(kind, names)| *kind == Kind::Network && names.contains(&name))
}

/// Whether a command only asks a well-known program for its version. Version managers wrap many other
/// programs, so these do not count.
fn is_version_question(name: &str, args: &[String]) -> bool {
    matches!(args, [only] if only == "--version")
        && matches!(
            name,
            "bash" | "make" | "cmake" | "curl" | "node" | "python3" | "perl" | "tar" | "rsync" | "ninja"
        )
}

/// Whether a command deletes whole trees or empties whole files.
fn discards(name: &str, args: &[String]) -> bool {
    match name {
        "rm" => args.iter().any(|word| {
            word == "--recursive"
                || (word.starts_with('-') && !word.starts_with("--") && word.contains(['r', 'R']))
                || word.starts_with("--r")
        }),
        "shred" | "dd" | "truncate" | "rsync" => true,
        _ => false,
    }
}

fn publishes(name: &str, args: &[String]) -> bool {
    let has = |word: &str| args.iter().any(|arg| arg == word);
    matches!(name, "cargo" | "npm" | "yarn" | "pnpm" | "bun" | "uv") && has("publish")
}
