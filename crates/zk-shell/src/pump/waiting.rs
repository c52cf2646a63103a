use std::fs::File;
use std::path::Path;

use rustix::process::Pid;
use rustix::termios::{LocalModes, tcgetattr, tcgetpgrp};

/// Programs that edit lines and are shells, by the names of their files.
const SHELL_NAMES: [&str; 14] = [
    "ash", "bash", "csh", "dash", "elvish", "fish", "ksh", "ksh93", "mksh", "nu", "sh", "tcsh", "xonsh",
    "zsh",
];

/// Whether a shell edits a line on this terminal: `shell` itself, or another one that runs in it, has the foreground and
/// reads key by key. Without a start script this is all that tells a prompt.
pub(crate) fn edits_line(terminal: &File, shell: u32) -> bool {
    let Ok(modes) = tcgetattr(terminal) else { return false };
    if modes.local_modes.contains(LocalModes::ICANON) {
        return false;
    }
    let Ok(group) = tcgetpgrp(terminal) else { return false };
    is_of_process(group, shell) || is_shell(group)
}

fn is_of_process(group: Pid, process: u32) -> bool {
    u32::try_from(group.as_raw_nonzero().get()) == Ok(process)
}

/// Whether the program of a process is a shell; false where the system does not tell.
fn is_shell(process: Pid) -> bool {
    let program = std::fs::read_link(format!("/proc/{}/exe", process.as_raw_nonzero()));
    program.is_ok_and(|program| has_shell_name(&program))
}

fn has_shell_name(program: &Path) -> bool {
    program.file_name().and_then(|name| name.to_str()).is_some_and(|name| SHELL_NAMES.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_no_terminal_and_an_editor_no_shell() {
        assert!(!edits_line(&File::open("/dev/null").unwrap(), 1));
        assert!(has_shell_name(Path::new("/usr/bin/zsh")) && !has_shell_name(Path::new("/usr/bin/vi")));
    }
}
