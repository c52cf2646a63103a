/// The longest beginning of `text` of at most `max` bytes that ends between two characters.
pub(crate) fn head(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or(text)
}

/// The longest end of `text` of at most `max` bytes that begins between two characters.
pub(crate) fn tail(text: &str, max: usize) -> &str {
    text.get(text.ceil_char_boundary(text.len().saturating_sub(max))..).unwrap_or(text)
}

/// The first line, shortened for a summary.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let short = head(line, max);
    if short.len() < text.trim().len() { format!("{short}…") } else { short.to_owned() }
}

/// `1 line`, `2 lines`.
pub(crate) fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// A size for people.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = "KB";
    for next in UNITS.into_iter().skip(1) {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

/// Whether the beginning of a file says that it is no text: a NUL, or a tenth of it not UTF-8.
pub(crate) fn is_binary(start: &[u8]) -> bool {
    let start = start.get(..8192).unwrap_or(start);
    if start.contains(&0) {
        return true;
    }
    let bad: usize = start.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    bad > 3 && bad * 10 > start.len()
}
