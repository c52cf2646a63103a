//! Names of execution contexts, as a person writes them: the place where commands run and files are.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Execution context, by its name.
///
/// ```
/// use zk_exec::ContextName;
///
/// assert_eq!("docker:debian:13".parse(), Ok(ContextName::Docker("debian:13".to_owned())));
/// assert!("somewhere".parse::<ContextName>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContextName {
    /// Processes of this machine, without a sandbox.
    Process,
    /// Processes of this machine in a sandbox.
    Sandbox,
    /// A container of this image.
    Docker(String),
    /// An exec-server at this socket.
    Remote(PathBuf),
    /// An exec-server that is started on this host.
    Ssh(SshTarget),
}

impl ContextName {
    /// Forms of a context's name, for error messages.
    pub const CHOICES: &str =
        "\"process\", \"sandbox\", \"docker:IMAGE\", \"remote:unix:PATH\" or \"remote:ssh:HOST\"";
    /// Regular expression for valid context names.
    pub const PATTERN: &str = "^(process|sandbox|docker:.+|remote:unix:/.+|remote:ssh:.+)$";

    /// Whether commands and files are on another machine.
    #[must_use]
    pub fn is_on_another_machine(&self) -> bool {
        match self {
            // The directory is mounted at its own path.
            Self::Process | Self::Sandbox | Self::Docker(_) => false,
            Self::Remote(_) | Self::Ssh(_) => true,
        }
    }
}

impl FromStr for ContextName {
    type Err = ContextNameError;

    fn from_str(text: &str) -> Result<Self, ContextNameError> {
        match text.split_once(':') {
            None if text == "process" => Ok(Self::Process),
            None if text == "sandbox" => Ok(Self::Sandbox),
            Some(("docker", image)) if is_image(image) => Ok(Self::Docker(image.to_owned())),
            Some(("remote", address)) => match address.strip_prefix("ssh:") {
                Some(host) => host.parse().map(Self::Ssh),
                None => socket_path(address).map(Self::Remote),
            },
            _ => Err(ContextNameError::Unknown),
        }
    }
}

/// Reason why a text names no context.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContextNameError {
    /// The text begins with no known kind of context.
    #[error("use {}", ContextName::CHOICES)]
    Unknown,
    /// The text after `remote:` is no address of an exec-server.
    #[error("`{address}` is no address; write unix:PATH with an absolute path")]
    Address {
        /// Address as it was written.
        address: String,
    },
    /// The text after `ssh:` names no host.
    #[error("`{host}` is no host; write remote:ssh:HOST or remote:ssh:HOST:/DIRECTORY, in plain letters")]
    Host {
        /// Host as it was written, with its directory.
        host: String,
    },
}

/// The path of an address such as `unix:/run/zk.sock`.
///
/// # Errors
/// [`ContextNameError::Address`] when the address is of another kind, or its path is not absolute.
pub fn socket_path(address: &str) -> Result<PathBuf, ContextNameError> {
    let path = address.strip_prefix("unix:").map(Path::new);
    path.filter(|path| path.is_absolute())
        .map(Path::to_owned)
        .ok_or_else(|| ContextNameError::Address { address: address.to_owned() })
}

/// Host that `ssh` reaches and, if it is not the home directory, a directory there: `build.example.org:/srv/project`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshTarget {
    pub(crate) host: String,
    pub(crate) dir: Option<String>,
}

impl FromStr for SshTarget {
    type Err = ContextNameError;

    /// Reads `HOST` or `HOST:/DIR`. Only plain characters are allowed, since both parts reach a shell on the
    /// other host.
    fn from_str(text: &str) -> Result<Self, ContextNameError> {
        let (host, dir) = text.split_once(':').map_or((text, None), |(host, dir)| (host, Some(dir)));
        let plain = |text: &str, more: &[u8]| {
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
        };
        let is_host = host.starts_with(|first: char| first.is_ascii_alphanumeric()) && plain(host, b"._-@");
        let is_dir = dir.is_none_or(|dir| dir.starts_with('/') && plain(dir, b"._-/+=@"));
        if is_host && is_dir {
            return Ok(Self { host: host.to_owned(), dir: dir.map(str::to_owned) });
        }
        Err(ContextNameError::Host { host: text.to_owned() })
    }
}

impl fmt::Display for SshTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)
    }
}

/// Whether a text can name an image: `debian`, `ghcr.io/team/build:1`, `alpine@sha256:…`.
fn is_image(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._/:@".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_read_and_wrong_ones_say_what_to_write() {
        let read = |text: &str| text.parse::<ContextName>();
        assert_eq!(read("process"), Ok(ContextName::Process));
        assert_eq!(read("sandbox"), Ok(ContextName::Sandbox));
        assert_eq!(read("docker:ghcr.io/a/b:1"), Ok(ContextName::Docker("ghcr.io/a/b:1".into())));
        assert_eq!(read("remote:unix:/run/zk.sock"), Ok(ContextName::Remote("/run/zk.sock".into())));
        for wrong in [
            "",
            "proces",
            "docker",
            "docker:",
            "docker:-x",
            "docker:a b",
            "remote",
            "remote:",
            "remote:unix:zk.sock",
            "remote:tcp:1.2.3.4",
            "sandbox:x",
        ] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(
                error.contains("use \"process\"") || error.contains("write unix:PATH"),
                "{wrong}: {error}"
            );
        }
    }
}
