/// Form of a notice to a person who is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoticeForm {
    /// No notification.
    None,
    /// Bell only.
    #[default]
    Bell,
    /// `OSC 9`: iTerm2, WezTerm, Ghostty, Windows Terminal.
    Osc9,
    /// `OSC 777`: foot, urxvt, terminals of VTE.
    Osc777,
    /// `OSC 99`: kitty.
    Osc99,
}

/// Maximum length of a notice in characters.
const MAX_NOTICE_CHARS: usize = 120;

/// Control sequence of a notification; within tmux it is wrapped for the outer terminal.
pub(crate) fn notice_sequence(notices: NoticeForm, in_tmux: bool, text: &str) -> String {
    let text: String = zk_view::sanitise(text)
        .chars()
        .map(|c| if c.is_control() || c == ';' { ' ' } else { c })
        .take(MAX_NOTICE_CHARS)
        .collect();
    let sequence = match notices {
        NoticeForm::None => return String::new(),
        NoticeForm::Bell => return "\u{7}".to_owned(),
        NoticeForm::Osc9 => format!("\u{1b}]9;{text}\u{1b}\\"),
        NoticeForm::Osc777 => format!("\u{1b}]777;notify;zk;{text}\u{1b}\\"),
        NoticeForm::Osc99 => format!("\u{1b}]99;;{text}\u{1b}\\"),
    };
    if in_tmux {
        // Outside of the wrapped sequence, the bell marks the window in tmux itself.
        let inner = sequence.replace('\u{1b}', "\u{1b}\u{1b}");
        return format!("\u{1b}Ptmux;{inner}\u{1b}\\\u{7}");
    }
    sequence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_can_end_its_notification_or_start_another() {
        for notices in [NoticeForm::Osc9, NoticeForm::Osc777, NoticeForm::Osc99] {
            let told = notice_sequence(notices, false, "a\u{1b}\\b;c\u{7}\u{9c}d\ne");
            assert_eq!(told.matches('\u{1b}').count(), 2, "{told:?}");
            assert!(!told.contains(['\u{7}', '\u{9c}', '\n']), "{told:?}");
            assert!(told.len() < 60);
        }
        assert_eq!(notice_sequence(NoticeForm::Bell, true, "x"), "\u{7}");
        assert_eq!(notice_sequence(NoticeForm::None, true, "x"), "");
        assert_eq!(
            notice_sequence(NoticeForm::Osc9, true, "x"),
            "\u{1b}Ptmux;\u{1b}\u{1b}]9;x\u{1b}\u{1b}\\\u{1b}\\\u{7}"
        );
    }
}
