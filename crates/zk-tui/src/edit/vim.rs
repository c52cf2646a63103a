use super::Buffer;
use crate::keys::{Direction, Key};

/// vi key bindings: mode and pending operator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vim {
    is_normal: bool,
    /// Pending operator `d`, `c`, `y` or `g`.
    operator: Option<char>,
    count: usize,
}

impl Vim {
    /// Whether the mode is normal mode.
    pub(crate) fn is_normal(&self) -> bool {
        self.is_normal
    }

    /// Whether the next key begins a command.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_normal && self.operator.is_none() && self.count == 0
    }

    /// Table of the vi commands.
    pub(crate) fn help() -> Vec<(String, &'static str)> {
        let commands = [
            ("i a I A o O", "type: here, behind, at the beginning or end of the line, on a new one"),
            ("h l 0 ^ $", "left, right, to the beginning or end of the line"),
            ("w b e", "a word on, back, to its end"),
            ("j k gg G", "a line down or up, to the first or last one"),
            ("x X", "take away a character: here, before"),
            ("d c y", "cut, change, copy: with w, b, e, $ or 0, or twice for the line"),
            ("D C S", "cut or change the rest of the line, change all of it"),
            ("p P", "put in what was cut: behind, here"),
            ("u", "undo"),
            ("2 … 9", "repeat the next command"),
            ("Enter", "send; during a run: steer it"),
            ("Esc", "stop the run; what is typed stays"),
        ];
        commands.into_iter().map(|(keys, what)| (keys.to_owned(), what)).collect()
    }

    /// Switches to insert mode.
    pub(crate) fn enter_insert_mode(&mut self) {
        *self = Self::default();
    }

    /// Handles a key; returns the key for the editor if vi does not use it.
    pub(crate) fn press(&mut self, key: &Key, buffer: &mut Buffer) -> Option<Key> {
        match (self.is_normal, key) {
            (false, Key::Escape) if !buffer.is_empty() => {
                self.is_normal = true;
                buffer.left_in_line();
                None
            }
            (true, Key::Escape) if self.operator.is_some() || self.count > 0 => {
                (self.operator, self.count) = (None, 0);
                None
            }
            (true, Key::Char(c)) => self.command(*c, buffer),
            (true, Key::Back) => Some(Key::Move { to: Direction::Left, word: false }),
            (_, key) => Some(key.clone()),
        }
    }

    fn command(&mut self, c: char, buffer: &mut Buffer) -> Option<Key> {
        if let Some(digit) = c.to_digit(10).filter(|digit| *digit > 0 || self.count > 0) {
            self.count = (self.count * 10 + digit as usize).min(999);
            return None;
        }
        let times = std::mem::take(&mut self.count).max(1);
        if let Some(operator) = self.operator.take() {
            self.apply_operator(operator, c, times, buffer);
            return None;
        }
        let moved = |to| Some(Key::Move { to, word: false });
        match c {
            'h' => (0..times).for_each(|_| buffer.move_left(false)),
            'l' | ' ' => (0..times).for_each(|_| buffer.move_right(false)),
            'w' | 'W' => (0..times).for_each(|_| buffer.go_to_next_word()),
            'b' | 'B' => (0..times).for_each(|_| buffer.move_left(true)),
            'e' | 'E' => (0..times).for_each(|_| buffer.move_right(true)),
            '0' | '^' => buffer.move_to_line_start(),
            '$' => buffer.move_to_line_end(),
            'G' => buffer.go_to_end(),
            // On the first and last line they walk through the history.
            'j' => return moved(Direction::Down),
            'k' => return moved(Direction::Up),
            'x' => (0..times).for_each(|_| buffer.kill_grapheme()),
            'X' => (0..times).for_each(|_| buffer.delete_before()),
            'D' => buffer.kill_to_line_end(),
            'p' => {
                buffer.move_right(false);
                (0..times).for_each(|_| buffer.yank());
            }
            'P' => (0..times).for_each(|_| buffer.yank()),
            'u' => (0..times).for_each(|_| buffer.undo()),
            'd' | 'c' | 'y' | 'g' => {
                (self.operator, self.count) = (Some(c), if times > 1 { times } else { 0 })
            }
            'i' => self.enter_insert_mode(),
            'a' => {
                buffer.move_right(false);
                self.enter_insert_mode();
            }
            'I' => {
                buffer.move_to_line_start();
                self.enter_insert_mode();
            }
            'A' => {
                buffer.move_to_line_end();
                self.enter_insert_mode();
            }
            'o' => {
                buffer.move_to_line_end();
                buffer.insert("\n");
                self.enter_insert_mode();
            }
            'O' => {
                buffer.move_to_line_start();
                buffer.insert("\n");
                buffer.move_left(false);
                self.enter_insert_mode();
            }
            'C' => {
                buffer.kill_to_line_end();
                self.enter_insert_mode();
            }
            'S' => self.apply_operator('c', 'c', times, buffer),
            _ => {}
        }
        None
    }

    fn apply_operator(&mut self, operator: char, about: char, times: usize, buffer: &mut Buffer) {
        let known = match (operator, about) {
            ('g', 'g') => {
                buffer.go_to_start();
                return;
            }
            (_, 'w' | 'e') => {
                let count = buffer.words_ahead(times, about == 'w' && operator != 'c');
                buffer.kill_ahead(count);
                true
            }
            (_, 'b') => {
                (0..times).for_each(|_| buffer.kill_word());
                true
            }
            (_, '$') => {
                buffer.kill_to_line_end();
                true
            }
            (_, '0' | '^') => {
                buffer.kill_to_start();
                true
            }
            (operator, about) if operator == about && operator != 'g' => {
                buffer.kill_line(operator != 'd');
                true
            }
            _ => false,
        };
        match (operator, known) {
            ('y', true) => buffer.undo(),
            ('c', true) => self.enter_insert_mode(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text and caret after keys; `\x1b` is Escape.
    fn text_after_keys(text: &str, keys: &str) -> (String, usize) {
        let (mut buffer, mut vim) = (Buffer::default(), Vim::default());
        buffer.set(text);
        for c in keys.chars() {
            let key = if c == '\u{1b}' { Key::Escape } else { Key::Char(c) };
            match vim.press(&key, &mut buffer) {
                Some(Key::Char(c)) => buffer.insert(&c.to_string()),
                Some(Key::Move { to: Direction::Up, .. }) => _ = buffer.move_up(),
                Some(Key::Move { to: Direction::Down, .. }) => _ = buffer.move_down(),
                Some(_) | None => {}
            }
        }
        (buffer.text().to_owned(), buffer.before_caret().chars().count())
    }

    #[test]
    fn the_usual_commands_of_vi_move_and_change_the_text() {
        for (text, keys, expected, caret) in [
            ("one two", "\u{1b}", "one two", 6),
            ("one two", "\u{1b}0x", "ne two", 0),
            ("one two three", "\u{1b}0dw", "two three", 0),
            ("one two three", "\u{1b}02dw", "three", 0),
            ("one two three", "\u{1b}0wcwsix\u{1b}", "one six three", 6),
            ("one two", "\u{1b}0wD", "one ", 4),
            ("one two", "\u{1b}0Cnew", "new", 3),
            ("a\nb\nc", "\u{1b}kdd", "a\nc", 2),
            ("a\nb", "\u{1b}ccx", "a\nx", 3),
            ("ab", "\u{1b}0ix", "xab", 1),
            ("ab", "\u{1b}0ax", "axb", 2),
            ("ab", "\u{1b}Ax", "abx", 3),
            ("ab", "\u{1b}ox", "ab\nx", 4),
            ("ab", "\u{1b}Ox", "x\nab", 1),
            ("one two", "\u{1b}0dwu", "one two", 0),
            ("one two", "\u{1b}0dwp", "tone wo", 5),
            ("a\nb\nc", "\u{1b}gg", "a\nb\nc", 0),
            ("a\nb\nc", "\u{1b}ggG", "a\nb\nc", 5),
            ("one two", "\u{1b}0yw$p", "one twoone ", 11),
            ("漢字 x", "\u{1b}0x", "字 x", 0),
            ("", "\u{1b}x", "x", 1),
        ] {
            assert_eq!(text_after_keys(text, keys), (expected.to_owned(), caret), "{text:?} {keys:?}");
        }
    }

    #[test]
    fn any_keys_leave_a_valid_text() {
        let all = "hlwbe0^$GjkxXDpPudcygiaIAoOCS123 \u{1b}q漢";
        for (seed, first) in all.chars().enumerate() {
            let keys: String = all.chars().cycle().skip(seed * 7).step_by(seed + 1).take(60).collect();
            let (text, caret) = text_after_keys("one\ntwo 漢字\n\nlast", &format!("\u{1b}{first}{keys}"));
            assert!(caret <= text.chars().count());
        }
    }
}
