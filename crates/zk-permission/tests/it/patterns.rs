use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use zk_core::model::Effects;
use zk_core::service::CallJudge;
use zk_permission::{
    Decision, HostPathClassifier, Layer, Mode, PathClassifier, PermissionJudge, ProgramPlace, Rule, RuleBase,
    Rules,
};

use crate::support::Setup;

/// Temporary directories are shared, so the tests make theirs next to their program.
struct Project {
    _dir: tempfile::TempDir,
    root: PathBuf,
    here: HostPathClassifier,
}

impl Project {
    fn new() -> Self {
        let own = std::env::current_exe().unwrap();
        let dir = tempfile::tempdir_in(own.parent().unwrap()).unwrap();
        let root = dir.path().canonicalize().unwrap().join("work");
        fs::create_dir_all(root.join("src")).unwrap();
        for name in ["a.txt", "b.txt", "src/a.rs", ".env", "../outside"] {
            fs::write(root.join(name), "x\n").unwrap();
        }
        let path = ["/usr/bin".into(), "/bin".into()];
        let here = HostPathClassifier::new(std::slice::from_ref(&root), None, &path);
        Self { _dir: dir, root, here }
    }

    fn decide(&self, here: &HostPathClassifier, command: &str) -> Decision {
        let setup = Setup::new(Mode::Ask, Rules::new());
        setup.call_at(&self.root, here, "shell", &Effects::executes(command)).decision
    }
}

#[test]
fn a_pattern_is_read_unasked_while_all_that_it_matches_may_be_read() {
    let project = Project::new();
    let decide = |command: &str| project.decide(&project.here, command);
    for command in ["cat *.txt", "cat src/*.rs", "ls *", "grep -n x */*.rs", "wc -l *.none", "cat ./*"] {
        assert_eq!(decide(command), Decision::Allow, "{command}");
    }
    for command in ["cat .e*", "cat .*", "ls .?", "cat ../*", "cat src/../../out*"] {
        assert_eq!(decide(command), Decision::Ask, "{command}");
    }
    symlink("../outside", project.root.join("c.txt")).unwrap();
    assert_eq!(decide("cat *.txt"), Decision::Ask);
    assert_eq!(decide("cat a.tx? b.t*"), Decision::Allow);
    assert_eq!(decide("cat src/*.rs"), Decision::Allow);
    fs::remove_file(project.root.join("c.txt")).unwrap();
    fs::write(project.root.join("-R.txt"), "").unwrap();
    assert_eq!(decide("grep x *.txt"), Decision::Ask);
    assert_eq!(decide("grep x ./*.txt"), Decision::Allow);
}

#[test]
fn a_pattern_is_asked_about_in_a_sandbox_while_it_matches_credentials() {
    let project = Project::new();
    let setup = Setup { is_contained: true, ..Setup::new(Mode::Auto, Rules::new()) };
    let decide = |command: &str| {
        setup.call_at(&project.root, &project.here, "shell", &Effects::executes(command)).decision
    };
    for command in ["cat .*", "cat .?*", "cat ./.*", "cat src/../.*"] {
        assert_eq!(decide(command), Decision::Ask, "{command}");
    }
    for command in ["cat *", "cat src/.*", "cat src/*", "sed 's/.*//' *"] {
        assert_eq!(decide(command), Decision::Allow, "{command}");
    }
    fs::write(project.root.join("src/id_rsa"), "").unwrap();
    for command in ["cat src/*", "cat */*rsa"] {
        assert_eq!(decide(command), Decision::Ask, "{command}");
    }
    assert_eq!(decide("cat src/*.rs"), Decision::Allow);
}

#[test]
fn names_become_words_only_where_each_is_one() {
    let project = Project::new();
    let hiding = project.here.clone().hiding_private();
    let decide = |command: &str| project.decide(&hiding, command);
    for command in
        ["find . -type f | xargs cat", "grep -rl x . | xargs grep -n y", "rg --files src | xargs wc -l"]
    {
        // A machine without the programs cannot start them.
        let name = command.split(' ').next().unwrap();
        if !std::path::Path::new("/usr/bin").join(name).exists() {
            continue;
        }
        assert_eq!(decide(command), Decision::Allow, "{command}");
        assert_eq!(
            project.decide(&project.here, command) == Decision::Allow,
            command.contains("src"),
            "{command}"
        );
        for name in ["a /etc/passwd", "-R", "quoted'"] {
            let file = project.root.join("src").join(name.replace('/', "_"));
            fs::write(&file, "").unwrap();
            assert_eq!(decide(command), Decision::Ask, "{command}: {name}");
            fs::remove_file(file).unwrap();
        }
        let link = project.root.join("src/out");
        symlink("/etc/passwd", &link).unwrap();
        assert_eq!(decide(command), Decision::Allow, "{command}: no such program prints a link");
        fs::remove_file(link).unwrap();
    }
}

#[test]
fn a_read_is_allowed_for_nothing_else_whatever_files_come_and_go() {
    let project = Project::new();
    let effects = Effects::executes("sort *");
    let judge =
        |mode, rules| PermissionJudge::new(mode, rules, project.root.clone(), Arc::new(project.here.clone()));
    let asks = judge(Mode::Ask, Rules::new());
    let (writes, opaque) = (Effects::executes("sort -o b.txt a.txt"), Effects::executes("file a.txt"));
    assert!(asks.allows_as_read("shell", &effects, &project.root));
    assert!(!asks.allows_beyond_read("shell", &effects, &project.root));
    fs::write(project.root.join("-opwned"), "").unwrap();
    assert!(!asks.allows_as_read("shell", &effects, &project.root));
    assert!(!asks.allows_beyond_read("shell", &effects, &project.root));
    // Rules, the mode `all` and the sandbox of all commands allow more than reads.
    let base = RuleBase { root: project.root.clone(), home: None };
    let mut rules = Rules::new();
    rules.push(Rule::parse(Layer::User, Decision::Allow, "sort **", &base).unwrap());
    for judge in
        [judge(Mode::Ask, rules), judge(Mode::All, Rules::new()), judge(Mode::Auto, Rules::new()).contained()]
    {
        assert!(judge.allows_beyond_read("shell", &writes, &project.root), "{judge:?}");
    }
    // Reads that only a sandbox contains do not run after its loss, and do if a person chose none.
    let is_unheld = || asks.allows_unheld_read("shell", &opaque, &project.root);
    // A machine without the program cannot start it.
    let is_there = PathClassifier::program(&project.here, "file") != ProgramPlace::Missing;
    assert_eq!(is_unheld(), is_there);
    asks.hold_reads();
    assert!(!is_unheld());
}

#[test]
fn a_walk_past_private_files_is_unasked_only_while_something_hides_them() {
    let project = Project::new();
    let here = Arc::new(project.here.clone().hiding_private());
    let judge = PermissionJudge::new(Mode::Ask, Rules::new(), project.root.clone(), here);
    let decide = || judge.verdict("shell", &Effects::executes("grep -rn x ."), &project.root).decision;
    assert_eq!(decide(), Decision::Allow);
    judge.restrict_reads();
    assert_eq!(decide(), Decision::Ask);
    judge.hold_reads();
    assert_eq!(decide(), Decision::Allow);
}
