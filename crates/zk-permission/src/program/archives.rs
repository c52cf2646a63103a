use super::flags::{Scanned, Until, scan};
use super::{Outcome, asks_about_itself};

/// Compressors, which write files unless one of the last column's flags is given: name, all flags, and these
/// flags.
const COMPRESSORS: &[(&str, &str, &[&str])] = &[
    ("bunzip2", "ctqskv --stdout --test --quiet --verbose", &TO_OUTPUT),
    ("bzip2", "dctqskv1 --decompress --stdout --test --quiet --verbose", &TO_OUTPUT),
    ("gunzip", "cltqvnN --stdout --to-stdout --list --test --quiet --verbose", &TO_OUTPUT),
    (
        "gzip",
        "dcltqvnN123456789 --decompress --uncompress --stdout --to-stdout --list --test --quiet --verbose",
        &TO_OUTPUT,
    ),
    ("unxz", "cltqv --stdout --to-stdout --list --test --quiet --verbose", &TO_OUTPUT),
    ("unzip", "lptvZq1 ", &["l", "p", "t", "v", "Z"]),
    (
        "xz",
        "dcltqv123456789 --decompress --uncompress --stdout --to-stdout --list --test --quiet --verbose",
        &TO_OUTPUT,
    ),
];

const TO_OUTPUT: [&str; 7] = ["c", "l", "t", "stdout", "to-stdout", "list", "test"];
const TO_STDOUT: [&str; 3] = ["c", "stdout", "to-stdout"];

/// Outcome for archive programs that only list or print contents; `None` for any other use.
pub(super) fn outcome(name: &str, args: &[String]) -> Option<Outcome> {
    if name == "tar" {
        return listed_tar(args);
    }
    let (_, flags, harmless) = COMPRESSORS.iter().find(|(known, ..)| *known == name)?;
    if asks_about_itself(args) {
        return Some(Outcome::default());
    }
    let scanned = scan(flags, args, Until::Dashes).ok()?;
    let files = match scanned.operands.split_first() {
        // After the archive come names of files in it.
        Some((archive, _)) if name == "unzip" => std::slice::from_ref(archive),
        _ => scanned.operands.as_slice(),
    };
    // The last flag for a mode of operation wins, and unpacking writes and deletes files.
    let unpacks = matches!(name, "bzip2" | "xz") && scanned.has(&["d", "decompress", "uncompress"]);
    let harmless = if unpacks { TO_STDOUT.as_slice() } else { harmless };
    scanned.has(harmless).then(|| Outcome::reads(files.iter().copied()))
}

/// `tar tf FILE` in its three spellings.
fn listed_tar(args: &[String]) -> Option<Outcome> {
    let (first, rest) = args.split_first()?;
    let has_letters = |word: &str| !word.is_empty() && word.bytes().all(|byte| b"tvzjJfa".contains(&byte));
    // Letters without a dash take their values from the following words, in order.
    let owned: Vec<String> = match first {
        letters if has_letters(letters) => {
            std::iter::once(format!("-{letters}")).chain(rest.iter().cloned()).collect()
        }
        _ => args.to_vec(),
    };
    if owned.first().is_some_and(|word| {
        word.starts_with("-") && !word.starts_with("--") && word.trim_end_matches('f').contains('f')
    }) {
        return None;
    }
    let scanned: Scanned<'_> =
        scan("tvzjJa f: --list --verbose --gzip --bzip2 --xz --auto-compress --file=", &owned, Until::Dashes)
            .ok()?;
    let archives: Vec<&str> = scanned.values(&["f", "file"]).collect();
    match archives.as_slice() {
        // A name with a colon is a file on another machine.
        [archive] if scanned.has(&["t", "list"]) && !archive.contains(':') => {
            Some(Outcome::reads([*archive]))
        }
        _ => None,
    }
}
