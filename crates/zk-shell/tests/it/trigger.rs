//! The trigger acts at an empty line, and nowhere else; the chord keeps the line.

use crate::driver::{Driver, Home, PROMPT};

/// Text of the composer.
pub(crate) const COMPOSER: &str = "Ask anything";

/// Keys that leave text, a search or a program in front of the shell, a text that shows it, and keys that go back to an
/// empty line.
const NOT_EMPTY: [(&str, &str, &str, &str); 12] = [
    ("typed text", "ec", "ec", "\u{15}"),
    ("a blank", " ", " ", "\u{15}"),
    ("recall", "\u{1b}[A", "echo one", "\u{15}"),
    ("recall by control", "\u{10}", "echo one", "\u{15}"),
    ("search", "\u{12}", "earch", "\u{7}"),
    ("a paste", "\u{1b}[200~ab\u{1b}[201~", "ab", "\u{15}"),
    ("completion", "ech\t", "ech", "\u{15}"),
    ("a continuation", "echo 'a\r", "more>", "\u{3}"),
    // Prints once the shell has restored the modes of the terminal.
    ("a program", "sh -c 'printf b%s egun; exec cat'\r", "begun", "\u{4}"),
    ("a read with a prompt", "read -p 'say: ' x\r", "say:", "\u{3}"),
    ("deleted text", "xyz\u{7f}\u{7f}", "ready> x", "\u{15}"),
    ("two at once", "??", "??", "\u{15}"),
];

pub(crate) fn acts_at_an_empty_line(terminal: &mut Driver) {
    terminal.keys("?");
    // A shell draws its prompt before it reads keys. A key between both is text of the line, so the next prompt is tried.
    while !terminal.has_soon(COMPOSER) {
        terminal.keys("\u{15}\r");
        terminal.expect(PROMPT);
        terminal.keys("?");
    }
    terminal.expect(COMPOSER);
    terminal.keys("\u{4}");
    terminal.expect(PROMPT);
}

#[test]
fn the_trigger_is_text_in_a_line_and_in_programs() {
    for shell in ["bash", "zsh", "fish"] {
        let home = Home::new();
        let Some(mut terminal) = Driver::shell(&home, shell, true) else { continue };
        terminal.expect(PROMPT);
        terminal.keys("echo one\r");
        terminal.expect("one\r\n");
        terminal.expect(PROMPT);
        for (name, keys, shows, back) in NOT_EMPTY {
            // These keys and words are those of bash and zsh.
            let is_of_fish =
                shell != "fish" || !["search", "a continuation", "a read with a prompt"].contains(&name);
            let is_of_zsh = shell != "zsh" || name != "a read with a prompt";
            if !is_of_fish || !is_of_zsh {
                continue;
            }
            terminal.keys(keys);
            terminal.wait_screen(shows, |screen| screen.contains(shows));
            terminal.keys("?");
            terminal.keys(back);
            if name == "a program" {
                terminal.keys("\u{4}");
            }
            terminal.keys("\u{15}");
            // A marker command proves that the shell reads lines again, and that no composer took the keys.
            terminal.keys("\rprintf 'mark-%s\\n' 42\r");
            let came = terminal.expect("mark-42\r\n");
            assert!(!came.contains(COMPOSER), "{shell}: {name}: {came}");
            terminal.expect(PROMPT);
        }
        acts_at_an_empty_line(&mut terminal);
        terminal.leave();
    }
}

#[test]
fn text_that_was_typed_ahead_into_a_continuation_is_no_empty_line() {
    for shell in ["bash", "zsh"] {
        let home = Home::new();
        let Some(mut terminal) = Driver::shell(&home, shell, true) else { continue };
        terminal.expect(PROMPT);
        // The shell has restored the modes of the terminal once a command prints.
        terminal.keys("printf 'runs-%s\\n' 1; read word; echo begun; sleep 1\r");
        terminal.expect("runs-1\r\n");
        terminal.keys("go\r");
        terminal.expect("begun");
        // Text before the prompt, which no key follows.
        terminal.keys("echo 'first\r");
        terminal.expect("more> ");
        terminal.keys("?");
        terminal.keys("' last\r");
        let came = terminal.expect("? last\r\n");
        assert!(!came.contains(COMPOSER), "{shell}: {came}");
        terminal.expect(PROMPT);
        acts_at_an_empty_line(&mut terminal);
        terminal.leave();
    }
}

#[test]
fn the_trigger_and_the_chord_work_with_vi_keys() {
    for shell in ["bash", "zsh", "fish"] {
        let home = Home::new();
        let (file, line) = match shell {
            "bash" => (".bashrc", "set -o vi\n"),
            "zsh" => (".zshrc", "bindkey -v\n"),
            _ => (".config/fish/config.fish", "fish_vi_key_bindings\nfunction fish_mode_prompt; end\n"),
        };
        let file = home.path().join(file);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text + line).unwrap();
        let Some(mut terminal) = Driver::shell(&home, shell, true) else { continue };
        terminal.expect(PROMPT);
        acts_at_an_empty_line(&mut terminal);
        terminal.keys("echo kept-");
        terminal.expect("kept-");
        terminal.keys("\u{1d}");
        terminal.expect(COMPOSER);
        terminal.keys("\u{4}");
        terminal.expect("kept-");
        terminal.keys("line\r");
        terminal.expect("kept-line\r\n");
        terminal.expect(PROMPT);
        terminal.leave();
    }
}
