//! Costs of a verdict: `cargo bench -p zk-harness-permission`, or `--profile quick` for a quick look.
//!
//! The bar: a command of 200 bytes ≤ 50 µs, with fifty rules; a text of any length in time that its length allows.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on stops")]

use std::path::Path;

use divan::{Bencher, black_box};
use zk_core::model::Effects;
use zk_permission::{
    Call, Circumstances, Decision, Layer, Mode, Rule, RuleBase, Rules, Script, TextPathClassifier, judge,
};

fn main() {
    divan::main();
}

const COMMAND: &str = "cargo test -p zk-harness-core --all-targets 2>&1 | tail -n 40 && git log --oneline -n 10 -- crates/zk-core \
                       && grep -rn --include='*.rs' 'fn main' crates/zk-core/src | sort -u | head -n 20 > /dev/null";

fn rules() -> Rules {
    let base = RuleBase { root: "/p".into(), home: None };
    let mut rules = Rules::new();
    for at in 0..48 {
        rules.push(Rule::parse(Layer::User, Decision::Allow, &format!("tool{at} run * **"), &base).unwrap());
    }
    rules.push(Rule::parse(Layer::User, Decision::Allow, "cargo test **", &base).unwrap());
    rules.push(Rule::parse(Layer::User, Decision::Deny, "git push **", &base).unwrap());
    rules
}

#[divan::bench]
fn judge_200_bytes(bencher: Bencher<'_, '_>) {
    let (rules, classifier) = (rules(), TextPathClassifier::new(["/p"]));
    let here = Circumstances {
        cwd: Path::new("/p"),
        classifier: &classifier,
        is_contained: false,
        holds_reads: true,
        trusts_repository: true,
    };
    let effects = Effects::executes(COMMAND);
    let call = Call { tool: "shell", effects: &effects };
    assert_eq!(judge(&call, Mode::Ask, &rules, &here).decision, Decision::Allow);
    bencher.bench(|| judge(black_box(&call), Mode::Ask, &rules, &here));
}

/// Judges an unparsable text of this size in bytes.
#[divan::bench(args = [1_000, 10_000, 100_000, 1_000_000])]
fn judge_long_text(bencher: Bencher<'_, '_>, bytes: usize) {
    let classifier = TextPathClassifier::new(["/p"]);
    let here = Circumstances {
        cwd: Path::new("/p"),
        classifier: &classifier,
        is_contained: true,
        holds_reads: true,
        trusts_repository: true,
    };
    let line = "git -C git status foo, and words of a document\n";
    let effects = Effects::executes(format!("cat <<'E' > out\n{}E\n", line.repeat(bytes / line.len())));
    let call = Call { tool: "shell", effects: &effects };
    bencher.bench(|| judge(black_box(&call), Mode::Auto, &Rules::new(), &here));
}

#[divan::bench]
fn parse_200_bytes(bencher: Bencher<'_, '_>) {
    bencher.bench(|| Script::parse(black_box(COMMAND)));
}
