//! Vocabulary of the tokenizer, with the feature `tokenizer`.

#[cfg(feature = "tokenizer")]
mod of_o200k {
    /// The vocabulary o200k.
    pub(crate) struct Vocabulary(&'static tiktoken::CoreBpe);

    impl Vocabulary {
        /// Whether this build has a vocabulary.
        pub(crate) const EXISTS: bool = true;

        pub(crate) fn load() -> Option<Self> {
            tiktoken::get_encoding("o200k_base").map(Self)
        }

        pub(crate) fn count(&self, text: &str) -> u64 {
            self.0.count(text) as u64
        }
    }
}

#[cfg(not(feature = "tokenizer"))]
mod none {
    /// Stand-in without values for a build without the tokenizer.
    pub(crate) enum Vocabulary {}

    impl Vocabulary {
        /// Whether this build has a vocabulary.
        pub(crate) const EXISTS: bool = false;

        pub(crate) fn load() -> Option<Self> {
            None
        }

        pub(crate) fn count(&self, _: &str) -> u64 {
            match *self {}
        }
    }
}

#[cfg(not(feature = "tokenizer"))]
pub(crate) use none::Vocabulary;
#[cfg(feature = "tokenizer")]
pub(crate) use of_o200k::Vocabulary;
