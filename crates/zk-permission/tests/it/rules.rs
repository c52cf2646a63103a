use std::path::PathBuf;

use zk_core::model::{Effect, Effects};
use zk_permission::{
    CommandPattern, Decision, Layer, Mode, PathClassifier, PathPlace, ProgramPlace, Rule, RuleBase, Rules,
    Script, by_name,
};

use crate::support::{Setup, rule};

fn with(rules: &[(Decision, &str)]) -> Setup {
    let mut all = Rules::new();
    rules.iter().for_each(|(decision, text)| all.push(rule(*decision, text)));
    Setup::new(Mode::Ask, all)
}

#[test]
fn a_rule_that_cannot_be_read_says_why() {
    for (text, why) in [
        ("", "it is empty"),
        ("git ** push", "nothing may follow it"),
        ("git pu*", "a pattern for file names, `*`"),
        ("git *push", "a star stands for whole arguments only"),
        ("git push; ls", "an operator"),
        ("git $x", "an expansion"),
        ("git 'push", "a quote that is not closed"),
        ("*", "a star cannot stand for the program"),
        ("** ", "a star cannot stand for the program"),
        ("read()", "it names no path"),
        ("write(../x)", "`..` is not resolved"),
        ("write(a[)", "unclosed character class"),
        ("tool()", "it names no tool"),
        ("fetch()", "it names no host"),
        ("fetch(https://docs.rs/x)", "write the host alone"),
        ("fetch(docs.*)", "a star stands for all of a name"),
        ("fetch(docs.rs:443)", "leave 80 and 443 out"),
        ("fetch(docs.rs:x)", "no port"),
        ("fetch(bücher.example)", "begins with `xn--`"),
        ("fetch(a b)", "it is no name of a host"),
    ] {
        let base = RuleBase { root: "/p".into(), home: None };
        let error = Rule::parse(Layer::User, Decision::Allow, text, &base).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    let home = Rule::parse(Layer::User, Decision::Deny, "read(~/x)", &RuleBase::default()).unwrap_err();
    assert!(home.to_string().contains("no home directory"), "{home}");
}

#[test]
fn stars_stand_for_whole_arguments_and_can_be_quoted() {
    let matches = |pattern: &str, command: &str| {
        let words = Script::parse(command).unwrap().commands.swap_remove(0).words;
        CommandPattern::parse(pattern).unwrap().matches(&words)
    };
    assert!(matches("a *", "a b") && !matches("a *", "a") && !matches("a *", "a b c"));
    assert!(matches("a **", "a") && matches("a **", "a b c"));
    assert!(matches("a '*'", "a '*'") && !matches("a '*'", "a b"));
    assert!(matches("a 'b c' * **", "a 'b c' d") && !matches("a 'b c' *", "a b c"));
    assert!(!matches("a **", "ab"), "never a prefix of a name");
}

#[test]
fn a_denial_wins_over_a_question_and_that_over_a_permission() {
    let setup =
        with(&[(Decision::Allow, "make **"), (Decision::Ask, "make x **"), (Decision::Deny, "make x y")]);
    for (command, decision) in [
        ("make", Decision::Allow),
        ("make x", Decision::Ask),
        ("make x z", Decision::Ask),
        ("make x y", Decision::Deny),
    ] {
        assert_eq!(setup.command(command).decision, decision, "{command}");
    }
}

#[test]
fn a_verdict_carries_every_rule_that_spoke() {
    let setup =
        with(&[(Decision::Allow, "make **"), (Decision::Ask, "make x **"), (Decision::Deny, "make x y")]);
    let verdict = setup.command("make a && make x y && ls");
    let spoke: Vec<_> = verdict
        .reasons
        .iter()
        .map(|r| (r.subject.as_str(), r.rule.as_ref().map(|r| r.text.as_str())))
        .collect();
    assert_eq!(
        spoke,
        [
            ("make a", Some("make **")),
            ("make x y", Some("make x y")),
            ("make x y", Some("make x **")),
            ("ls", None)
        ]
    );
    assert!(verdict.to_string().starts_with("deny\n"), "{verdict}");
}

#[test]
fn an_untrusted_project_forbids_and_does_not_allow() {
    let base = RuleBase { root: "/p".into(), home: None };
    let mut rules = Rules::new();
    for layer in [Layer::Project, Layer::ProjectLocal, Layer::User] {
        assert_eq!(rules.extend(layer, Decision::Allow, &["make **"], &base), []);
        assert_eq!(rules.extend(layer, Decision::Deny, &["make x"], &base), []);
    }
    assert_eq!(rules.distrust_project(), 2);
    assert_eq!(rules.iter().count(), 4);
}

#[test]
fn a_wildcard_never_stands_for_a_program() {
    let setup =
        with(&[(Decision::Allow, "timeout **"), (Decision::Allow, "env **"), (Decision::Allow, "bash -c *")]);
    for command in ["timeout 5 make", "env make", "bash -c 'make'", "timeout 5 env make"] {
        assert_eq!(setup.command(command).decision, Decision::Ask, "{command}");
    }
    let literal = with(&[(Decision::Allow, "timeout * make **"), (Decision::Allow, "sudo apt update")]);
    assert_eq!(literal.command("timeout 5 make x").decision, Decision::Allow);
    assert_eq!(literal.command("timeout 5 npm x").decision, Decision::Ask);
    assert_eq!(literal.command("sudo apt update").decision, Decision::Allow);
}

#[test]
fn more_rights_are_never_taken_from_a_rule_about_what_is_inside() {
    let setup = with(&[(Decision::Allow, "make **")]);
    for command in ["sudo make", "doas make", "nohup make", "setsid make", "exec make", "busybox make"] {
        assert_eq!(setup.command(command).decision, Decision::Ask, "{command}");
    }
}

#[test]
fn exactly_what_was_approved_runs_and_nothing_longer() {
    let text = "for a in 1 2; do echo $a; done > out";
    let mut setup = with(&[]);
    setup.rules.push(Rule::exact(Layer::Approvals, Decision::Allow, text));
    assert_eq!(setup.command(text).decision, Decision::Allow);
    for other in [format!("{text} "), format!("{text}; ls"), text.replace("1 2", "1 3")] {
        assert_eq!(setup.command(&other).decision, Decision::Ask, "{other}");
    }
    setup.rules.push(rule(Decision::Deny, "git push **"));
    assert_eq!(setup.command(text).decision, Decision::Ask, "not understood, and a rule restricts commands");
    setup.mode = Mode::ReadOnly;
    assert_eq!(setup.command(text).decision, Decision::Deny);
}

#[test]
fn rules_about_files_hold_for_tools_and_for_commands() {
    let setup = with(&[
        (Decision::Deny, "read(secret/**)"),
        (Decision::Deny, "write(**/*.lock)"),
        (Decision::Ask, "read(/etc/**)"),
        (Decision::Allow, "write(src/**)"),
        (Decision::Deny, "read(~/private/*)"),
    ]);
    for (effects, decision) in [
        (Effects::reads(["secret/a"]), Decision::Deny),
        (Effects::reads(["src/../secret"]), Decision::Deny),
        (Effects::reads(["/p/secret/a/b"]), Decision::Deny),
        (Effects::reads(["/home/me/private/a"]), Decision::Deny),
        (Effects::reads(["/etc/hosts"]), Decision::Ask),
        (Effects::reads(["README.md"]), Decision::Allow),
        (Effects::writes(["Cargo.lock"]), Decision::Deny),
        (Effects::writes(["src/a/Cargo.lock"]), Decision::Deny),
        (Effects::writes(["src/a.rs"]), Decision::Allow),
        (Effects::writes(["src/../a.rs"]), Decision::Ask),
        (Effects::writes(["src/.git/config"]), Decision::Ask),
        (Effects::one(Effect::Reads { paths: Vec::new() }), Decision::Ask),
    ] {
        assert_eq!(setup.call("file_tool", &effects).decision, decision, "{effects:?}");
    }
}

#[test]
fn rules_about_tools_go_by_name() {
    let setup = with(&[
        (Decision::Allow, "tool(fetch)"),
        (Decision::Deny, "tool(mcp__evil__*)"),
        (Decision::Ask, "tool(ls)"),
    ]);
    assert_eq!(setup.call("fetch", &Effects::Unknown).decision, Decision::Allow);
    assert_eq!(setup.call("fetcher", &Effects::Unknown).decision, Decision::Ask);
    assert_eq!(setup.call("mcp__evil__read", &Effects::none()).decision, Decision::Deny);
    assert_eq!(setup.call("ls", &Effects::none()).decision, Decision::Ask);
    assert_eq!(setup.call("other", &Effects::none()).decision, Decision::Allow);
}

fn network<const N: usize>(hosts: [&str; N]) -> Effects {
    Effects::one(Effect::Network { hosts: hosts.map(str::to_owned).to_vec() })
}

#[test]
fn rules_about_hosts_allow_ask_and_deny_by_host() {
    let setup = with(&[
        (Decision::Allow, "fetch(docs.rs)"),
        (Decision::Allow, "fetch(*.rust-lang.org)"),
        (Decision::Allow, "fetch(localhost:8000)"),
        (Decision::Allow, "fetch([::1])"),
        (Decision::Ask, "fetch(blog.rust-lang.org)"),
        (Decision::Deny, "fetch(*.evil.example)"),
        (Decision::Deny, "fetch(tracker.example)"),
    ]);
    for (host, decision) in [
        ("docs.rs", Decision::Allow),
        ("DOCS.RS.", Decision::Allow),
        ("docs.rs:8080", Decision::Ask),
        ("www.docs.rs", Decision::Ask),
        ("notdocs.rs", Decision::Ask),
        ("doc.rust-lang.org", Decision::Allow),
        ("rust-lang.org", Decision::Ask),
        ("evilrust-lang.org", Decision::Ask),
        ("blog.rust-lang.org", Decision::Ask),
        ("localhost:8000", Decision::Allow),
        ("localhost", Decision::Ask),
        ("[::1]", Decision::Allow),
        ("[::1]:9", Decision::Ask),
        ("evil.example", Decision::Deny),
        ("a.b.evil.example:8443", Decision::Deny),
        ("Tracker.Example.", Decision::Deny),
        ("tracker.example:8080", Decision::Deny),
        ("other.example", Decision::Ask),
    ] {
        assert_eq!(setup.call("fetch", &network([host])).decision, decision, "{host}");
    }
    let all = Setup::new(Mode::All, setup.rules.clone());
    assert_eq!(all.call("fetch", &network(["other.example"])).decision, Decision::Allow);
    assert_eq!(all.call("fetch", &network(["docs.rs", "evil.example"])).decision, Decision::Deny);
    let read_only = Setup::new(Mode::ReadOnly, setup.rules);
    assert_eq!(read_only.call("fetch", &network(["docs.rs"])).decision, Decision::Deny);
}

#[test]
fn no_mode_lets_a_call_leave_the_sandbox_unasked() {
    let leaves = Effects::one(Effect::LeavesContext { reason: "it is denied".to_owned() });
    for (mode, decision) in [
        (Mode::ReadOnly, Decision::Deny),
        (Mode::Ask, Decision::Ask),
        (Mode::AcceptEdits, Decision::Ask),
        (Mode::Auto, Decision::Ask),
        (Mode::All, Decision::Ask),
    ] {
        let verdict = Setup::new(mode, Rules::new()).call("shell", &leaves);
        assert_eq!(verdict.decision, decision, "{mode:?}");
    }
}

#[test]
fn who_does_not_say_which_hosts_is_asked_about_where_a_rule_restricts_some() {
    let free = Setup::new(Mode::All, Rules::new());
    assert_eq!(free.call("fetch", &network([])).decision, Decision::Allow);
    let mut setup = with(&[(Decision::Deny, "fetch(*.evil.example)"), (Decision::Allow, "tool(fetch)")]);
    setup.mode = Mode::All;
    assert_eq!(setup.call("fetch", &network([])).decision, Decision::Ask);
    for command in ["curl https://www.evil.example", "git fetch"] {
        let verdict = setup.command(command);
        assert_eq!(verdict.decision, Decision::Ask, "{command}");
        assert!(verdict.to_string().contains("rule: deny `fetch(*.evil.example)`"), "{verdict}");
    }
    assert_eq!(setup.command("make").decision, Decision::Ask, "it can connect to any host");
    assert_eq!(setup.command("rm a").decision, Decision::Allow);
}

#[test]
fn a_path_rule_that_the_sandbox_holds_asks_about_no_opaque_program_in_it() {
    let mut setup = with(&[(Decision::Deny, "read(private/**)"), (Decision::Deny, "write(keep)")]);
    (setup.mode, setup.is_contained) = (Mode::Auto, true);
    let commands =
        ["cargo test", "python3 x.py", "git diff", "grep -r x .", "rm -r src", "cat x | xargs cat"];
    let asked = |setup: &Setup| commands.map(|command| setup.command(command).decision == Decision::Ask);
    assert_eq!(asked(&setup), [true, true, true, true, true, true]);
    setup.rules.iter_mut().for_each(Rule::hold);
    assert_eq!(asked(&setup), [false, false, false, false, true, false], "`rm -r` may throw away work");
    for command in ["cat private/x", "git show HEAD:private/x", "cp private/x y", "grep -r x private"] {
        assert_eq!(setup.command(command).decision, Decision::Deny, "{command}");
    }
    setup.rules.push(rule(Decision::Deny, "git push **"));
    assert_eq!(setup.command("cargo test").decision, Decision::Ask);
    setup.rules.push(rule(Decision::Allow, "cargo test **"));
    assert_eq!(setup.command("cargo test").decision, Decision::Allow);
    setup.is_contained = false;
    setup.mode = Mode::All;
    assert_eq!(setup.command("git diff").decision, Decision::Ask, "no sandbox holds it");
    let trees: Vec<_> = setup.rules.iter().filter_map(Rule::denied_tree).collect();
    assert_eq!(
        trees,
        [
            (zk_permission::Access::Read, std::path::Path::new("/p/private")),
            (zk_permission::Access::Write, std::path::Path::new("/p/keep"))
        ]
    );
}

#[test]
fn every_example_of_an_explained_rule_about_hosts_is_true() {
    for decision in [Decision::Allow, Decision::Ask, Decision::Deny] {
        for text in
            ["fetch(docs.rs)", "fetch(*.rust-lang.org)", "fetch(localhost:8000)", "fetch([::1])", "fetch(*)"]
        {
            let setup = with(&[(decision, text)]);
            let explanation = setup.rules.iter().next().unwrap().explain();
            let speaks = |host: &str| {
                setup.call("fetch", &network([host])).reasons.iter().any(|reason| reason.rule.is_some())
            };
            assert!(!explanation.matches.is_empty());
            for host in &explanation.matches {
                assert!(speaks(host), "{decision} {text} matches {host}");
            }
            for (host, why) in &explanation.misses {
                assert!(!speaks(host), "{decision} {text} misses {host}: {why}");
            }
        }
    }
}

/// A `PATH` whose first directory is writable for everybody.
struct Poisoned;

impl PathClassifier for Poisoned {
    fn program(&self, name: &str) -> ProgramPlace {
        match name {
            "ls" => ProgramPlace::Writable("/p/bin/ls".into()),
            "wc" => ProgramPlace::Missing,
            name => ProgramPlace::Trusted(PathBuf::from("/usr/bin").join(name)),
        }
    }

    fn path(&self, path: &std::path::Path) -> PathPlace {
        // Link that leads out of the workspace.
        if path.starts_with("/p/link") { PathPlace::Outside } else { by_name(path, &["/p".into()]) }
    }
}

#[test]
fn a_program_that_others_can_change_is_asked_about() {
    let setup = with(&[(Decision::Allow, "ls **"), (Decision::Allow, "env ls")]);
    let decide = |command: &str| setup.call_in(&Poisoned, "shell", &Effects::executes(command)).decision;
    for command in ["ls", "env ls", "/usr/bin/ls", "wc a", "cat a | ls", "cat link/a", "cat < link/a"] {
        assert_eq!(decide(command), Decision::Ask, "{command}");
    }
    for command in ["cat a", "/usr/bin/cat a", "echo a"] {
        assert_eq!(decide(command), Decision::Allow, "{command}");
    }
}

#[test]
fn every_example_of_an_explanation_is_true() {
    for (decision, text) in [
        (Decision::Allow, "git push *"),
        (Decision::Allow, "cargo test **"),
        (Decision::Allow, "make"),
        (Decision::Allow, "npm run * -- **"),
        (Decision::Deny, "git push **"),
        (Decision::Deny, "rm -rf *"),
        (Decision::Deny, "**"),
        (Decision::Ask, "* publish"),
    ] {
        let setup = with(&[(decision, text)]);
        let explanation = setup.rules.iter().next().unwrap().explain();
        let says = |command: &str| {
            let verdict = setup.command(command);
            (
                verdict.decision,
                verdict
                    .reasons
                    .iter()
                    .any(|reason| reason.rule.as_ref().is_some_and(|r| r.decision == reason.decision)),
            )
        };
        assert!(!explanation.matches.is_empty());
        for command in &explanation.matches {
            assert_eq!(says(command), (decision, true), "{text} matches `{command}`");
        }
        for (command, why) in &explanation.misses {
            assert_ne!(
                says(command).0,
                if decision == Decision::Allow { Decision::Allow } else { Decision::Deny },
                "{text} misses `{command}`: {why}"
            );
        }
    }
    assert!(rule(Decision::Allow, "write(src/**)").explain().says.contains("writes files matching `src/**`"));
    assert!(rule(Decision::Deny, "tool(mcp__*)").explain().matches[0].starts_with("mcp__"));
}
