//! Connector: a program inside the sandbox through which ssh and git connect to the proxy.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Path of the connector, whose arguments are a host and a port.
pub(super) const PROGRAM: &str = "/run/.connect";
const SOURCE: &str = include_str!("connect.sh");

/// System-wide configuration of ssh.
const SSH_CONFIG: &str = "/etc/ssh/ssh_config";
const OWN_SSH_CONFIG: &str = "/run/.ssh_config";

/// Writes the connector, which needs the sandbox's own `/run`, and an ssh configuration that uses it.
///
/// Returns the path of that configuration and of the system file to cover with it, if the machine has one.
pub(super) fn write() -> io::Result<Option<(&'static Path, PathBuf)>> {
    fs::write(PROGRAM, SOURCE)?;
    fs::set_permissions(PROGRAM, fs::Permissions::from_mode(0o755))?;
    let Ok(target) = fs::canonicalize(SSH_CONFIG) else { return Ok(None) };
    let Ok(of_machine) = fs::read(&target) else { return Ok(None) };
    // The first value wins in this file, but options of the command line come before it.
    let own = format!("Host *\n    ProxyCommand {PROGRAM} %h %p\n\n");
    fs::write(OWN_SSH_CONFIG, [own.into_bytes(), of_machine].concat())?;
    fs::set_permissions(OWN_SSH_CONFIG, fs::Permissions::from_mode(0o644))?;
    Ok(Some((Path::new(OWN_SSH_CONFIG), target)))
}
