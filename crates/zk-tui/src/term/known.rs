use super::notice::NoticeForm;

/// Known properties of a terminal, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownTerminal {
    /// Whether the terminal reflows lines when it becomes narrower.
    pub(crate) reflows: bool,
    /// Form of the terminal's notifications; `None` if an outer terminal shows them.
    pub(crate) notices: Option<NoticeForm>,
    /// Whether it is tmux.
    pub(crate) is_tmux: bool,
}

/// Known terminals, by the prefix of the name that they report: whether they reflow, form of notifications, and
/// whether they are tmux.
const KNOWN: [(&str, bool, Option<NoticeForm>); 11] = [
    ("tmux", true, None),
    ("kitty", true, Some(NoticeForm::Osc99)),
    ("wezterm", true, Some(NoticeForm::Osc9)),
    ("iterm2", true, Some(NoticeForm::Osc9)),
    ("ghostty", true, Some(NoticeForm::Osc9)),
    ("foot", true, Some(NoticeForm::Osc777)),
    ("vte", true, Some(NoticeForm::Osc777)),
    ("alacritty", true, Some(NoticeForm::Bell)),
    ("konsole", true, Some(NoticeForm::Bell)),
    ("xterm.js", true, Some(NoticeForm::Bell)),
    ("xterm(", false, Some(NoticeForm::Bell)),
];

impl KnownTerminal {
    /// Terminal that reports this version; `None` if unknown.
    pub(crate) fn of(version: &str) -> Option<Self> {
        let version = version.to_ascii_lowercase();
        let (name, reflows, notices) = KNOWN.iter().find(|(name, _, _)| version.starts_with(name))?;
        Some(Self { reflows: *reflows, notices: *notices, is_tmux: *name == "tmux" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_recognised_by_its_reported_name() {
        for (version, reflows, notices) in [
            ("tmux 3.4", true, None),
            ("kitty(0.35.2)", true, Some(NoticeForm::Osc99)),
            ("WezTerm 20240203-110809", true, Some(NoticeForm::Osc9)),
            ("VTE(7600)", true, Some(NoticeForm::Osc777)),
            ("XTerm(379)", false, Some(NoticeForm::Bell)),
        ] {
            let known = KnownTerminal::of(version).unwrap();
            assert_eq!((known.reflows, known.notices), (reflows, notices), "{version}");
        }
        assert_eq!(KnownTerminal::of("another 1"), None);
        assert_eq!(KnownTerminal::of(""), None);
    }
}
