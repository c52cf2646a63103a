/// Margin of the agent's actions. Text to copy has none.
pub(crate) const MARGIN: &str = "  ";

/// Level of detail of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Parts that matter in passing.
    Short,
    /// All that the block holds.
    All,
}

impl Detail {
    pub(super) fn row_limit(self, short: usize) -> usize {
        match self {
            Self::Short => short,
            Self::All => usize::MAX,
        }
    }
}
