use zk_core::model::{Effect, Effects};
use zk_core::service::GuardedPath;
use zk_permission::{Decision, Mode, Rules};

use crate::support::{Setup, rule};

fn setup(mode: Mode, is_contained: bool) -> Setup {
    Setup { is_contained, ..Setup::new(mode, Rules::new()) }
}

#[test]
fn modes_are_read_by_their_names() {
    for mode in Mode::ALL {
        assert_eq!(mode.name().parse(), Ok(mode));
    }
    let error = "yolo".parse::<Mode>().unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no permission mode `yolo`; the modes are read-only, ask, accept-edits, auto and all"
    );
}

#[test]
fn each_mode_decides_about_files_tools_and_connections() {
    use Decision::{Allow, Ask, Deny};
    let write = Effects::writes(["src/a.rs"]);
    let outside = Effects::writes(["/etc/x"]);
    let protected = Effects::writes([".git/hooks/pre-commit"]);
    let start = Effects::writes([".bashrc"]);
    let somewhere = Effects::one(Effect::Writes { paths: Vec::new() });
    let network = Effects::one(Effect::Network { hosts: vec!["example.org".into()] });
    let program = Effects::one(Effect::Executes { command: None, argv: vec!["make".into()] });
    let reader = Effects::one(Effect::Executes { command: None, argv: vec!["ls".into(), "*".into()] });
    let nothing_known = Effects::one(Effect::Executes { command: None, argv: Vec::new() });
    for (effects, read_only, ask, edits, auto, all) in [
        (&Effects::none(), Allow, Allow, Allow, Allow, Allow),
        (&Effects::reads(["a"]), Allow, Allow, Allow, Allow, Allow),
        (&write, Deny, Ask, Allow, Allow, Allow),
        (&outside, Deny, Ask, Ask, Ask, Allow),
        (&protected, Deny, Ask, Ask, Ask, Allow),
        (&start, Deny, Ask, Ask, Ask, Allow),
        (&somewhere, Deny, Ask, Ask, Ask, Allow),
        (&network, Deny, Ask, Ask, Ask, Allow),
        (&Effects::Unknown, Deny, Ask, Ask, Ask, Allow),
        (&program, Deny, Ask, Ask, Allow, Allow),
        (&reader, Allow, Allow, Allow, Allow, Allow),
        (&nothing_known, Deny, Ask, Ask, Ask, Allow),
    ] {
        for (mode, wanted) in Mode::ALL.into_iter().zip([read_only, ask, edits, auto, all]) {
            let verdict = setup(mode, true).call("tool", effects);
            assert_eq!(verdict.decision, wanted, "{mode}, {effects:?}: {verdict}");
        }
    }
    assert_eq!(setup(Mode::Auto, false).call("write_file", &write).decision, Ask);
}

#[test]
fn what_programs_are_started_from_is_asked_about_where_edits_are_accepted() {
    for guarded in GuardedPath::ANYWHERE {
        let below = if guarded.is_file { "" } else { "/b" };
        for path in [guarded.path.to_owned(), format!("a/{}{below}", guarded.path.to_uppercase())] {
            let verdict =
                setup(Mode::AcceptEdits, true).call("write_file", &Effects::writes([path.as_str()]));
            assert_eq!(verdict.decision, Decision::Ask, "{path}: {verdict}");
        }
    }
}

#[test]
fn file_tools_and_the_shell_agree_on_credentials_of_the_project() {
    use Decision::{Allow, Ask};
    for mode in Mode::ALL {
        let mut own = setup(mode, true);
        let wanted = if mode == Mode::All { Allow } else { Ask };
        for (path, wanted) in [(".env", wanted), ("sub/id_ed25519", wanted), (".env.example", Allow)] {
            let read = own.call("read_file", &Effects::reads([path]));
            assert_eq!(read.decision, wanted, "{mode}: {path}: {read}");
            for command in [format!("cat {path}"), format!("wc -l < {path}")] {
                let shell = own.command(&command);
                assert_eq!(shell.decision, wanted, "{mode}: {command}: {shell}");
            }
        }
        own.rules.push(rule(Allow, "read(.env)"));
        let allowed = if mode == Mode::ReadOnly { Ask } else { Allow };
        assert_eq!(own.call("read_file", &Effects::reads([".env"])).decision, allowed, "{mode}");
    }
}

#[test]
fn read_only_is_a_limit_for_every_rule() {
    let mut read_only = setup(Mode::ReadOnly, true);
    for text in ["make **", "tool(write_file)", "write(**)"] {
        read_only.rules.push(rule(Decision::Allow, text));
    }
    assert_eq!(read_only.command("make").decision, Decision::Deny);
    assert_eq!(read_only.command("ls > a").decision, Decision::Deny);
    assert_eq!(read_only.call("write_file", &Effects::writes(["a"])).decision, Decision::Deny);
    assert_eq!(read_only.call("write_file", &Effects::Unknown).decision, Decision::Deny);
}

#[test]
fn what_a_command_does_is_told_in_effects() {
    let effects = |command: &str| setup(Mode::Ask, false).command(command).effects;
    assert!(effects("ls | wc -l").is_read_only());
    assert_eq!(effects("cat a b"), Effects::reads(["a", "b"]));
    assert_eq!(effects("rm a"), Effects::writes(["a"]));
    assert_eq!(
        effects("cat < a > b"),
        Effects::Known {
            list: vec![Effect::Reads { paths: vec!["a".into()] }, Effect::Writes { paths: vec!["b".into()] }]
        }
    );
    let Effects::Known { list } = effects("curl https://example.org") else { panic!("known") };
    assert!(list.contains(&Effect::Network { hosts: Vec::new() }), "{list:?}");
    assert_eq!(effects("ls $x"), Effects::executes("ls $x"));
}

#[test]
fn a_simple_command_can_be_run_without_a_shell() {
    let argv = |command: &str| setup(Mode::Ask, false).command(command).argv;
    assert_eq!(argv("cargo test 'a b'"), Some(vec!["cargo".into(), "test".into(), "a b".into()]));
    assert_eq!(argv("cargo test; ls"), None);
    assert_eq!(argv("cd a"), None);
}
