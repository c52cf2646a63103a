//! Engines beyond this machine, which `zk-worker` has.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::zk::{Person, program};

const ADDRESS: &str = "postgres://zk:secret-Zk71@127.0.0.1/zk";

/// Person with a copy of the program in a directory of its own, whose settings name an engine that it does not have.
fn person() -> (Person, std::path::PathBuf) {
    let person = Person::new();
    person.settings(&format!("[fleet]\nengine = \"{ADDRESS}\"\n"));
    let dir = person.home().join("bin");
    std::fs::create_dir_all(&dir).unwrap();
    let copy = dir.join("zk");
    std::fs::hard_link(program(), &copy).or_else(|_| std::fs::copy(program(), &copy).map(drop)).unwrap();
    (person, copy)
}

fn output(person: &Person, zk: &std::path::Path, args: &[&str]) -> (Option<i32>, String) {
    let ended = person.spawn(zk, args, Stdio::null()).wait_with_output().unwrap();
    let text = [ended.stdout, ended.stderr].concat();
    (ended.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn another_engine_is_served_by_the_program_that_has_it() {
    let (person, zk) = person();
    for args in
        [&["worker"][..], &["fleet", "submit", "Do it."], &["fleet", "ls"], &["fleet", "setup"], &["handoff"]]
    {
        let (code, said) = output(&person, &zk, args);
        assert_eq!(code, Some(1), "{said}");
        assert!(
            said.contains("`zk-worker` has the engine of postgres://127.0.0.1/zk and is not installed"),
            "{said}"
        );
        assert!(!said.contains("secret-Zk71"), "{said}");
    }
    // Conversations need no engine.
    let (code, said) = output(&person, &zk, &["fleet"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("runs are in postgres://127.0.0.1/zk"), "{said}");

    let worker = zk.with_file_name("zk-worker");
    std::fs::write(&worker, "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 3\n").unwrap();
    std::fs::set_permissions(&worker, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (code, said) = output(&person, &zk, &["fleet", "submit", "Do  it.", "--queue", "q"]);
    assert_eq!((code, said.as_str()), (Some(3), "<fleet><submit><Do  it.><--queue><q>"));
}

#[test]
fn a_project_names_no_engine() {
    let person = Person::new();
    person.write(".zk/settings.toml", "[fleet]\nengine = \"postgres:///theirs\"\n");
    let listed = person.run(&["fleet", "ls"]);
    assert!(!listed.stdout.contains("theirs") && !listed.stderr.contains("zk-worker"), "{}", listed.stderr);
    let wrong = Person::new();
    wrong.settings("[fleet]\nengine = \"mysql://u:secret-Zk71@h\"\n");
    let said = wrong.run(&["fleet", "ls"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains("`local`, `postgres://…`"), "{}", said.stderr);
    assert!(!said.stderr.contains("secret-Zk71"), "{}", said.stderr);
}
