//! Reads of file tools outside of the workspace.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use zk_core::model::Effects;
use zk_core::service::{CallDecision, CallJudge, CallJudgement};
use zk_permission::{Decision, HostPathClassifier, Layer, Mode, PermissionJudge, Rule, RuleBase, Rules};

/// Project next to other directories, and the home of the person.
struct Place {
    dir: TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for path in [
            "project/src/main.rs",
            "other/notes/today.md",
            "other/shadow/x",
            "outputs/1.txt",
            "home/.ssh/id_rsa",
        ] {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), "x").unwrap();
        }
        std::os::unix::fs::symlink(root.join("other"), root.join("project/link")).unwrap();
        Self { dir, root }
    }

    fn judge(&self, mode: Mode, rules: Rules) -> PermissionJudge {
        let (project, home) = (self.root.join("project"), self.root.join("home"));
        let classifier = HostPathClassifier::new(std::slice::from_ref(&project), Some(&home), &[]);
        let classifier = classifier.asking_reads_outside([project.clone(), self.root.join("outputs")]);
        PermissionJudge::new(mode, rules, project, Arc::new(classifier))
    }

    fn read(&self, judge: &PermissionJudge, path: &str) -> CallJudgement {
        let path = self.root.join(path);
        judge.judge("read_file", &Effects::reads([path]), &self.root.join("project"))
    }
}

#[test]
fn a_file_tool_asks_before_it_reads_outside_in_each_mode_but_the_one_that_allows_all() {
    let place = Place::new();
    for mode in Mode::ALL {
        let judge = place.judge(mode, Rules::new());
        let judged = place.read(&judge, "other/notes/today.md");
        let expected =
            if mode == Mode::All { CallDecision::Allow } else { CallDecision::Ask { by_rule: false } };
        assert_eq!(judged.decision, expected, "{mode}: {judged:?}");
        if mode != Mode::All {
            assert!(judged.reasons[0].contains("it is outside of this project"), "{judged:?}");
        }
        // Nobody refuses that outside of `/etc`.
        assert_eq!(place.read(&judge, "other/shadow/x").decision, expected, "{mode}");
        // A link of the project, and credentials, are refused by the service of files.
        for path in
            ["project/src/main.rs", "outputs/1.txt", "project/link/notes/today.md", "home/.ssh/id_rsa"]
        {
            assert_eq!(place.read(&judge, path).decision, CallDecision::Allow, "{mode}: {path}");
        }
    }
    drop(place.dir);
}

#[test]
fn a_directory_can_be_allowed_for_the_session_and_one_that_everything_is_in_is_not_offered() {
    let place = Place::new();
    let judge = place.judge(Mode::Auto, Rules::new());
    let offer = place.read(&judge, "other/notes/today.md").offer.unwrap();
    assert!(offer.describes.starts_with("reading files below ") && offer.describes.contains("other/notes"));
    judge.remember(&offer, false).unwrap();
    assert_eq!(place.read(&judge, "other/notes/today.md").decision, CallDecision::Allow);
    assert_eq!(place.read(&judge, "other/else.md").decision, CallDecision::Ask { by_rule: false });
    judge.forget_session();
    assert_eq!(place.read(&judge, "other/notes/today.md").decision, CallDecision::Ask { by_rule: false });
    for path in ["/", "/usr", "/nowhere.txt"] {
        let judged = judge.judge("list_files", &Effects::reads([path]), &place.root.join("project"));
        assert_eq!((judged.decision, judged.offer), (CallDecision::Ask { by_rule: false }, None), "{path}");
    }
    let home = place.read(&judge, "home/notes.txt");
    assert_eq!(home.offer, None, "the home has too much in it");
}

#[test]
fn a_directory_that_was_allowed_does_not_cover_what_is_named_like_credentials_in_it() {
    let place = Place::new();
    let judge = place.judge(Mode::Auto, Rules::new());
    let offer = place.read(&judge, "other/notes/today.md").offer.unwrap();
    judge.remember(&offer, false).unwrap();
    for name in ["today.md", "src/token.rs", "docs/passwords.md", ".env.example", "tokenizer.json"] {
        let path = format!("other/notes/{name}");
        assert_eq!(place.read(&judge, &path).decision, CallDecision::Allow, "{name}");
    }
    for name in [
        ".env",
        ".ENV",
        "sub/.env.production",
        ".env.qa",
        "credentials.json",
        "client_secret.json",
        "server.key",
        "certs/site.pem",
        "id_ed25519",
        ".htpasswd",
        "secrets/plain.txt",
        "prod.tfvars",
        "terraform.tfstate",
        ".npmrc",
        "passwords.txt",
        "x/../.env",
        "kubeconfig",
    ] {
        let judged = place.read(&judge, &format!("other/notes/{name}"));
        assert_eq!(judged.decision, CallDecision::Ask { by_rule: false }, "{name}");
        let is_below = name.contains("secrets/");
        assert!(is_below || judged.reasons[0].contains("may hold credentials"), "{name}: {judged:?}");
        assert!(is_below || judged.offer.is_none(), "{name}: {judged:?}");
    }
}

#[test]
fn a_rule_allows_or_denies_what_is_outside_without_a_question() {
    let place = Place::new();
    let base = RuleBase { root: place.root.join("project"), home: None };
    let mut rules = Rules::new();
    for (decision, what) in [(Decision::Allow, "notes"), (Decision::Deny, "secret")] {
        let text = format!("read({}/other/{what}/**)", place.root.display());
        rules.push(Rule::parse(Layer::User, decision, &text, &base).unwrap());
    }
    let judge = place.judge(Mode::Ask, rules);
    assert_eq!(place.read(&judge, "other/notes/today.md").decision, CallDecision::Allow);
    assert_eq!(place.read(&judge, "other/secret/x").decision, CallDecision::Deny);
}
