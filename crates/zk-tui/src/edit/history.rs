use std::collections::HashSet;

/// Source of the shared history: all texts, oldest first; `None` if unchanged since the last call. Does not
/// block.
pub type Recall = Box<dyn FnMut() -> Option<Vec<String>> + Send>;

/// History of submitted texts, oldest first.
#[derive(Default)]
pub(crate) struct History {
    texts: Vec<String>,
    recall: Option<Recall>,
    /// Recalled entry, and the draft before the recall.
    shown: Option<Recalled>,
}

/// Index of the recalled text, and the draft before the recall.
pub(crate) type Recalled = (usize, String);

impl History {
    pub(crate) fn new(texts: Vec<String>) -> Self {
        Self { texts, recall: None, shown: None }
    }

    /// Sets the source of the shared history, read at the beginning of each recall.
    pub(crate) fn set_recall(&mut self, recall: Recall) {
        self.recall = Some(recall);
    }

    /// Reads the shared history, if it changed.
    pub(crate) fn refresh(&mut self) {
        let is_idle = self.shown.is_none();
        if let Some(texts) = self.recall.as_mut().filter(|_| is_idle).and_then(|recall| recall()) {
            self.texts = texts;
        }
    }

    pub(crate) fn push(&mut self, text: &str) {
        self.shown = None;
        if self.texts.last().is_none_or(|last| last != text) {
            self.texts.push(text.to_owned());
        }
    }

    /// Entry before the recalled one.
    pub(crate) fn older(&mut self, draft: &str) -> Option<&str> {
        self.refresh();
        let at = self.shown.as_ref().map_or(self.texts.len(), |(at, _)| *at).checked_sub(1)?;
        let draft = self.shown.take().map_or_else(|| draft.to_owned(), |(_, draft)| draft);
        self.shown = Some((at, draft));
        self.texts.get(at).map(String::as_str)
    }

    /// Entry after the recalled one; after the last one the draft.
    pub(crate) fn newer(&mut self) -> Option<String> {
        let (at, draft) = self.shown.take()?;
        match self.texts.get(at + 1) {
            Some(text) => {
                self.shown = Some((at + 1, draft));
                Some(text.clone())
            }
            None => Some(draft),
        }
    }

    /// Ends the recall; the recalled text is the draft from now on.
    pub(crate) fn end_recall(&mut self) {
        self.shown = None;
    }

    /// Present recall, to be restored by [`recall_again`](Self::recall_again).
    pub(crate) fn recalled(&self) -> Option<Recalled> {
        self.shown.clone()
    }

    /// Restores a recall after other texts were added.
    pub(crate) fn restore_recall(&mut self, recalled: Option<Recalled>) {
        self.shown = recalled;
    }

    /// Newest text that contains `words`, after skipping `skip` hits.
    pub(crate) fn find(&self, words: &str, skip: usize) -> Option<&str> {
        self.matches(words).nth(skip)
    }

    /// Texts that contain `words`, without duplicates, newest first.
    pub(crate) fn matches<'a>(&'a self, words: &str) -> impl Iterator<Item = &'a str> {
        let mut seen = HashSet::new();
        let newest = self.texts.iter().rev().map(String::as_str);
        newest.filter(move |text| text.contains(words) && seen.insert(*text))
    }
}
