//! Release of a version: one commit and one tag. Every step can be done again, and all can be undone until the tag
//! is pushed.

#![expect(clippy::disallowed_methods, reason = "tests of the task replace what takes minutes, by variables")]

mod bump;
mod changes;
mod git;
mod journal;
mod own;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use git::Git;
use journal::{Journal, Step};

use super::version::Version;
use crate::run::Run;
use crate::workspace::Workspace;

/// Variables with commands in the place of the docs, of the list for the linker and of the CI.
const DOCS_COMMAND: &str = "ZK_RELEASE_DOCS";
const ORDER_COMMAND: &str = "ZK_RELEASE_ORDER";
const CI_COMMAND: &str = "ZK_RELEASE_CI";
/// Variable with the place at which the program is to die: a step, `before:`, `inside:` or `after:` it.
const DIES_AT: &str = "ZK_RELEASE_DIES";

/// Releases a version, or goes on where a release was broken off.
pub(crate) fn run(workspace: &Workspace, version: &str, dry: bool) -> Result<()> {
    let root = workspace.root();
    let git = Git::new(root);
    let version = Version::parse(version)?.to_string();
    let mut journal = match Journal::read(root)? {
        Some(journal) if journal.version == version => {
            println!("release {version}: goes on; done before: {}", done(&journal));
            journal
        }
        Some(other) => bail!(
            "the release of {} was broken off: go on with `cargo xtask release {}`, or `cargo xtask release --undo`",
            other.version,
            other.version
        ),
        None => begin(&git, &version)?,
    };
    if dry {
        return tell(&git, &journal);
    }
    own::refuse_foreign(&git, &journal)?;
    journal.write(root)?;
    for step in Step::ALL.into_iter().filter(|step| !journal.done.contains(step)).collect::<Vec<_>>() {
        println!("\n==> {}", step.title());
        die_at("before", step);
        let left = carry_out(root, &git, &journal, step).and_then(|()| {
            die_at("after", step);
            own::left_by(&git, &journal, step)
        });
        journal.left = left.with_context(|| {
            format!(
                "{}: nothing is tagged. Go on with `cargo xtask release {version}`, or `cargo xtask release --undo`",
                step.title()
            )
        })?;
        journal.done.push(step);
        journal.write(root)?;
    }
    Journal::remove(root)?;
    println!(
        "\nrelease {version}: the commit and the tag v{version} are here. Push both, then `cargo xtask publish`."
    );
    println!("Until they are pushed, `cargo xtask release --undo {version}` takes them back.");
    Ok(())
}

/// Checks everything that can be wrong before a byte changes.
fn begin(git: &Git<'_>, version: &str) -> Result<Journal> {
    let changed = git.changed()?;
    if let Some(first) = changed.first() {
        bail!(
            "the tree is not clean, {} files differ from the commit, {first} first: commit or stash them",
            changed.len()
        );
    }
    let begun_at = git.head()?;
    let from = bump::version(git, &begun_at)?;
    let (old, new) = (Version::parse(&from)?, Version::parse(version)?);
    if git.tag(&format!("v{version}"))?.is_some() {
        bail!("there is a tag v{version}: this version was released");
    }
    let is_first = old == new && git.tag(&format!("v{from}"))?.is_none();
    if !is_first && !old.is_followed_by(&new) {
        bail!(
            "{version} does not follow {from}: raise one of its three numbers by one, and set those behind it to zero"
        );
    }
    for tag in git.text(&["tag", "--list", "v*"])?.lines() {
        // A tag of something else has a name that is no version.
        let released = tag.strip_prefix('v').and_then(|tag| Version::parse(tag).ok());
        if released.is_some_and(|released| released >= new) {
            bail!("{tag} was released, which does not come before {version}");
        }
    }
    let day =
        String::from_utf8(Run::new("date", &["-u", "+%F"], Path::new(".")).output()?)?.trim().to_owned();
    changes::gathered(git, &begun_at, version, &day)?;
    let left = git.tree_of(&begun_at)?;
    Ok(Journal { version: version.to_owned(), from, begun_at, day, done: Vec::new(), left })
}

/// Prints what a release would do.
fn tell(git: &Git<'_>, journal: &Journal) -> Result<()> {
    println!(
        "release {} after {}, on {}; nothing is changed by this dry run",
        journal.version, journal.from, journal.begun_at
    );
    for (path, _) in bump::files(git, &journal.begun_at, &journal.from, &journal.version)? {
        println!("  would write the version into {path}");
    }
    for path in changes::files(git, &journal.begun_at)? {
        println!("  would move {path} into {}", changes::CHANGELOG);
    }
    for step in Step::ALL.into_iter().filter(|step| !journal.done.contains(step)) {
        println!("  step: {}", step.title());
    }
    Ok(())
}

fn done(journal: &Journal) -> String {
    let titles: Vec<&str> = journal.done.iter().map(|step| step.title()).collect();
    if titles.is_empty() { "nothing".to_owned() } else { titles.join(", ") }
}

/// Carries out a step from its beginning, whatever was done of it before.
fn carry_out(root: &Path, git: &Git<'_>, journal: &Journal, step: Step) -> Result<()> {
    let version = &journal.version;
    match step {
        Step::Bump => {
            for (path, text) in bump::files(git, &journal.begun_at, &journal.from, version)? {
                fs::write(root.join(&path), text).with_context(|| format!("cannot write {path}"))?;
                die_at("inside", step);
            }
            // Only the versions of the own packages may change in the lock file.
            Run::cargo(&["update", "--workspace", "--offline", "--quiet"], root).wait()
        }
        Step::Changes => {
            let list = changes::gathered(git, &journal.begun_at, version, &journal.day)?;
            fs::write(root.join(changes::CHANGELOG), list)?;
            die_at("inside", step);
            for path in changes::files(git, &journal.begun_at)? {
                let path = root.join(path);
                if path.exists() {
                    fs::remove_file(path)?;
                }
            }
            Ok(())
        }
        Step::Docs => command(root, DOCS_COMMAND, &["xtask", "docs"]),
        Step::Order => command(root, ORDER_COMMAND, &["xtask", "order"]),
        Step::Ci => command(root, CI_COMMAND, &["xtask", "ci"]),
        Step::Commit => {
            if is_released(git, journal)? {
                return Ok(());
            }
            if git.head()? != journal.begun_at {
                bail!(
                    "there are commits since the release began at {}: undo it and begin again",
                    journal.begun_at
                );
            }
            git.run(&["add", "--all"])?;
            die_at("inside", step);
            own::refuse_untested(git, journal, &git.text(&["write-tree"])?)?;
            git.run(&["commit", "--quiet", "--message", &subject(version)])
        }
        Step::Tag => {
            let tag = format!("v{version}");
            own::refuse_untested(git, journal, &git.tree_of("HEAD")?)?;
            match git.tag(&tag)? {
                Some(commit) if commit == git.head()? => Ok(()),
                Some(commit) => bail!("there is a tag {tag} at {commit}"),
                None => git.run(&["tag", "--annotate", "--message", &format!("zk {version}"), &tag]),
            }
        }
    }
}

fn subject(version: &str) -> String {
    format!("release: {version}")
}

/// Whether the newest commit is that of the release.
fn is_released(git: &Git<'_>, journal: &Journal) -> Result<bool> {
    let newest = git.text(&["log", "-1", "--format=%P%n%s"])?;
    Ok(newest == format!("{}\n{}", journal.begun_at, subject(&journal.version)))
}

/// Takes back a release that was broken off, or the one of this version, as long as nobody else has its tag.
pub(crate) fn undo(workspace: &Workspace, version: Option<&str>) -> Result<()> {
    let root = workspace.root();
    let git = Git::new(root);
    let journal = match (Journal::read(root)?, version) {
        (Some(journal), version) if version.is_none_or(|version| version == journal.version) => journal,
        (Some(journal), _) => bail!("the release of {} is on its way; undo that one first", journal.version),
        (None, Some(version)) => finished(&git, version)?,
        (None, None) => bail!("no release was broken off; to take back one that ended, name its version"),
    };
    let tag = format!("v{}", journal.version);
    if let Some(remote) = git.pushed_to(&tag)? {
        bail!("{tag} was pushed to {remote}: what others have is not taken back. Release a version after it");
    }
    let released = is_released(&git, &journal)?;
    if !released && git.head()? != journal.begun_at {
        bail!("there are commits since the release began at {}: they would be lost", journal.begun_at);
    }
    let unproven = own::refuse_lost(&git, &journal)?;
    if git.tag(&tag)?.is_some_and(|commit| git.head().is_ok_and(|head| head == commit)) {
        git.run(&["tag", "--delete", &tag])?;
    }
    die_at("inside", Step::Tag);
    if unproven {
        let about = format!("of the release of {}, which was killed", journal.version);
        git.run(&["stash", "push", "--quiet", "--include-untracked", "--message", &about])?;
        println!(
            "a step was killed: what it may have written is in `git stash list`, in case somebody else did"
        );
    }
    // Indexed files go away together with their folders; all of them are of the release.
    git.run(&["add", "--all"])?;
    git.run(&["reset", "--quiet", "--hard", &journal.begun_at])?;
    if Journal::path(root).exists() {
        Journal::remove(root)?;
    }
    println!("release {}: undone, the checkout is at {} again", journal.version, journal.begun_at);
    Ok(())
}

/// Release that ended and is the newest commit.
fn finished(git: &Git<'_>, version: &str) -> Result<Journal> {
    let newest = git.text(&["log", "-1", "--format=%s"])?;
    if newest != subject(version) {
        bail!("the newest commit is not the release of {version}, but `{newest}`");
    }
    let begun_at = git.text(&["rev-parse", "HEAD^"])?;
    let from = bump::version(git, &begun_at)?;
    Ok(Journal {
        version: version.to_owned(),
        from,
        begun_at,
        day: String::new(),
        done: Step::ALL.to_vec(),
        left: git.tree_of("HEAD")?,
    })
}

/// Runs cargo, or the command that a variable has in its place.
fn command(root: &Path, variable: &str, cargo: &[&str]) -> Result<()> {
    match std::env::var(variable) {
        Ok(command) => Run::new("sh", &["-c", &command], root).wait(),
        Err(_) => Run::cargo(cargo, root).wait(),
    }
}

/// Ends the process as a kill does, where a test says so.
fn die_at(place: &str, step: Step) {
    let here = format!("{place}:{step:?}").to_lowercase();
    if std::env::var(DIES_AT).is_ok_and(|wanted| wanted == here) {
        std::process::abort();
    }
}
