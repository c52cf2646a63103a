//! The goal outlives its process.

use std::process::Command;

#[test]
#[expect(clippy::disallowed_methods, reason = "each life is a process of its own")]
fn a_second_process_goes_on_where_the_first_one_was_cut_off() {
    let folder = tempfile::tempdir().expect("a directory");
    let live = || {
        let program = env!("CARGO_BIN_EXE_example-goal-driver");
        let ended = Command::new(program).arg(folder.path()).output().expect("it runs");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        String::from_utf8_lossy(&ended.stdout).into_owned()
    };
    let first = live();
    assert!(
        first.starts_with("first process: ") && first.contains("2 of 4 steps are done. Go on."),
        "{first}"
    );
    assert!(!first.contains("3 of 4"), "it was cut off after two steps: {first}");
    let second = live();
    assert_eq!(second, "second process: Some(\"3 of 4 steps are done. Go on.\")\n");
}
