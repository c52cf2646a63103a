//! Compression of search results and web pages by rules.

use super::filter::{Compressed, MIN_SIMILAR_LINES, leave_out_runs};
use super::rules::{Kind, complains};

/// Share of link lines in a page from which on the page is a list of links, which stay.
const MAX_LINK_SHARE: f64 = 0.5;

/// Minimum length in bytes of a page's line whose repetition is left out.
const MIN_REPEATED_BYTES: usize = 20;

/// Groups matching lines below the path of their file, and leaves repetitions out.
pub(super) fn compress_search(text: &str) -> Compressed {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut shown: Vec<String> = Vec::with_capacity(lines.len());
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let group = path_of_match(line).map(|path| {
            let rest = lines.iter().skip(at).take_while(|next| line_below(next, path).is_some()).count();
            (path, rest)
        });
        match group {
            Some((path, count)) if count > 1 => {
                shown.push(path.to_owned());
                let below = lines.iter().skip(at).take(count);
                shown.extend(below.filter_map(|line| line_below(line, path)).map(str::to_owned));
                at += count;
            }
            Some(_) | None => {
                shown.push((*line).to_owned());
                at += 1;
            }
        }
    }
    let noise = repeated_matches(&shown);
    leave_out_runs(&shown, &noise)
}

/// Path before the number of a matching line: of `src/a.rs:12:text` it is `src/a.rs`.
fn path_of_match(line: &str) -> Option<&str> {
    line.match_indices(':').map(|(at, _)| line.split_at(at)).find_map(|(path, rest)| {
        let number = rest.get(1..)?.split_once(':')?.0;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && !path.is_empty()).then_some(path)
    })
}

/// Rest of a line of the file `path`: `12:text` of a match, `12-text` of a line near one.
fn line_below<'a>(line: &'a str, path: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(path)?;
    let sign = rest.chars().next().filter(|sign| [':', '-'].contains(sign))?;
    let rest = rest.get(1..)?;
    let number = rest.split_once(sign)?.0;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(rest)
}

/// Marks all but the first of consecutive matches with the same text.
fn repeated_matches(lines: &[String]) -> Vec<Option<Kind>> {
    let text = |line: &String| {
        let (number, text) = line.split_once(':')?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && !complains(text)).then(|| text.trim().to_owned())
    };
    let texts: Vec<Option<String>> = lines.iter().map(text).collect();
    let mut noise = vec![None; lines.len()];
    let mut at = 0;
    while at < texts.len() {
        let first = texts.get(at).cloned().flatten();
        let alike =
            texts.iter().skip(at).take_while(|next| first.is_some() && **next == first).count().max(1);
        if alike >= MIN_SIMILAR_LINES {
            noise.iter_mut().skip(at + 1).take(alike - 1).for_each(|one| *one = Some(Kind::Repeated));
        }
        at += alike;
    }
    noise
}

/// Leaves links for moving around and repetitions out of a page. A page that is mostly links stays as it is.
pub(super) fn compress_page(text: &str) -> Compressed {
    let shown: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let links: usize = shown.iter().filter(|line| is_link(line)).map(String::len).sum();
    let is_list = links as f64 > text.len() as f64 * MAX_LINK_SHARE;
    let mut seen = std::collections::HashSet::new();
    let noise: Vec<Option<Kind>> = shown
        .iter()
        .map(|line| {
            let line = line.trim();
            let is_again =
                line.len() >= MIN_REPEATED_BYTES && !seen.insert(line.to_owned()) && !complains(line);
            if is_link(line) && !is_list {
                Some(Kind::Navigation)
            } else {
                is_again.then_some(Kind::Repeated)
            }
        })
        .collect();
    leave_out_runs(&shown, &noise)
}

/// Whether a line is a link or an image and nothing else.
fn is_link(line: &str) -> bool {
    let line = line.trim().trim_start_matches(['-', '*', '•']).trim_start();
    let line = line.strip_prefix('!').unwrap_or(line);
    let Some(rest) = line.strip_prefix('[') else { return false };
    rest.ends_with(')') && rest.matches("](").count() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_stand_below_the_path_of_their_file_and_no_line_is_lost() {
        let text = "src/deep/a.rs:1:fn a\nsrc/deep/a.rs-2-}\nsrc/deep/a.rs:12:fn b: u8\n--\nsrc/b.rs:3:x\n\
                    (2 more: offset 3)";
        let made = compress_search(text);
        assert_eq!(
            made.text,
            "src/deep/a.rs\n1:fn a\n2-}\n12:fn b: u8\n--\nsrc/b.rs:3:x\n(2 more: offset 3)"
        );
        assert_eq!(made.left_out_lines(), 0);
    }

    #[test]
    fn repeated_matches_are_left_out_and_errors_are_kept() {
        let text: String = (1..=20).map(|n| format!("gen.rs:{n}:use super::*;\n")).collect();
        let made = compress_search(&text);
        assert_eq!(
            made.text,
            "gen.rs\n1:use super::*;\n[… 18 lines left out: repetitions]\n20:use super::*;\n"
        );
        let errors: String = (1..=20).map(|n| format!("log:{n}:error: x\n")).collect();
        assert_eq!(compress_search(&errors).left_out_lines(), 0);
    }

    #[test]
    fn links_around_a_text_are_left_out_and_a_page_of_links_is_kept() {
        let links: String = (0..12).map(|n| format!("- [Page {n}](https://example.com/{n})\n")).collect();
        let text = "What it does, in many words that matter to somebody. ".repeat(40);
        let made = compress_page(&format!("[head]\n{links}{text}\n[A](b) is meant"));
        assert!(made.text.contains("11 lines left out: links of the page"), "{}", made.text);
        assert!(made.text.contains(&text) && made.text.ends_with("[A](b) is meant"));
        assert_eq!(compress_page(&format!("[head]\n{links}")).left_out_lines(), 0);
    }

    #[test]
    fn a_block_that_is_on_a_page_twice_is_left_out_once() {
        let block: String = (0..8).map(|n| format!("Some words of a footer, line {n}\n")).collect();
        let made = compress_page(&format!("{block}Between them is the text.\n{block}"));
        assert_eq!(made.left_out_lines(), 7, "{}", made.text);
        assert!(made.text.contains("Between them is the text."));
    }
}
