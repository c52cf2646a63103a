use std::ops::Range;

/// Replacement of some bytes of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    span: Range<usize>,
    text: String,
}

impl Change {
    pub(super) fn replacing(span: Range<usize>, text: String) -> Self {
        Self { span, text }
    }

    pub(super) fn inserting(at: usize, text: String) -> Self {
        Self { span: at..at, text }
    }

    pub(super) fn removing(span: Range<usize>) -> Self {
        Self { span, text: String::new() }
    }

    /// Returns the text with this change; `None` if its bytes are not in the text.
    pub(super) fn applied_to(&self, text: &str) -> Option<String> {
        let before = text.get(..self.span.start)?;
        let after = text.get(self.span.end..)?;
        Some([before, &self.text, after].concat())
    }

    /// Joins changes that remove bytes, in the order of the text.
    pub(super) fn removing_all(mut spans: Vec<Range<usize>>) -> Vec<Self> {
        spans.sort_by_key(|span| span.start);
        let mut joined: Vec<Range<usize>> = Vec::new();
        for span in spans {
            match joined.last_mut().filter(|last| span.start <= last.end) {
                Some(last) => last.end = last.end.max(span.end),
                None => joined.push(span),
            }
        }
        joined.into_iter().map(Self::removing).collect()
    }
}
