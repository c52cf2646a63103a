use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use serde_json::{Value, json};
use zk_core::model::{Effect, Effects};
use zk_core::service::{FileKind, Files};

/// Maximum number of a call's words that are checked for files.
const MAX_WORDS: usize = 256;

/// Maximum number of directories among the words, such as after `cd`, in which the other words are looked up.
const MAX_DIRECTORIES: usize = 4;

/// Maximum size of the programs and scripts of a remembered call, in bytes.
const MAX_SCRIPT_BYTES: u64 = 1 << 20;

/// Ends of the names of files that other programs run.
const SCRIPT_ENDS: [&str; 16] = [
    ".awk", ".bash", ".bat", ".js", ".lua", ".mjs", ".mk", ".php", ".pl", ".ps1", ".py", ".r", ".rb", ".sed",
    ".sh", ".ts",
];

/// Programs that run their file argument, whatever its name.
const INTERPRETERS: [&str; 20] = [
    ".", "awk", "bash", "bun", "dash", "deno", "fish", "gawk", "just", "ksh", "lua", "make", "node", "perl",
    "php", "python", "python3", "ruby", "sh", "source",
];

/// Programs and scripts of the workspace named by a call, with their bytes, as JSON; `None` if there are
/// none. The error means that they are too large.
pub(super) fn named_scripts(
    files: &dyn Files,
    cwd: &Path,
    args: &Value,
    effects: &Effects,
) -> Result<Option<Value>, TooLarge> {
    let words = words_of_call(args, effects);
    let runs_any = words.iter().any(|word| INTERPRETERS.contains(&word.rsplit('/').next().unwrap_or(word)));
    let kind = |directory: &Path, word: &str| {
        let at = files.resolve(directory, word).ok()?;
        let stat = files.stat(&at).ok()?;
        Some((at, stat))
    };
    let mut places = vec![cwd.to_owned()];
    for word in words.iter().filter(|word| !word.starts_with('-')) {
        if places.len() > MAX_DIRECTORIES {
            break;
        }
        if kind(cwd, word).is_some_and(|(_, stat)| stat.kind == FileKind::Directory) {
            places.push(cwd.join(PathBuf::from(word)));
        }
    }
    let mut left = MAX_SCRIPT_BYTES;
    let mut found = Vec::new();
    for word in &words {
        for place in &places {
            let Some((at, stat)) = kind(place, word).filter(|(_, stat)| stat.kind == FileKind::File) else {
                continue;
            };
            let is_named = runs_any || SCRIPT_ENDS.iter().any(|end| word.ends_with(end));
            let Ok(mut reader) = files.open(&at, None) else { continue };
            let mut bytes = Vec::new();
            if reader.by_ref().take(4).read_to_end(&mut bytes).is_err() {
                continue;
            }
            if !is_named && !bytes.starts_with(b"#!") && !bytes.starts_with(b"\x7fELF") {
                continue;
            }
            if stat.len > left || reader.take(left + 1).read_to_end(&mut bytes).is_err() {
                return Err(TooLarge);
            }
            left = left.checked_sub(bytes.len() as u64).ok_or(TooLarge)?;
            let place = place.strip_prefix(cwd).unwrap_or(place).to_string_lossy().into_owned();
            let bytes = base64::engine::general_purpose::STANDARD_NO_PAD.encode(&bytes);
            found.push(json!([place, word, bytes]));
        }
    }
    Ok((!found.is_empty()).then_some(Value::Array(found)))
}

/// Error: programs of a call are too large to be remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Words of a call's commands, without quotes, operators and duplicates. For an argv, the words of its texts.
fn words_of_call(args: &Value, effects: &Effects) -> Vec<String> {
    let Effects::Known { list } = effects else { return Vec::new() };
    let mut found: Vec<String> = Vec::new();
    let mut add = |text: &str| {
        let parts = text.split(|c: char| c.is_whitespace() || "\"'`|&;<>(){}$=".contains(c));
        for part in parts.filter(|part| !part.is_empty()) {
            if found.len() < MAX_WORDS && !found.iter().any(|known| known == part) {
                found.push(part.to_owned());
            }
        }
    };
    let mut runs = false;
    for effect in list {
        if let Effect::Executes { command, argv } = effect {
            runs = true;
            command.iter().chain(argv).for_each(|text| add(text));
        }
    }
    if runs && let Some(command) = args.get("command").and_then(Value::as_str) {
        add(command);
    }
    found
}
