//! Typing around a question on the drawn screen, on a simulated clock.

use serde_json::json;
use zk_tui::{Action, Size};
use zk_view::Intent;

use crate::person::desk_of;

/// Number of bursts: a hundredth of the campaign, unless `ZK_BURSTS` says more.
#[expect(clippy::disallowed_methods, reason = "how much is tried is chosen from outside")]
fn bursts() -> u64 {
    std::env::var("ZK_BURSTS").ok().and_then(|count| count.parse().ok()).unwrap_or(100)
}

/// Random generator with a fixed seed, for reproducible failures.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Letters and digits only, since a submitted text is trimmed.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

#[test]
fn no_burst_with_enters_and_pastes_that_began_before_a_question_answers_it_and_no_character_is_lost() {
    let mut random = Random(23);
    for burst in 0..bursts() {
        let size = Size::new(20 + random.below(80) as usize, 4 + random.below(30) as usize);
        let mut desk = desk_of(size);
        if random.below(4) > 0 {
            desk.run();
        }
        // The question comes at some time before the last key; the first key comes in its deaf time.
        let count = 2 + random.below(30);
        let asked_before = random.below(count.min(8));
        let mut typed = String::new();
        let mut asked = false;
        for key in 0..count {
            if key == asked_before {
                desk.ask(json!({"command": "touch made"}));
                asked = true;
                desk.wait(random.below(300));
            }
            let bytes = match random.below(12) {
                0 | 1 => "\r".to_owned(),
                2 => "\u{1b}[200~y\rs\u{1b}[201~".to_owned(),
                3 => "yes\r".to_owned(),
                letter => ["y", "s", "a", "n", "w", "Y", "e", "k", "l"][letter as usize % 9].to_owned(),
            };
            let is_mark = bytes.starts_with('\u{1b}');
            typed.push_str(if is_mark { "ys" } else { &bytes });
            desk.keys(&bytes);
            desk.wait(20 + random.below(300));
        }
        assert!(asked);
        let mut kept = String::new();
        for action in &desk.actions {
            if let Action::Line(text) | Action::Intent(Intent::Steer { text } | Intent::Submit { text }) =
                action
            {
                kept.push_str(text);
            }
            let is_answer = matches!(action, Action::Intent(Intent::Answer { .. }));
            assert!(!is_answer, "burst {burst}: {typed:?} answered the question: {:?}", desk.actions);
        }
        kept.push_str(&desk.app.draft());
        assert_eq!(letters(&kept), letters(&typed), "burst {burst}: {typed:?}");
    }
}
