use super::matching::find;
use crate::text::head;

/// Maximum number of lines of a file that are compared.
const MAX_LINES: usize = 50_000;
/// Maximum number of candidates that are compared in detail.
const MAX_COMPARED_PLACES: usize = 8;
/// Maximum number of lines that are shown.
const MAX_SHOWN_LINES: usize = 24;
/// Maximum length of each text in a detailed comparison, in bytes.
const MAX_COMPARED_BYTES: usize = 4_000;
/// Maximum compared length of a line, in bytes.
const MAX_COMPARED_LINE_BYTES: usize = 200;
/// Lowest similarity of lines that are shown.
const MIN_SIMILARITY: f64 = 0.4;

/// Lines of `content` most similar to `wanted`, numbered, if there are any.
pub(super) fn nearest(content: &[u8], wanted: &str) -> Option<String> {
    let lines = split_lines(content);
    let needle: Vec<&str> = wanted.lines().collect();
    let candidates = candidates(&lines, &needle);
    let height = needle.len().max(1);
    let close = head(wanted, MAX_COMPARED_BYTES);
    let (likeness, start) = candidates
        .into_iter()
        .map(|start| {
            let window = lines.get(start..lines.len().min(start + height)).unwrap_or_default().join("\n");
            (strsim::normalized_levenshtein(close, head(&window, MAX_COMPARED_BYTES)), start)
        })
        .max_by(|(a, x), (b, y)| a.total_cmp(b).then(y.cmp(x)))?;
    (likeness >= MIN_SIMILARITY).then(|| numbered(&lines, start, height))
}

/// Maximum number of regions that an edit's error shows.
const MAX_REGIONS: usize = 5;

/// Current lines at the positions of `wanted`, for a model whose knowledge is outdated.
pub(super) fn current_regions(content: &[u8], wanted: &[&str]) -> String {
    let mut regions: Vec<String> = Vec::new();
    for region in wanted.iter().filter_map(|wanted| region(content, wanted)) {
        if !regions.contains(&region) {
            regions.push(region);
        }
    }
    let shown = match regions.as_slice() {
        [] => return "Nothing in it is like old_string any more; read it again.".to_owned(),
        all => all.get(..MAX_REGIONS).unwrap_or(all).join("\n…\n"),
    };
    let more = match regions.len().saturating_sub(MAX_REGIONS) {
        0 => String::new(),
        more => format!("\n({more} more regions; read it again for them)"),
    };
    format!("It now reads there:\n{shown}{more}")
}

fn region(content: &[u8], wanted: &str) -> Option<String> {
    let place = find(content, wanted, "").and_then(|found| found.first.into_iter().next());
    match place {
        Some(place) => {
            let before = content.get(..place.matched.start).unwrap_or_default();
            let line = before.iter().filter(|byte| **byte == b'\n').count();
            Some(numbered(&split_lines(content), line.saturating_sub(2), wanted.lines().count() + 4))
        }
        None => nearest(content, wanted),
    }
}

fn split_lines(content: &[u8]) -> Vec<String> {
    content
        .split(|byte| *byte == b'\n')
        .take(MAX_LINES)
        .map(|line| String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned())
        .collect()
}

fn numbered(lines: &[String], start: usize, height: usize) -> String {
    let shown: Vec<String> = lines
        .iter()
        .enumerate()
        .skip(start)
        .take(height.min(MAX_SHOWN_LINES))
        .map(|(at, line)| format!("{}\t{}", at + 1, head(line, 500)))
        .collect();
    shown.join("\n")
}

/// Candidate lines for the beginning of the needle: its most distinctive lines are compared with all lines by
/// trigrams.
fn candidates(lines: &[String], needle: &[&str]) -> Vec<usize> {
    let mut telling: Vec<(usize, &str)> = needle
        .iter()
        .enumerate()
        .map(|(at, line)| (at, line.trim()))
        .filter(|(_, line)| !line.is_empty())
        .collect();
    telling.sort_by_key(|(at, line)| (std::cmp::Reverse(line.len().min(200)), *at));
    telling.truncate(3);
    let mut scores: Vec<(f64, usize)> = Vec::new();
    for (at, line) in telling {
        let wanted = trigrams(line);
        for (index, other) in lines.iter().enumerate() {
            let Some(start) = index.checked_sub(at) else { continue };
            let other = other.trim();
            if !has_comparable_length(line, other) {
                continue;
            }
            let score = dice(&wanted, other);
            if score > 0.2 {
                scores.push((score, start));
            }
        }
    }
    scores.sort_by(|(a, x), (b, y)| b.total_cmp(a).then(x.cmp(y)));
    let mut best: Vec<usize> = Vec::new();
    for (_, start) in scores {
        if !best.contains(&start) {
            best.push(start);
        }
        if best.len() == MAX_COMPARED_PLACES {
            break;
        }
    }
    best
}

/// Trigrams of a line, sorted, each once.
fn trigrams(line: &str) -> Vec<[u8; 3]> {
    // Padded, so that short lines have trigrams, too.
    let padded: Vec<u8> =
        [b' '; 2].into_iter().chain(head(line, MAX_COMPARED_LINE_BYTES).bytes()).chain([b' ']).collect();
    let mut all: Vec<[u8; 3]> = padded.windows(3).filter_map(|part| part.try_into().ok()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Dice coefficient: twice the common trigrams over the sum, from 0 to 1. Repeated trigrams of the line count
/// repeatedly, which avoids building a set for each line of the file.
fn dice(wanted: &[[u8; 3]], line: &str) -> f64 {
    let mut last = [b' '; 3];
    let (mut common, mut total) = (0_usize, 0_usize);
    for byte in head(line, MAX_COMPARED_LINE_BYTES).bytes().chain([b' ']) {
        last = [last[1], last[2], byte];
        total += 1;
        common += usize::from(wanted.binary_search(&last).is_ok());
    }
    2.0 * common.min(wanted.len()) as f64 / (wanted.len() + total) as f64
}

/// Whether the lengths of two lines allow similarity, a cheap test that excludes most pairs.
fn has_comparable_length(a: &str, b: &str) -> bool {
    let (a, b) = (a.len().min(MAX_COMPARED_LINE_BYTES), b.len().min(MAX_COMPARED_LINE_BYTES));
    a.min(b) * 6 >= a + b
}
