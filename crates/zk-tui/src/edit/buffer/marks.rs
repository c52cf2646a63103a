use super::Buffer;

/// Marks in a text for folded pastes and attachments.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    /// Known marks, each with the text that it stands for.
    known: Vec<(String, String)>,
    /// Number of the last paste's mark. Numbers are not reused.
    pastes: usize,
}

impl Marks {
    /// Adds a mark for a pasted text; `size` is its length in words, such as `12 lines`.
    pub(super) fn add_paste(&mut self, size: &str, text: String) -> String {
        self.pastes += 1;
        let mark = format!("[paste {}: {size}]", self.pastes);
        self.known.push((mark.clone(), text));
        mark
    }

    /// Adds the mark of an attachment, which has no text.
    pub(super) fn add_attachment(&mut self, mark: &str) {
        if self.known.iter().all(|(known, _)| known != mark) {
            self.known.push((mark.to_owned(), mark.to_owned()));
        }
    }

    /// Drops pastes whose marks occur in none of the texts.
    pub(super) fn retain_used_in(&mut self, texts: &[String]) {
        let is_kept = |mark: &str| texts.iter().any(|text| text.contains(mark));
        self.known.retain(|(mark, content)| mark == content || is_kept(mark));
    }

    /// First mark in a text: position, mark and its text.
    fn first_in(&self, text: &str) -> Option<(usize, &str, &str)> {
        let places = self.known.iter().filter_map(|(mark, content)| {
            let at = text.find(mark.as_str())?;
            Some((at, mark.as_str(), content.as_str()))
        });
        places.min_by_key(|(at, _, _)| *at)
    }

    /// Replaces the marks in a text by what they stand for.
    pub(super) fn expand(&self, text: &str) -> String {
        let (mut out, mut rest) = (String::new(), text);
        while let Some((at, mark, content)) = self.first_in(rest) {
            out.push_str(rest.get(..at).unwrap_or_default());
            out.push_str(content);
            rest = rest.get(at + mark.len()..).unwrap_or_default();
        }
        out + rest
    }

    /// Range of the mark that contains the byte `at`.
    fn range_around(&self, text: &str, at: usize) -> Option<(usize, usize)> {
        let mut from = 0;
        while let Some((place, mark, _)) = self.first_in(text.get(from..)?) {
            let (begin, end) = (from + place, from + place + mark.len());
            if begin >= at {
                return None;
            }
            if at < end {
                return Some((begin, end));
            }
            from = end;
        }
        None
    }
}

/// Positions between units of a text: a unit is a grapheme or a mark.
impl Buffer {
    /// Moves `at` to the start of the mark that contains it.
    pub(super) fn start_of_mark(&self, at: usize) -> usize {
        self.marks.range_around(&self.text, at).map_or(at, |(begin, _)| begin)
    }

    /// Moves `at` to the end of the mark that contains it.
    pub(super) fn end_of_mark(&self, at: usize) -> usize {
        self.marks.range_around(&self.text, at).map_or(at, |(_, end)| end)
    }

    /// Start of the mark that ends at the caret.
    pub(super) fn mark_before(&self) -> Option<usize> {
        let before = self.caret.checked_sub(1)?;
        self.marks
            .range_around(&self.text, before)
            .filter(|(_, end)| *end == self.caret)
            .map(|(begin, _)| begin)
    }

    /// End of the mark that starts at the caret.
    pub(super) fn mark_after(&self) -> Option<usize> {
        let (begin, end) = self.marks.range_around(&self.text, self.caret + 1)?;
        (begin == self.caret).then_some(end)
    }
}
