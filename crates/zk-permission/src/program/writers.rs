use std::path::Path;

use super::flags::{Scanned, Until, scan};
use super::{Outcome, Tree, Unseen};
use crate::classifier::TreeWalk;
use zk_core::model::Effect;

/// Meaning of the operands of a writing program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// All operands are written.
    Written,
    /// All operands but the first are written; all of them if a file replaces the first.
    WrittenBehindMode,
    /// All operands but the last are read; the last one, or a flag, is the destination.
    Copied,
    /// Copied, and removed from their old place.
    Moved,
    /// Linked to from the destination.
    Linked,
}

/// Programs that write only the files in their arguments and start no others, with the flags that keep this
/// true.
pub(super) const WRITERS: &[(&str, Role, &str)] = &[
    ("chgrp", Role::WrittenBehindMode, OWNER),
    ("chmod", Role::WrittenBehindMode, "Rcfv --recursive --changes --silent --quiet --verbose --reference<"),
    ("chown", Role::WrittenBehindMode, OWNER),
    (
        "cp",
        Role::Copied,
        "abdfHilLnPpRrsTuvxZ S: t: --archive --force --interactive --link --dereference --no-clobber \
        --no-dereference --parents --recursive --symbolic-link --suffix= --target-directory= --no-target-directory \
        --update? --verbose --one-file-system --preserve? --no-preserve= --reflink? --sparse= --backup? \
        --remove-destination --attributes-only",
    ),
    ("link", Role::Linked, ""),
    (
        "ln",
        Role::Linked,
        "bfinrsvTLP S: t: --symbolic --force --no-dereference --relative --verbose --target-directory= \
        --no-target-directory --suffix= --backup?",
    ),
    ("mkdir", Role::Written, "pv m: --parents --verbose --mode="),
    ("mkfifo", Role::Written, "m: --mode="),
    (
        "mv",
        Role::Moved,
        "bfinTuv S: t: --force --interactive --no-clobber --suffix= --target-directory= --no-target-directory \
        --update? --verbose --backup?",
    ),
    (
        "rm",
        Role::Written,
        "dfirRvI --force --recursive --dir --verbose --one-file-system --preserve-root? --no-preserve-root \
        --interactive?",
    ),
    ("rmdir", Role::Written, "pv --parents --verbose --ignore-fail-on-non-empty"),
    ("shred", Role::Written, "fuvxz ns: --force --iterations= --size= --remove? --verbose --exact --zero"),
    ("tee", Role::Written, "aip --append --ignore-interrupts --output-error?"),
    ("touch", Role::Written, "acfmh dt: r< --no-create --date= --reference< --time= --no-dereference"),
    ("truncate", Role::Written, "co s: r< --no-create --io-blocks --size= --reference<"),
    ("unlink", Role::Written, ""),
];

const OWNER: &str = "RcfvhHLP --recursive --changes --silent --quiet --verbose --no-dereference --reference<";

/// Programs that may also write files outside of their arguments, but start no other program.
const QUIET: [&str; 8] = ["gzip", "gunzip", "bzip2", "xz", "zstd", "unzip", "csplit", "mknod"];

/// Outcome with the files that a program reads and writes.
pub(super) fn outcome(name: &str, args: &[String], why: String) -> Outcome {
    if name == "dd" {
        return dd_outcome(args, why);
    }
    let row = WRITERS.iter().find(|(known, ..)| *known == name);
    if let Some((_, role, flags)) = row
        && let Ok(scanned) = scan(flags, args, Until::Dashes)
    {
        return outcome_by_role(*role, &scanned, why);
    }
    let paths = candidates(args);
    let runs_none = row.is_some() || QUIET.contains(&name) || (name == "tar" && is_plain_archive(args));
    let unseen = if runs_none { Unseen::FILES } else { Unseen::ALL };
    // Files that are only written are not subject to read rules.
    let writes_only = row.is_some_and(|(_, role, _)| matches!(role, Role::Written | Role::WrittenBehindMode));
    let read = if writes_only { Vec::new() } else { paths.clone() };
    Outcome { unseen, ..outcome_for_files(read, paths, why) }
}

fn outcome_for_files(read: Vec<String>, written: Vec<String>, why: String) -> Outcome {
    let mut effects = vec![Effect::Writes { paths: written.into_iter().map(Into::into).collect() }];
    if !read.is_empty() {
        effects.push(Effect::Reads { paths: read.into_iter().map(Into::into).collect() });
    }
    Outcome { effects, changes: Some(why), ..Outcome::default() }
}

fn outcome_by_role(role: Role, scanned: &Scanned<'_>, why: String) -> Outcome {
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let operands = scanned.operands.as_slice();
    let recurses = scanned.has(&["r", "R", "a", "recursive", "archive"]);
    match role {
        Role::Written | Role::WrittenBehindMode => {
            let has_mode = role == Role::WrittenBehindMode && !scanned.has(&["reference"]);
            let files = operands.get(usize::from(has_mode)..).unwrap_or_default();
            let deep_writes = if recurses { own(files) } else { Vec::new() };
            Outcome { deep_writes, ..outcome_for_files(own(&scanned.reads), own(files), why) }
        }
        Role::Copied | Role::Moved | Role::Linked => {
            let named = scanned.values(&["t", "target-directory"]).last();
            let (from, to) = match (named, operands.split_last()) {
                (Some(to), _) => (operands, to),
                // `ln TARGET` creates the link in the working directory.
                (None, Some((only, []))) => (std::slice::from_ref(only), "."),
                (None, Some((to, from))) => (from, *to),
                (None, None) => (&[][..], "."),
            };
            let mut written = if to == "." { Vec::new() } else { vec![to.to_owned()] };
            let mut read = own(from);
            for source in from {
                if let Some(last) = Path::new(source).file_name() {
                    written.push(format!("{to}/{}", last.to_string_lossy()));
                }
                if scanned.has(&["parents"]) {
                    written.push(format!("{to}/{source}"));
                }
                if role == Role::Linked && !source.starts_with('/') {
                    // A relative symbolic link is resolved from its own directory.
                    let place = Path::new(to).parent().unwrap_or(Path::new(""));
                    read.push(place.join(source).to_string_lossy().into_owned());
                    read.push(format!("{to}/{source}"));
                }
            }
            if role == Role::Moved {
                written.extend(own(from));
            }
            let is_deep = recurses || role != Role::Copied;
            let walk = TreeWalk { reads_contents: true, ..TreeWalk::default() };
            let trees = from.iter().filter(|_| is_deep);
            let trees = trees.map(|root| Tree { root: (*root).to_owned(), walk }).collect();
            let mut deep_writes = if role == Role::Moved { own(from) } else { Vec::new() };
            if recurses {
                deep_writes.push(to.to_owned());
            }
            Outcome { trees, deep_writes, ..outcome_for_files(read, written, why) }
        }
    }
}

/// `dd if=A of=B`.
fn dd_outcome(args: &[String], why: String) -> Outcome {
    let known = [
        "bs", "cbs", "ibs", "obs", "count", "skip", "seek", "iseek", "oseek", "conv", "iflag", "oflag",
        "status",
    ];
    let (mut read, mut written, mut unseen) = (Vec::new(), Vec::new(), Unseen::default());
    for word in args {
        match word.split_once('=') {
            Some(("if", path)) => read.push(path.to_owned()),
            Some(("of", path)) => written.push(path.to_owned()),
            Some((name, _)) if known.contains(&name) => {}
            _ => unseen = Unseen::FILES,
        }
    }
    Outcome { unseen, ..outcome_for_files(read, written, why) }
}

/// Whether `tar` has only flags that start no program.
fn is_plain_archive(args: &[String]) -> bool {
    let has_plain_letters = |word: &str| !word.contains(['I', 'F', 'M']);
    let first = args.first().is_none_or(|word| word.starts_with('-') || has_plain_letters(word));
    first
        && args.iter().all(|word| match word.strip_prefix("--") {
            Some(long) => ["directory=", "file=", "exclude=", "strip-components="]
                .iter()
                .any(|known| long.starts_with(known)),
            None => !word.starts_with('-') || has_plain_letters(word),
        })
}

/// Words of a command line, and parts of them, that may be file names: also values of flags, joined or after
/// `=`.
fn candidates(args: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for word in args {
        if let Some((_, value)) = word.split_once('=') {
            found.push(value.to_owned());
        }
        if !word.starts_with('-') {
            found.push(word.clone());
        } else if !word.starts_with("--") {
            let ends = word.char_indices().skip(2).take(MAX_JOINED_FLAGS);
            found.extend(ends.filter_map(|(at, _)| word.get(at..)).map(str::to_owned));
        }
    }
    found
}

/// Maximum number of letters before a value in the same word, as in `tar -cvzfFILE`.
const MAX_JOINED_FLAGS: usize = 8;
