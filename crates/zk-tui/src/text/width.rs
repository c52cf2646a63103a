use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Width of one grapheme: at most two columns, as terminals draw a joined emoji.
fn grapheme_columns(grapheme: &str) -> usize {
    grapheme.width().min(2)
}

/// Graphemes of a text with their columns.
pub(crate) fn graphemes(text: &str) -> impl Iterator<Item = (&str, usize)> {
    text.graphemes(true).map(|grapheme| (grapheme, grapheme_columns(grapheme)))
}

/// Width of a one-line text in columns.
pub(crate) fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { graphemes(text).map(|(_, columns)| columns).sum() }
}

/// Beginning of a text that fits in `width` columns, with an ellipsis if truncated.
pub(crate) fn clip(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let (mut kept, mut taken) = (String::new(), 0);
    for (grapheme, columns) in graphemes(text) {
        if taken + columns + 1 > width {
            break;
        }
        kept.push_str(grapheme);
        taken += columns;
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

/// Facts of a text, separated by ` · `, as many as fit in `width` columns. If the first one is too long, it is
/// cut.
pub(crate) fn fitting_facts(text: &str, width: usize) -> String {
    let ends = text.match_indices(" · ").map(|(at, _)| at).chain([text.len()]);
    let whole = ends.filter_map(|end| text.get(..end)).take_while(|part| columns(part) <= width).last();
    whole.map_or_else(|| clip(text.split(" · ").next().unwrap_or_default(), width), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_and_combined_characters_have_the_columns_that_a_terminal_gives_them() {
        for (text, expected) in [("abc", 3), ("漢字", 4), ("e\u{301}", 1), ("👩\u{200d}🚀", 2), ("", 0)]
        {
            assert_eq!(columns(text), expected, "{text}");
        }
    }

    #[test]
    fn a_clipped_text_fits_whatever_the_width() {
        for width in 0..12 {
            for text in ["plain words", "漢字漢字漢字", "👩\u{200d}🚀👩\u{200d}🚀👩\u{200d}🚀👩\u{200d}🚀"]
            {
                assert!(columns(&clip(text, width)) <= width, "{text} in {width}");
            }
        }
        assert_eq!(clip("漢字漢字", 5), "漢字…");
    }

    #[test]
    fn facts_that_do_not_fit_are_left_out_whole() {
        let text = "in use · $3 in $15 out per M · 200k";
        assert_eq!(fitting_facts(text, 80), text);
        assert_eq!(fitting_facts(text, 30), "in use · $3 in $15 out per M");
        assert_eq!(fitting_facts(text, 27), "in use");
        assert_eq!(fitting_facts("a long purpose", 8), "a long …");
    }
}
