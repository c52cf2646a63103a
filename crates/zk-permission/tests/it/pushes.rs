//! Pushes outside of the sandbox that a person approved for a session: what that lets run and what not.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use zk_core::model::{Effect, Effects};
use zk_core::service::{CallDecision, CallJudge, CallJudgement, WiderKind};
use zk_permission::{HostPathClassifier, Mode, PermissionJudge, Rules};

const REMOTES: &str = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = git@example.org:a/b.git\n\
                       [remote \"near\"]\n\turl = ../near\n";

/// A repository as git makes it, in a directory of its own.
struct Repository {
    _dir: tempfile::TempDir,
    root: PathBuf,
}

impl Repository {
    fn new(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("project");
        let repository = Self { _dir: dir, root };
        for name in ["objects", "refs", "hooks"] {
            fs::create_dir_all(repository.git().join(name)).unwrap();
        }
        fs::write(repository.git().join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(repository.git().join("config"), config).unwrap();
        let mut index = b"DIRC\0\0\0\x02\0\0\0\0".to_vec();
        index.extend([0; 20]);
        fs::write(repository.git().join("index"), index).unwrap();
        repository
    }

    fn git(&self) -> PathBuf {
        self.root.join(".git")
    }

    fn judge(&self, mode: Mode) -> PermissionJudge {
        let classifier =
            HostPathClassifier::new(std::slice::from_ref(&self.root), None, &["/usr/bin".into()]);
        PermissionJudge::new(mode, Rules::new(), self.root.clone(), Arc::new(classifier)).contained()
    }

    fn call(&self, judge: &PermissionJudge, command: &str) -> CallJudgement {
        let runs = Effect::Executes { command: Some(command.to_owned()), argv: Vec::new() };
        let leaves = Effect::LeavesContext { reason: "it needs the network".to_owned() };
        let list = vec![runs, leaves];
        judge.judge("shell", &Effects::Known { list }, &self.root)
    }
}

fn asks(judged: &CallJudgement) -> bool {
    judged.decision == CallDecision::Ask { by_rule: false }
}

#[test]
fn a_push_to_a_remote_is_allowed_for_the_session_and_nothing_around_it() {
    if !std::path::Path::new("/usr/bin/git").exists() {
        println!("skipped: there is no /usr/bin/git");
        return;
    }
    let repository = Repository::new(&REMOTES.replace("[remote \"near\"]\n\turl = ../near\n", ""));
    let judge = repository.judge(Mode::Auto);
    let asked = repository.call(&judge, "git push origin main");
    assert!(asks(&asked), "{asked:?}");
    let offer = asked.offer.unwrap();
    assert_eq!((offer.kind, offer.label.as_str()), (WiderKind::Prefix, "every `git push …`"));
    judge.remember(&offer, false).unwrap();
    for command in
        ["git push", "git push origin", "git push -u origin mend/cart", "git push --tags -q origin"]
    {
        let judged = repository.call(&judge, command);
        assert_eq!(judged.decision, CallDecision::Allow, "{command}: {judged:?}");
    }
    for command in [
        "git push --force",
        "git push -f origin main",
        "git push origin +main",
        "git push origin :main",
        "git push origin main:other",
        "git push --delete origin main",
        "git push --mirror",
        "git push ../near main",
        "git push near main",
        "git push nowhere main",
        "git push git@example.org:other/b.git main",
        "git push ext::sh -c 'touch x'",
        "git push --receive-pack=x origin",
        "git push --repo=../near",
        "git push origin main && touch x",
        "git push origin main > out",
        "git push origin main | sh",
        "GIT_SSH_COMMAND=x git push origin main",
        "git -c core.sshCommand=x push origin main",
        "git -C /tmp push origin main",
        "./git push origin main",
        "/tmp/git push origin main",
        "env git push origin main",
        "git push origin $(touch x)",
        "git pull",
        "git fetch origin",
        "curl https://example.org",
    ] {
        let judged = repository.call(&judge, command);
        assert!(asks(&judged), "{command}: {judged:?}");
    }
    // For a session, and never for good.
    assert!(judge.remember(&offer, true).is_err());
    judge.forget_session();
    assert!(asks(&repository.call(&judge, "git push")));
}

#[test]
fn a_push_is_not_offered_where_it_would_run_a_hook_or_go_to_this_machine() {
    let offered = |config: &str, hook: Option<&str>| {
        let repository = Repository::new(config);
        if let Some(hook) = hook {
            fs::write(repository.git().join("hooks").join(hook), "#!/bin/sh\n").unwrap();
        }
        let judge = repository.judge(Mode::Ask);
        repository.call(&judge, "git push near main").offer.is_some()
            || repository.call(&judge, "git push").offer.is_some()
            || repository.call(&judge, "git push origin").offer.is_some()
    };
    let origin = REMOTES.replace("[remote \"near\"]\n\turl = ../near\n", "");
    assert!(!offered(&origin, Some("pre-push")));
    assert!(!offered(&origin, Some("reference-transaction")));
    assert!(!offered("[core]\n\tbare = false\n[remote \"near\"]\n\turl = ../near\n", None));
    assert!(!offered(&format!("{origin}[core]\n\thooksPath = .husky\n"), None));
    assert!(!offered(&format!("{origin}[core]\n\tsshCommand = ./ssh\n"), None));
    assert!(!offered("", None));
}
