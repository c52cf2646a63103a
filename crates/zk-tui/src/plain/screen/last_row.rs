use zk_view::sanitise;

/// Status and end of the draft, shorter than the terminal's width.
pub(super) fn status_and_draft(status: &str, draft: &str, width: usize) -> String {
    let room = width.saturating_sub(1);
    if draft.is_empty() {
        return fitting(sanitise(status).chars(), room).0;
    }
    let draft = sanitise(draft).replace(['\n', '\t'], " ");
    let mark = if status.is_empty() { "› " } else { " › " };
    // A long status leaves up to half of the line to the draft.
    let typed = mark.chars().chain(draft.chars()).map(columns).sum::<usize>().min(width / 2);
    let (status, used) = fitting(sanitise(status).chars(), room.saturating_sub(typed));
    let (mark, of_mark) = fitting(mark.chars(), room.saturating_sub(used));
    let (end, _) = fitting(draft.chars().rev(), room.saturating_sub(used + of_mark));
    format!("{status}{mark}{}", end.chars().rev().collect::<String>())
}

/// Takes as many characters as fit, and their width.
fn fitting(text: impl Iterator<Item = char>, room: usize) -> (String, usize) {
    let mut used = 0;
    let fits = |c: &char| {
        let fits = used + columns(*c) <= room;
        used += if fits { columns(*c) } else { 0 };
        fits
    };
    (text.take_while(fits).collect(), used)
}

/// Upper bound of a character's width: non-ASCII may be two columns wide.
fn columns(c: char) -> usize {
    if c.is_ascii() { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::status_and_draft;

    #[test]
    fn the_last_line_has_room_for_the_note_and_the_end_of_what_is_typed() {
        assert_eq!(status_and_draft("waiting", "", 80), "waiting");
        assert_eq!(status_and_draft("", "some\ntext", 80), "› some text");
        assert_eq!(status_and_draft("waiting", "text", 80), "waiting › text");
        assert_eq!(status_and_draft("waiting", "0123456789", 17), "waiting › 56789");
        assert_eq!(status_and_draft("waiting for another attempt", "text", 20), "waiting for › text");
        assert_eq!(status_and_draft("waiting", "text", 5), "wa t");
        assert_eq!(status_and_draft("", "語語語", 8), "› 語語");
    }

    #[test]
    fn what_is_typed_cannot_control_the_terminal() {
        assert_eq!(status_and_draft("", "a\u{1b}[2Jb", 80), "› ab");
    }
}
