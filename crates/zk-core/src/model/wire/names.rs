use super::IdRule;
use super::ids::derive_id;

/// Length limit of a tool name that every provider accepts, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Form of the suffix that distinguishes two illegal names with equal legal forms.
const SUFFIX_RULE: IdRule = IdRule { max_len: 8, exact: true, alphanumeric: true };

/// Derives a legal tool name from an illegal one; `None` for a legal name. A model may call a tool that was
/// not offered, under a name that no provider accepts back.
pub(super) fn legal_name(name: &str) -> Option<String> {
    let is_legal = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    if !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(is_legal) {
        return None;
    }
    let stem = name.chars().map(|char| if is_legal(char) { char } else { '_' });
    let stem: String = stem.take(MAX_NAME_BYTES - SUFFIX_RULE.max_len - 1).collect();
    let stem = if stem.is_empty() { "unnamed" } else { &stem };
    Some(format!("{stem}_{}", derive_id(name, 0, SUFFIX_RULE)))
}
