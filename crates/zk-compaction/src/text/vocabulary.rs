//! The vocabulary that tokens are counted by, where the feature `tokenizer` is on.

#[cfg(feature = "tokenizer")]
mod of_o200k {
    /// The vocabulary o200k.
    pub(crate) struct Vocabulary(&'static tiktoken::CoreBpe);

    impl Vocabulary {
        /// Whether there is one to load.
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
    /// Vocabulary where the tokenizer is not compiled in: there is none.
    pub(crate) enum Vocabulary {}

    impl Vocabulary {
        /// Whether there is one to load.
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
