use std::path::Path;
use std::sync::LazyLock;

use zk_core::model::Effects;
use zk_permission::{
    Call, Circumstances, Decision, Layer, Mode, PathClassifier, Rule, RuleBase, Rules, TextPathClassifier,
    Verdict, judge,
};

/// The rules of the setups with rules.
pub(crate) fn rules() -> Rules {
    RULES.clone()
}

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let base = RuleBase { root: "/p".into(), home: Some("/home/me".into()) };
    let mut rules = Rules::new();
    for (decision, texts) in [
        (
            Decision::Allow,
            &[
                "cargo test **",
                "npm run *",
                "git commit -m *",
                "grep **",
                "make",
                "timeout * make **",
                "./run.sh *",
                "write(out/**)",
            ][..],
        ),
        (Decision::Ask, &["git rebase **"]),
        (Decision::Deny, &["git push **", "rm -rf **", "sudo **", "read(secret/**)", "write(keep/**)"]),
    ] {
        assert_eq!(rules.extend(Layer::User, decision, texts, &base), []);
    }
    rules
});

pub(crate) struct Setup {
    pub(crate) mode: Mode,
    pub(crate) rules: Rules,
    pub(crate) is_contained: bool,
    pub(crate) holds_reads: bool,
    pub(crate) trusts_repository: bool,
}

impl Setup {
    pub(crate) fn new(mode: Mode, rules: Rules) -> Self {
        Self { mode, rules, is_contained: false, holds_reads: true, trusts_repository: true }
    }

    pub(crate) fn named(name: &str) -> Self {
        let none = Rules::new;
        match name {
            "ask" => Self::new(Mode::Ask, none()),
            "untrusted" => Self { trusts_repository: false, ..Self::new(Mode::Ask, none()) },
            "bare" => Self { holds_reads: false, ..Self::new(Mode::Ask, none()) },
            "read-only" => Self::new(Mode::ReadOnly, none()),
            "edits" => Self::new(Mode::AcceptEdits, none()),
            "auto" => Self { is_contained: true, ..Self::new(Mode::Auto, none()) },
            "open" => Self::new(Mode::Auto, none()),
            "all" => Self::new(Mode::All, none()),
            "rules" => Self::new(Mode::Ask, rules()),
            "all-rules" => Self::new(Mode::All, rules()),
            "auto-rules" => Self { is_contained: true, ..Self::new(Mode::Auto, rules()) },
            other => panic!("no setup {other}"),
        }
    }

    /// Whether an unparsable text is asked about in every mode and sandbox.
    pub(crate) fn asks_what_it_does_not_understand(&self) -> bool {
        !self.is_contained && self.mode != Mode::All
    }

    pub(crate) fn command(&self, command: &str) -> Verdict {
        self.call("shell", &Effects::executes(command))
    }

    pub(crate) fn call(&self, tool: &str, effects: &Effects) -> Verdict {
        self.call_in(&TextPathClassifier::new(["/p"]), tool, effects)
    }

    pub(crate) fn call_in(&self, classifier: &dyn PathClassifier, tool: &str, effects: &Effects) -> Verdict {
        self.call_at(Path::new("/p"), classifier, tool, effects)
    }

    pub(crate) fn call_at(
        &self,
        cwd: &Path,
        classifier: &dyn PathClassifier,
        tool: &str,
        effects: &Effects,
    ) -> Verdict {
        let here = Circumstances {
            cwd,
            classifier,
            is_contained: self.is_contained,
            holds_reads: self.holds_reads,
            trusts_repository: self.trusts_repository,
        };
        let verdict = judge(&Call { tool, effects }, self.mode, &self.rules, &here);
        assert!(verdict.reasons.iter().any(|reason| reason.decision == verdict.decision), "{verdict}");
        verdict
    }
}

pub(crate) fn rule(decision: Decision, text: &str) -> Rule {
    let base = RuleBase { root: "/p".into(), home: Some("/home/me".into()) };
    Rule::parse(Layer::User, decision, text, &base).unwrap()
}

pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a script with bash in the judged environment: no start files, only the path.
#[expect(
    clippy::disallowed_methods,
    reason = "the judge is compared with the shell itself, without the harness"
)]
pub(crate) fn bash(script: &str, cwd: &Path, path: &str) -> Ran {
    let file = cwd.join(".script");
    std::fs::write(&file, script).unwrap();
    let output = std::process::Command::new("/bin/bash")
        .args(["--noprofile", "--norc"])
        .arg(&file)
        .current_dir(cwd)
        .env_clear()
        .env("PATH", path)
        .env("LC_ALL", "C.UTF-8")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    Ran {
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
