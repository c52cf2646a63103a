use std::collections::HashSet;

/// Gives the texts that were typed before, oldest first, in other processes too; nothing if they are the same as when it
/// was asked last. It answers at once.
pub type Recall = Box<dyn FnMut() -> Option<Vec<String>> + Send>;

/// Texts that were typed before, oldest first.
#[derive(Default)]
pub(crate) struct History {
    texts: Vec<String>,
    recall: Option<Recall>,
    /// Entry that is shown, and the draft that stood there before.
    shown: Option<Recalled>,
}

/// The index of the text that is shown, and the draft that stood there before.
pub(crate) type Recalled = (usize, String);

impl History {
    pub(crate) fn new(texts: Vec<String>) -> Self {
        Self { texts, recall: None, shown: None }
    }

    /// Asks `recall` for what was typed elsewhere, whenever somebody begins to look for something.
    pub(crate) fn recall_with(&mut self, recall: Recall) {
        self.recall = Some(recall);
    }

    /// Takes in what was typed elsewhere meanwhile.
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

    /// The text before the one shown.
    pub(crate) fn older(&mut self, draft: &str) -> Option<&str> {
        self.refresh();
        let at = self.shown.as_ref().map_or(self.texts.len(), |(at, _)| *at).checked_sub(1)?;
        let draft = self.shown.take().map_or_else(|| draft.to_owned(), |(_, draft)| draft);
        self.shown = Some((at, draft));
        self.texts.get(at).map(String::as_str)
    }

    /// The text after the one shown; at the end the draft.
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

    /// Makes a draft of its own of what is typed now.
    pub(crate) fn leave(&mut self) {
        self.shown = None;
    }

    /// The text that is shown, to be given to [`recall_again`](Self::recall_again).
    pub(crate) fn recalled(&self) -> Option<Recalled> {
        self.shown.clone()
    }

    /// Shows what was shown before other texts were pushed.
    pub(crate) fn recall_again(&mut self, recalled: Option<Recalled>) {
        self.shown = recalled;
    }

    /// The newest text with `words` in it, after `skip` others.
    pub(crate) fn find(&self, words: &str, skip: usize) -> Option<&str> {
        self.hits(words).nth(skip)
    }

    /// The texts with `words` in them, each once, newest first.
    pub(crate) fn hits<'a>(&'a self, words: &str) -> impl Iterator<Item = &'a str> {
        let mut seen = HashSet::new();
        let newest = self.texts.iter().rev().map(String::as_str);
        newest.filter(move |text| text.contains(words) && seen.insert(*text))
    }
}
