use std::fmt;
use std::fs::{self, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags, fchmod, fstat, openat};
use rustix::process::{Pid, geteuid, test_kill_process};
use zk_core::service::make_private_dir;

use super::{FOR_OTHERS, OTHERS_WRITE};

/// Maximum number of state entries that are checked: the first ones show whether a restored backup has wrong
/// modes.
const MAX_ENTRIES: usize = 20_000;
/// Maximum depth of directories that are checked below a state directory.
const MAX_DEPTH: usize = 8;
/// Age from which on a half-written file counts as abandoned. Its process id proves nothing, since the writer
/// may be in a container.
const MIN_LEFT_AGE: Duration = Duration::from_secs(3600);
/// Mode bits of an owner who can use a file.
const OWNER_USES_FILE: u32 = 0o600;
/// Mode bits of an owner who can use a directory.
const OWNER_USES_DIR: u32 = 0o700;
/// Mode bits of permissions.
const PERMISSION_BITS: u32 = 0o7777;

/// Flaw of a state file or directory that keeps it from being used, or lets others use it.
///
/// It is found by [`state_flaws`]; its `Display` says what [`StateFlaw::mend`] does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFlaw {
    /// The file or directory.
    pub path: PathBuf,
    /// The flaw.
    pub kind: StateFlawKind,
}

/// Kinds of flaws of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateFlawKind {
    /// The directory is not there.
    Absent,
    /// File mode that gives access to other users, or denies it to the owner.
    Mode {
        /// Present mode.
        now: u32,
        /// Required mode.
        wanted: u32,
    },
    /// A killed writer left half a file.
    LeftOver,
    /// Another user owns it.
    Foreign {
        /// Id of that user.
        uid: u32,
    },
}

impl fmt::Display for StateFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.kind {
            StateFlawKind::Absent => write!(f, "{path} is not there: make it, for its owner alone"),
            StateFlawKind::Mode { now, wanted } => {
                let why = match (now & OTHERS_WRITE, now & FOR_OTHERS) {
                    (0, 0) => "its owner cannot use it",
                    (0, _) => "others can read it",
                    (_, _) => "others can write to it",
                };
                write!(f, "{path}: {why}: change its mode from {now:o} to {wanted:o}")
            }
            StateFlawKind::LeftOver => {
                write!(f, "{path} is half a file of a program that was killed: delete it")
            }
            StateFlawKind::Foreign { uid } => write!(
                f,
                "{path} belongs to user {uid}, perhaps since zk ran with sudo: as an administrator, \
                 `chown {} {path}` gives it back",
                geteuid().as_raw()
            ),
        }
    }
}

impl StateFlaw {
    /// Whether it is a directory that is not there, which is made once something is kept in it.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.kind == StateFlawKind::Absent
    }

    /// Whether [`StateFlaw::mend`] can do something about it.
    #[must_use]
    pub fn is_mendable(&self) -> bool {
        !matches!(self.kind, StateFlawKind::Foreign { .. })
    }

    /// Mends the flaw, and nothing else: a path that is another file by now stays as it is.
    ///
    /// # Errors
    /// The system's, or that somebody else has to mend it.
    pub fn mend(&self) -> io::Result<()> {
        match self.kind {
            StateFlawKind::Absent => make_private_dir(&self.path),
            StateFlawKind::Mode { now, wanted } => change_mode(&self.path, now, wanted),
            StateFlawKind::LeftOver if is_left_over(&self.path, &self.path.symlink_metadata()?) => {
                fs::remove_file(&self.path)
            }
            StateFlawKind::LeftOver => Ok(()),
            StateFlawKind::Foreign { .. } => {
                Err(io::Error::new(ErrorKind::PermissionDenied, "another user owns it"))
            }
        }
    }
}

/// Changes the mode of a file that still has the mode `now`, through no link.
fn change_mode(path: &Path, now: u32, wanted: u32) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match openat(CWD, path, flags, Mode::empty()) {
        Ok(file) => {
            let found = fstat(&file)?;
            if found.st_uid != geteuid().as_raw()
                || Mode::from_raw_mode(found.st_mode) != Mode::from_raw_mode(now as _)
            {
                return Err(io::Error::other("it changed meanwhile"));
            }
            Ok(fchmod(&file, Mode::from_raw_mode(wanted as _))?)
        }
        // An owner who cannot read a file can still change its mode, by its name.
        Err(rustix::io::Errno::ACCESS) if !path.symlink_metadata()?.is_symlink() => {
            fs::set_permissions(path, Permissions::from_mode(wanted))
        }
        Err(error) => Err(error.into()),
    }
}

/// Finds flaws of the directory of state `dir`, and of its `entries` with all that is below them. What stands in an
/// entry of `opaque` is not looked at. Blocks on the disk.
#[must_use]
pub fn state_flaws(dir: &Path, entries: &[PathBuf], opaque: &[PathBuf]) -> Vec<StateFlaw> {
    let mut search = Search { flaws: Vec::new(), left: MAX_ENTRIES, opaque };
    match dir.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // A directory below one of another user is for that user to make.
            let parent = dir.ancestors().find_map(|above| above.symlink_metadata().ok());
            if parent.is_some_and(|parent| parent.uid() == geteuid().as_raw()) {
                search.add(dir, StateFlawKind::Absent);
            }
            return search.flaws;
        }
        Err(_) => return search.flaws,
        // A directory that is shared with other programs may be open to others: its entries are not.
        Ok(found) if found.is_dir() => {
            search.check_mode(dir, &found, (OTHERS_WRITE, OWNER_USES_DIR));
        }
        Ok(_) => {}
    }
    for entry in entries {
        search.check_path(entry, 0);
    }
    search.flaws
}

struct Search<'a> {
    flaws: Vec<StateFlaw>,
    left: usize,
    opaque: &'a [PathBuf],
}

impl Search<'_> {
    fn add(&mut self, path: &Path, kind: StateFlawKind) {
        self.flaws.push(StateFlaw { path: path.to_owned(), kind });
    }

    fn check_path(&mut self, path: &Path, depth: usize) {
        let Some(left) = self.left.checked_sub(1) else { return };
        self.left = left;
        let Ok(found) = path.symlink_metadata() else { return };
        if found.is_file() && is_left_over(path, &found) {
            return self.add(path, StateFlawKind::LeftOver);
        }
        if !found.is_file() && !found.is_dir() {
            return;
        }
        // Inside a private directory, only write access of others is a flaw.
        let refused = if depth == 0 { FOR_OTHERS } else { OTHERS_WRITE };
        let uses = if found.is_dir() { OWNER_USES_DIR } else { OWNER_USES_FILE };
        self.check_mode(path, &found, (refused, uses));
        if found.is_dir() && depth < MAX_DEPTH && !self.opaque.iter().any(|opaque| opaque == path) {
            let mut below: Vec<PathBuf> =
                fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
            below.sort();
            below.iter().for_each(|path| self.check_path(path, depth + 1));
        }
    }

    /// Checks the owner and the mode: bits that are `refused`, and those by which the owner `uses` it.
    fn check_mode(&mut self, path: &Path, found: &Metadata, (refused, uses): (u32, u32)) {
        let now = found.mode() & PERMISSION_BITS;
        if found.uid() != geteuid().as_raw() {
            // Users of one machine share an administrator, to whom all of this is open.
            if !geteuid().is_root() {
                self.add(path, StateFlawKind::Foreign { uid: found.uid() });
            }
        } else if now & refused != 0 || now & uses != uses {
            self.add(path, StateFlawKind::Mode { now, wanted: (now & !FOR_OTHERS) | uses });
        }
    }
}

/// Whether a file is half of one that [`super::LocalStateFiles`] was writing when its process was killed.
fn is_left_over(path: &Path, found: &Metadata) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let writer = name.rsplit_once(".new-").and_then(|(_, pid)| pid.parse().ok()).and_then(Pid::from_raw);
    let Some(writer) = writer else { return false };
    let is_old = found.modified().ok().and_then(|at| at.elapsed().ok()).is_some_and(|age| age > MIN_LEFT_AGE);
    is_old && test_kill_process(writer) == Err(rustix::io::Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn flaws_of_state_are_found_told_and_mended_and_everything_else_stays() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("zk");
        let entries: Vec<PathBuf> =
            ["auth", "mcp", "plugins", "trust.json", "link", "none"].map(|name| dir.join(name)).to_vec();
        let opaque = [dir.join("plugins")];
        let found = || state_flaws(&dir, &entries, &opaque);
        assert_eq!(found(), [StateFlaw { path: dir.clone(), kind: StateFlawKind::Absent }]);
        found()[0].mend().unwrap();
        assert_eq!(found(), []);

        for name in ["auth", "mcp", "plugins"] {
            make_private_dir(&dir.join(name)).unwrap();
        }
        for (name, mode) in [
            ("auth/credentials.json", 0o600),
            ("mcp/pins.json", 0o664),
            ("mcp/read.json", 0o644),
            ("mcp/pins.json.new-1", 0o600),
            ("mcp/pins.json.new-999999998", 0o600),
            ("mcp/pins.json.new-999999999", 0o600),
            ("plugins/tool.sh", 0o777),
            ("trust.json", 0o640),
            ("other.json", 0o666),
        ] {
            fs::write(dir.join(name), name).unwrap();
            set(&dir.join(name), mode);
        }
        let long_ago = SystemTime::now() - Duration::from_secs(86_400);
        for name in ["mcp/pins.json.new-1", "mcp/pins.json.new-999999999"] {
            File::options().write(true).open(dir.join(name)).unwrap().set_modified(long_ago).unwrap();
        }
        std::os::unix::fs::symlink(dir.join("other.json"), dir.join("link")).unwrap();
        set(&dir.join("auth"), 0o755);
        set(&dir, 0o775);

        let flaws = found();
        let told: Vec<String> =
            flaws.iter().map(|flaw| flaw.to_string().replace(&*temp.path().to_string_lossy(), "")).collect();
        assert_eq!(
            told,
            [
                "/zk: others can write to it: change its mode from 775 to 700",
                "/zk/auth: others can read it: change its mode from 755 to 700",
                "/zk/mcp/pins.json: others can write to it: change its mode from 664 to 600",
                "/zk/mcp/pins.json.new-999999999 is half a file of a program that was killed: delete it",
                "/zk/trust.json: others can read it: change its mode from 640 to 600",
            ]
        );
        assert!(flaws.iter().all(StateFlaw::is_mendable));
        flaws.iter().for_each(|flaw| flaw.mend().unwrap());
        assert_eq!(found(), []);
        for (name, mode) in [("mcp/read.json", 0o644), ("plugins/tool.sh", 0o777), ("other.json", 0o666)] {
            assert_eq!(dir.join(name).metadata().unwrap().mode() & PERMISSION_BITS, mode, "{name}");
        }
        assert!(dir.join("mcp/pins.json.new-1").exists() && dir.join("mcp/pins.json.new-999999998").exists());
    }

    #[test]
    fn a_file_that_changed_after_it_was_looked_at_is_not_mended() {
        let temp = tempfile::tempdir().unwrap();
        let (file, target) = (temp.path().join("trust.json"), temp.path().join("target"));
        fs::write(&target, "").unwrap();
        set(&target, 0o664);
        fs::copy(&target, &file).unwrap();
        let [flaw] = &state_flaws(temp.path(), std::slice::from_ref(&file), &[])[..] else { panic!() };
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(&target, &file).unwrap();
        assert!(flaw.mend().is_err());
        assert_eq!(target.metadata().unwrap().mode() & PERMISSION_BITS, 0o664);
    }
}
