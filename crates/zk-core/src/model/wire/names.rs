use super::IdRule;
use super::ids::derive;

/// Longest name that every provider accepts, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Rule for the mark that tells apart two names that look the same once they are legal.
const MARK: IdRule = IdRule { max_len: 8, exact: true, alphanumeric: true };

/// A legal name made of an illegal one; nothing for a legal one. A model may call for a tool nobody offered,
/// under a name that no provider takes back.
pub(super) fn mended(name: &str) -> Option<String> {
    let is_legal = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    if !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(is_legal) {
        return None;
    }
    let stem = name.chars().map(|char| if is_legal(char) { char } else { '_' });
    let stem: String = stem.take(MAX_NAME_BYTES - MARK.max_len - 1).collect();
    let stem = if stem.is_empty() { "unnamed" } else { &stem };
    Some(format!("{stem}_{}", derive(name, 0, MARK)))
}
