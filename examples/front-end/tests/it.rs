//! Output of the front-end, and its size.

use std::process::Command;

#[test]
fn it_takes_no_more_than_150_lines() {
    let lines = include_str!("../src/main.rs").lines().count();
    assert!(lines <= 150, "{lines} lines");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the front-end is a program")]
fn it_shows_prompts_questions_calls_results_and_answers_in_order() {
    let shown = Command::new(env!("CARGO_BIN_EXE_front-end")).output().expect("it runs");
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let expected = "You: Count to a hundred.\n\
                    Answer: I count.\n\
                    Question: Confirm { text: \"Run count?\" }. Answer: yes.\n\
                    Tool count to a hundred: Done\n\
                    Result, the last 3 of 100 lines:\n  98\n  99\n  100\n\
                    Answer: Counted.\n\
                    Done: 2 turns.\n\
                    You: Thank you.\n\
                    Answer: You are welcome.\n\
                    Done: 1 turns.\n";
    assert_eq!(String::from_utf8_lossy(&shown.stdout), expected);
}
