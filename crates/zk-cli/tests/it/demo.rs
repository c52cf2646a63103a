use crate::zk::Person;

#[test]
fn the_demo_repairs_its_project_without_a_key() {
    let person = Person::new();
    let ended = person.run(&["demo"]);
    assert_eq!(ended.code, 0, "{}\n{}", ended.stdout, ended.stderr);
    for word in ["scripted model: no LLM is asked", "FAIL", "All tests pass", "the project's tests pass"] {
        assert!(ended.stdout.contains(word), "`{word}` is missing:\n{}", ended.stdout);
    }
    assert!(!person.home().join("sessions").exists(), "it keeps no session");
}

#[test]
fn a_kept_project_is_repaired_and_changed_nowhere_else() {
    let person = Person::new();
    let temp = person.project();
    let person = person.with("TMPDIR", temp.to_str().unwrap());
    let ended = person.run(&["demo", "--keep"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let kept = std::fs::read_dir(&temp).unwrap().next().unwrap().unwrap().path();
    assert!(ended.stdout.contains(kept.to_str().unwrap()));
    let library = std::fs::read_to_string(kept.join("lib/basket.sh")).unwrap();
    let before = include_str!("../../../zk-testkit/src/demo/project/lib/basket.sh");
    let changed: Vec<_> = before.lines().zip(library.lines()).filter(|(old, new)| old != new).collect();
    assert_eq!(
        changed,
        [("        total=$((total + price))", "        total=$((total + price * quantity))")]
    );
    assert_eq!(before.lines().count(), library.lines().count());
}

#[test]
fn nothing_of_the_project_stays_behind() {
    let person = Person::new();
    let temp = person.project();
    let person = person.with("TMPDIR", temp.to_str().unwrap());
    assert_eq!(person.run(&["demo"]).code, 0);
    assert_eq!(std::fs::read_dir(&temp).unwrap().count(), 0);
}

#[test]
fn settings_that_would_spoil_it_do_not_count() {
    let person = Person::new();
    person.settings("max_turns = 1\npreset = \"plan\"\n");
    assert_eq!(person.run(&["demo"]).code, 0);
}
