//! Judges the command given as arguments, as it would be in the mode `ask` with two rules.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use zk_core::model::Effects;
use zk_permission::{
    Call, Circumstances, Decision, Layer, Mode, Rule, RuleBase, Rules, TextPathClassifier, judge,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cwd = std::env::current_dir()?;
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let command = if command.is_empty() { "cargo test && git push --force".to_owned() } else { command };

    let base = RuleBase { root: cwd.clone(), home: None };
    let mut rules = Rules::new();
    rules.push(Rule::parse(Layer::User, Decision::Allow, "cargo test **", &base)?);
    rules.push(Rule::parse(Layer::User, Decision::Deny, "git push --force **", &base)?);

    let classifier = TextPathClassifier::new([&cwd]);
    let here = Circumstances {
        cwd: &cwd,
        classifier: &classifier,
        is_contained: false,
        holds_reads: true,
        trusts_repository: true,
    };
    let effects = Effects::executes(command);
    println!("{}", judge(&Call { tool: "shell", effects: &effects }, Mode::Ask, &rules, &here));
    Ok(())
}
