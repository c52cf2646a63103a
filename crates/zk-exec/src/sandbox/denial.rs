//! Denials: which failures of a command the sandbox or the container has probably caused.

use std::path::{Component, Path, PathBuf};

use zk_core::service::{Denial, DeniedAct};

use super::policy::Network;
use crate::files::protect;

/// Maximum number of denials that are reported for one command.
pub(crate) const MAX_TOLD_DENIALS: usize = 4;

/// System error messages for a write to a read-only file.
const NOT_WRITTEN: [&str; 4] = ["Read-only file system", "EROFS", "Device or resource busy", "EBUSY"];
/// System error messages for a file name that is reserved by a placeholder directory.
const KEPT_FREE: [&str; 4] = ["Is a directory", "EISDIR", "cannot overwrite directory", "with non-directory"];
/// System error messages for a file without permission, or a refused system call.
const CLOSED: [&str; 4] = ["Permission denied", "EACCES", "Operation not permitted", "EPERM"];
/// Error messages of programs without a network.
const NO_NETWORK: [&str; 7] = [
    "Network is unreachable",
    "ENETUNREACH",
    "Could not resolve host",
    "Temporary failure in name resolution",
    "Name or service not known",
    "EAI_AGAIN",
    "failed to lookup address information",
];

/// System error messages for a full file system.
const FULL: [&str; 2] = ["No space left on device", "ENOSPC"];
/// System error messages for a missing path, and git's for a missing repository.
const MISSING: [&str; 3] = ["No such file or directory", "ENOENT", "does not appear to be a git repository"];

/// Git's error message for a repository that it cannot write to. Another line, which begins with `To`, names
/// the repository.
const NOT_PUSHED: &str = "unable to create temporary object directory";

/// Phrases in error messages about a temporary file that the message does not name.
const TEMPORARY: [&str; 2] = ["temp file", "temporary file"];

const RUN_LATER: &str = "programs are run from it later";
const NO_REPOSITORY: &str = "git would run programs that its settings name; to make a repository here, run `git init` or `git clone` as a command of its own";

/// Rules by which error messages of programs are matched with denials of a sandbox or a container.
#[derive(Clone, Debug)]
pub(crate) struct Denials {
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) read_only: Vec<PathBuf>,
    /// Placeholder directories that occupy names of start files.
    pub(crate) kept_free: Vec<PathBuf>,
    pub(crate) hidden: Vec<PathBuf>,
    /// Private temporary directories of commands.
    pub(crate) own: Vec<PathBuf>,
    pub(crate) network: Network,
}

impl Denials {
    /// Keeps the names of start files among the placeholders' names.
    pub(crate) fn start_files<'a>(names: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
        let name =
            |path: &Path| path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        names.filter(|path| protect::is_start_file(&name(path))).map(Path::to_owned).collect()
    }

    /// Denial that a line of a command's output reports. An error alone is no proof: the line must contain a
    /// known error message, and a path or host that the policy denies.
    pub(crate) fn in_line(&self, line: &str, cwd: &Path) -> Option<Denial> {
        let says = |texts: &[&str]| texts.iter().any(|text| line.contains(text));
        if says(&NO_NETWORK) && self.network != Network::All {
            return Some(Denial {
                act: DeniedAct::Connect,
                target: unresolved_host(line),
                reason: self.network_reason().into(),
            });
        }
        if says(&FULL) {
            return self.full_denial(line, cwd);
        }
        if says(&KEPT_FREE) {
            return candidates(line).find_map(|text| self.placeholder_denial(&normalise(&cwd.join(text))));
        }
        if says(&MISSING) {
            return candidates(line).find_map(|text| self.covered_denial(&normalise(&cwd.join(text))));
        }
        let (not_written, closed) = (says(&NOT_WRITTEN), says(&CLOSED));
        if closed && self.network == Network::None && line.to_lowercase().contains("socket") {
            let target = "the network".to_owned();
            return Some(Denial { act: DeniedAct::Connect, target, reason: "it has no network".into() });
        }
        if !not_written && !closed {
            return None;
        }
        candidates(line).find_map(|text| self.path_denial(&normalise(&cwd.join(text)), not_written))
    }

    /// Denial that the output of a `git push` to a repository on this machine reports.
    pub(crate) fn in_push(&self, text: &str, cwd: &Path) -> Option<Denial> {
        let (_, rest) = text.split_once(NOT_PUSHED)?;
        let to = rest.lines().find_map(|line| line.strip_prefix("To "))?.trim();
        let path = to.strip_prefix("file://").unwrap_or(to);
        self.path_denial(&normalise(&cwd.join(path)), true)
    }

    fn network_reason(&self) -> &'static str {
        match self.network {
            Network::Hosts => "commands reach named hosts alone, through the proxy that HTTP_PROXY names",
            Network::None | Network::Loopback | Network::All => "it has no network",
        }
    }

    /// Denial for a full temporary directory that a line reports.
    fn full_denial(&self, line: &str, cwd: &Path) -> Option<Denial> {
        let first = self.own.first()?;
        let named = candidates(line).find_map(|text| {
            let path = normalise(&cwd.join(text));
            let is_written = self.writable.iter().any(|place| path.starts_with(place));
            self.own.iter().find(|own| path.starts_with(own) && !is_written)
        });
        let unnamed = || TEMPORARY.iter().any(|text| line.contains(text)).then_some(first);
        let target = named.or_else(unnamed)?.display().to_string();
        let reason =
            "it is full: commands have it in memory, for all of them; remove what nothing needs there";
        Some(Denial { act: DeniedAct::Write, target, reason: reason.to_owned() })
    }

    /// Denial for a path that exists outside of the sandbox, and that the private temporary directory of
    /// commands covers.
    fn covered_denial(&self, path: &Path) -> Option<Denial> {
        let is_written = self.writable.iter().any(|place| path.starts_with(place));
        let own = self.own.iter().find(|own| path.starts_with(own) && path != *own && !is_written)?;
        let reason = format!("commands have a {} of their own", own.display());
        let denial = Denial { act: DeniedAct::Read, target: path.display().to_string(), reason };
        path.symlink_metadata().is_ok().then_some(denial)
    }

    fn placeholder_denial(&self, path: &Path) -> Option<Denial> {
        let target = path.display().to_string();
        let is_kept = self.kept_free.iter().any(|kept| path == kept);
        is_kept.then(|| Denial { act: DeniedAct::Write, target, reason: RUN_LATER.into() })
    }

    fn path_denial(&self, path: &Path, not_written: bool) -> Option<Denial> {
        let below = |places: &[PathBuf]| places.iter().any(|place| path.starts_with(place));
        let denial = |act, reason: &str| {
            Some(Denial { act, target: path.display().to_string(), reason: reason.to_owned() })
        };
        if below(&self.hidden) {
            return denial(DeniedAct::Read, "it is hidden from commands");
        }
        if !not_written {
            return None;
        }
        if path.ends_with(".git") && self.read_only.iter().any(|guarded| guarded == path) {
            return denial(DeniedAct::Write, NO_REPOSITORY);
        }
        if below(&self.read_only) {
            return denial(DeniedAct::Write, RUN_LATER);
        }
        let own = below(&self.own) || below(&self.writable);
        if own { None } else { denial(DeniedAct::Write, "it lies outside of what commands write to") }
    }
}

/// Parts of a line that may be paths: quoted text, text between colons or commas, and words.
fn candidates(line: &str) -> impl Iterator<Item = &str> {
    let quotes = ['\'', '"', '`', '‘', '’'];
    let quoted = line.split(quotes).skip(1).step_by(2);
    let between = line.split([':', ',']).map(str::trim);
    let words = line.split_ascii_whitespace();
    quoted
        .chain(between)
        .chain(words)
        .map(move |text| text.trim_matches(quotes).trim_matches([':', ',', ';', '(', ')', '[', ']']))
        .filter(|text| !text.is_empty() && (text.contains('/') || text.starts_with('.')))
}

/// Host name after the message of a failed look-up.
fn unresolved_host(line: &str) -> String {
    let after = line.split_once("resolve host").map(|(_, rest)| rest);
    let named = after.and_then(|rest| rest.split([':', ' ', '\'', '"', '`']).find(|word| word.contains('.')));
    let address = || {
        line.split_ascii_whitespace().find_map(|word| {
            let word = word.trim_matches(|char: char| !char.is_ascii_alphanumeric());
            let host = word.rsplit("//").next()?.split(['/', ':']).next()?;
            (host.contains('.')
                && host.chars().all(|char| char.is_ascii_alphanumeric() || "-.".contains(char)))
            .then_some(host)
        })
    };
    named.or_else(address).unwrap_or("the network").trim_end_matches('.').to_owned()
}

/// Path without `.` and `..`, resolved by names alone.
fn normalise(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                found.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => found.push(part),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denials(network: Network) -> Denials {
        Denials {
            writable: vec!["/home/me/project".into()],
            read_only: [".git/config", ".git/hooks", ".git"]
                .map(|name| format!("/home/me/project/{name}").into())
                .to_vec(),
            kept_free: vec!["/home/me/project/.bashrc".into()],
            hidden: vec!["/home/me/.ssh".into()],
            own: vec!["/tmp".into(), "/var/tmp".into()],
            network,
        }
    }

    #[test]
    fn what_programs_say_of_denied_paths_and_hosts_is_recognised() {
        let here = Path::new("/home/me/project");
        for (line, expected) in [
            ("touch: cannot touch '/usr/x': Read-only file system", "write /usr/x"),
            ("bash: line 1: /home/me/other/x: Read-only file system", "write /home/me/other/x"),
            ("bash: line 1: ../x: Read-only file system", "write /home/me/x"),
            (
                "cp: cannot create regular file '.git/hooks/x': Read-only file system",
                "write /home/me/project/.git/hooks/x",
            ),
            (
                "error: could not lock config file .git/config: Device or resource busy",
                "write /home/me/project/.git/config",
            ),
            (
                "fatal: cannot mkdir .git: Read-only file system",
                "write /home/me/project/.git (git would run programs that its settings name; to make a repository",
            ),
            ("cat: /home/me/.ssh/id_rsa: Permission denied", "read /home/me/.ssh/id_rsa"),
            ("Error: EROFS: read-only file system, open '/home/me/.npm/x'", "write /home/me/.npm/x"),
            ("OSError: [Errno 30] Read-only file system: '/opt/a b'", "write /opt/a b"),
            ("bash: line 1: .bashrc: Is a directory", "write /home/me/project/.bashrc"),
            (
                "mv: cannot overwrite directory '.bashrc' with non-directory 'x'",
                "write /home/me/project/.bashrc",
            ),
            ("curl: (6) Could not resolve host: example.org", "connect to example.org"),
            (
                "fatal: unable to access 'https://example.org/x/': Could not resolve host: example.org",
                "connect to example.org",
            ),
            ("Error: connect ENETUNREACH 192.0.2.1:80", "connect to 192.0.2.1"),
            ("dd: error writing '/tmp/a/x': No space left on device", "write /tmp (it is full"),
            ("Error: ENOSPC: no space left on device, write '/var/tmp/x'", "write /var/tmp (it is full"),
            (
                "bash: line 1: cannot create temp file for here-document: No space left on device",
                "write /tmp (it is full",
            ),
        ] {
            let told = denials(Network::None).in_line(line, here).map(|denial| denial.to_string());
            assert!(told.as_ref().is_some_and(|told| told.contains(expected)), "{line}: {told:?}");
        }
    }

    #[test]
    fn a_path_that_only_the_private_temporary_directory_hides_is_recognised() {
        let temp = tempfile::tempdir().unwrap();
        let (there, own) = (temp.path().join("team.git"), temp.path().join("project"));
        std::fs::create_dir(&there).unwrap();
        std::fs::create_dir(&own).unwrap();
        let rules =
            Denials { own: vec![temp.path().into()], writable: vec![own.clone()], ..denials(Network::None) };
        let told = |path: &Path| {
            let line = format!("fatal: '{}' does not appear to be a git repository", path.display());
            rules.in_line(&line, Path::new("/")).map(|denial| denial.to_string())
        };
        let expected = format!(
            "possibly denied by the sandbox: read {} (commands have a {} of their own)",
            there.display(),
            temp.path().display()
        );
        assert_eq!(told(&there), Some(expected));
        for absent in [&own, &temp.path().join("nothing"), temp.path()] {
            assert_eq!(told(absent), None, "{}", absent.display());
        }
    }

    #[test]
    fn a_push_to_a_repository_that_commands_do_not_write_to_is_recognised() {
        let here = Path::new("/home/me/project/sub");
        let said = |to: &str| {
            format!(
                "Writing objects: 100%\nerror: remote unpack failed: unable to create temporary object directory\nTo {to}\n \
                 ! [remote rejected] main -> main (unpacker error)\nerror: failed to push some refs to '{to}'\n"
            )
        };
        let target = |to: &str| denials(Network::None).in_push(&said(to), here).map(|denial| denial.target);
        for to in ["/srv/team.git", "../../../../srv/team.git", "file:///srv/team.git"] {
            assert_eq!(target(to).as_deref(), Some("/srv/team.git"), "{to}");
        }
        for own in ["../own.git", "/tmp/x.git", "/home/me/project/x.git"] {
            assert_eq!(target(own), None, "{own}");
        }
        assert_eq!(denials(Network::None).in_push("To /srv/team.git\n   1..2  main -> main", here), None);
    }

    #[test]
    fn failures_with_other_causes_are_not_blamed_on_the_sandbox() {
        let here = Path::new("/home/me/project");
        for line in [
            "cat: /etc/secret: Permission denied",
            "bash: ./script: Permission denied",
            "rm: cannot remove 'build/x': Device or resource busy",
            "mkdir: cannot create directory '/tmp/x': Read-only file system",
            "cat: x: No such file or directory",
            "cat: ./src: Is a directory",
            "cp: error writing 'target/x': No space left on device",
            "test failed: expected Read-only file system",
        ] {
            assert_eq!(denials(Network::None).in_line(line, here), None, "{line}");
        }
        let line = "curl: (6) Could not resolve host: example.org";
        assert_eq!(denials(Network::All).in_line(line, here), None);
    }
}
