/// Header of a hunk in a unified diff: of `@@ -1,2 +3 @@` (1, 2) and (3, 1).
///
/// ```
/// use zk_core::service::HunkHead;
///
/// assert_eq!(HunkHead::of("@@ -1,2 +3 @@ fn x()"), Some(HunkHead { old: (1, 2), new: (3, 1) }));
/// assert_eq!(HunkHead::of("@@"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HunkHead {
    /// First line before the change, from 1, and number of lines from there.
    pub old: (u64, u64),
    /// First line after the change, from 1, and number of lines from there.
    pub new: (u64, u64),
}

impl HunkHead {
    /// Parses a hunk header; `None` if the line is not a valid one.
    #[must_use]
    pub fn of(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("@@ ")?.split_whitespace();
        let mut range = |sign| {
            let word = words.next()?.strip_prefix(sign)?;
            let (first, count) = word.split_once(',').unwrap_or((word, "1"));
            Some((first.parse().ok()?, count.parse().ok()?))
        };
        Some(Self { old: range('-')?, new: range('+')? })
    }
}
