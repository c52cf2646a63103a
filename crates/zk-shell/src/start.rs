use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use zk_core::service::make_private_dir;
use zk_exec::PersonCommand;

use crate::ShellKind;

mod rescue;

pub(crate) use rescue::{Rescue, START_WAIT, StartChord};

/// Length of a nonce, and of the random part of a directory's name, in bytes.
const NONCE_BYTES: usize = 16;

/// Variable with the id of the instance, for the shell and its children.
pub const INSTANCE_VARIABLE: &str = "ZK_SHELL";

/// Name of the file in an instance's directory that is locked as long as the instance lives. A process id would not do:
/// it may be used again, and other containers have other ones.
const LOCK_NAME: &str = "lock";

/// Beginning of the name of a directory whose lock is not held yet.
const NEW_PREFIX: &str = "new-";

/// Age after which a directory that never got its lock belongs to a dead instance.
const MAX_NEW_AGE: Duration = Duration::from_secs(60);

/// Private directory of one zk instance, removed at its end. Directories of dead instances are removed by later ones.
#[derive(Debug)]
pub(crate) struct InstanceDir {
    pub(crate) path: PathBuf,
    /// Locked file, unlocked when the process ends in any way.
    _lock: fs::File,
}

impl InstanceDir {
    /// Creates the directory in the first of `parents` that permits it.
    pub(crate) fn create(parents: &[PathBuf]) -> io::Result<Self> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "there is no directory for state");
        for parent in parents {
            let parent = parent.join("shell");
            match make_private_dir(&parent).and_then(|()| Self::create_in(&parent)) {
                Ok(dir) => return Ok(dir),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn create_in(parent: &Path) -> io::Result<Self> {
        remove_dead_directories(parent);
        let (process, word) = (std::process::id(), random_word()?);
        let (new, path) =
            (parent.join(format!("{NEW_PREFIX}{word}")), parent.join(format!("{process}-{word}")));
        fs::DirBuilder::new().mode(0o700).create(&new)?;
        // Under its own name only with its lock, so that no other instance takes it for one of a dead instance.
        let locked = private_file(&new.join(LOCK_NAME)).and_then(|lock| {
            lock.try_lock()?;
            fs::rename(&new, &path)?;
            Ok(lock)
        });
        match locked {
            Ok(lock) => Ok(Self { path, _lock: lock }),
            Err(error) => {
                let _ = fs::remove_dir_all(&new);
                Err(error)
            }
        }
    }

    /// Writes a file that only the person can read.
    pub(crate) fn write(&self, name: &str, text: &[u8]) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        private_file(&path)?.write_all(text)?;
        Ok(path)
    }
}

impl Drop for InstanceDir {
    fn drop(&mut self) {
        // A directory that cannot be removed is removed by a later instance.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Creates a file that does not exist yet, for its owner alone.
pub(crate) fn private_file(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Removes the directories of dead instances.
fn remove_dead_directories(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if is_of_dead_instance(&entry) {
            // Another instance may remove it, too.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether nobody holds the lock of a directory, or it is too old to get its lock still.
fn is_of_dead_instance(dir: &fs::DirEntry) -> bool {
    let is_new = dir.file_name().to_string_lossy().starts_with(NEW_PREFIX);
    match fs::File::open(dir.path().join(LOCK_NAME)) {
        Ok(lock) if !is_new => lock.try_lock().is_ok(),
        Err(error) if !is_new && error.kind() != io::ErrorKind::NotFound => false,
        Ok(_) | Err(_) => {
            let age = dir.metadata().and_then(|metadata| metadata.modified()).map(|time| time.elapsed());
            age.is_ok_and(|age| age.is_ok_and(|age| age > MAX_NEW_AGE))
        }
    }
}

/// Word of random hexadecimal digits.
pub(crate) fn random_word() -> io::Result<String> {
    let mut bytes = [0; NONCE_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random bytes"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Adds the marks to a shell's start, after the person's own start files; writes the start files to `dir`.
pub(crate) fn command_with_marks(
    command: PersonCommand,
    kind: ShellKind,
    is_login: bool,
    nonce: &str,
    dir: &InstanceDir,
) -> io::Result<PersonCommand> {
    let marks = kind.marks(nonce);
    match kind {
        ShellKind::Bash => {
            let own = include_str!("scripts/bash_rc.sh")
                .replace("@LOGIN@", if is_login { "true" } else { "false" });
            dir.write("marks", marks.as_bytes())?;
            let file = dir.write("bashrc", own.as_bytes())?;
            Ok(command.arg("--rcfile").arg(file).arg("-i"))
        }
        ShellKind::Zsh => {
            let before =
                command.env.iter().find(|(name, _)| name == "ZDOTDIR").map(|(_, value)| value.clone());
            let own = include_str!("scripts/zshenv.zsh");
            let own = own.replace("@HAS_ZDOTDIR@", if before.is_some() { "true" } else { "false" });
            let quoted = quoted(before.as_deref().unwrap_or_default());
            let mut text = Vec::new();
            let mut parts = own.split("@ZDOTDIR@").peekable();
            while let Some(part) = parts.next() {
                text.extend_from_slice(part.as_bytes());
                if parts.peek().is_some() {
                    text.extend_from_slice(&quoted);
                }
            }
            text.extend_from_slice(marks.as_bytes());
            dir.write(".zshenv", &text)?;
            let command = command.env("ZDOTDIR", &dir.path);
            Ok(if is_login { command.arg("-l") } else { command }.arg("-i"))
        }
        ShellKind::Fish => {
            let file = dir.write("marks.fish", marks.as_bytes())?;
            let source = [b"source ".as_slice(), &quoted(file.as_os_str())].concat();
            let command = if is_login { command.arg("--login") } else { command };
            Ok(command.arg("--init-command").arg(OsStr::from_bytes(&source)).arg("-i"))
        }
    }
}

/// Puts a text into single quotes, for any of the shells.
fn quoted(text: &OsStr) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in text.as_bytes() {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// Returns the command of a shell without marks, as a login shell if asked for.
pub(crate) fn command_without_marks(command: PersonCommand, is_login: bool) -> PersonCommand {
    let name = command.program.file_name().map(OsStr::to_owned).unwrap_or_default();
    let dash: OsString = [OsStr::new("-"), &name].into_iter().collect();
    PersonCommand { arg0: is_login.then_some(dash), ..command }
}

#[cfg(test)]
mod tests;
