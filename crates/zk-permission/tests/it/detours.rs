use std::collections::BTreeMap;

use zk_permission::{Decision, Mode, Rules};

use crate::support::{Setup, rule};

/// Rows of a rule with what it forbids, and of a way around it in which `{}` stands for that.
const TABLE: &str = include_str!("detours.tsv");

struct Forbidden {
    kind: &'static str,
    rule: &'static str,
    subject: &'static str,
}

fn rows() -> (Vec<Forbidden>, BTreeMap<&'static str, Vec<&'static str>>) {
    let (mut rules, mut ways) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        match line.split('\t').collect::<Vec<_>>().as_slice() {
            ["rule", kind, rule, subject] => rules.push(Forbidden { kind, rule, subject }),
            [kind, way] => ways.entry(*kind).or_default().push(*way),
            _ => panic!("a row is neither a rule nor a way: {line}"),
        }
    }
    (rules, ways)
}

#[test]
fn no_way_around_a_rule_that_denies_runs_unasked() {
    let (rules, ways) = rows();
    let (mut allowed, mut count) = (Vec::new(), 0);
    for forbidden in &rules {
        for decision in [Decision::Deny, Decision::Ask] {
            let mut only = Rules::new();
            only.push(rule(decision, forbidden.rule));
            for (mode, is_contained) in [(Mode::All, false), (Mode::Auto, true)] {
                let setup = Setup { is_contained, ..Setup::new(mode, only.clone()) };
                for way in &ways[forbidden.kind] {
                    let command = way.replace("{}", forbidden.subject);
                    count += 1;
                    if setup.command(&command).decision == Decision::Allow {
                        allowed.push(format!("{mode}: {decision} `{}`: {command}", forbidden.rule));
                    }
                }
            }
        }
    }
    assert!(allowed.is_empty(), "{} of {count} allowed:\n{}", allowed.len(), allowed.join("\n"));
    assert!(rules.len() >= 30 && ways.values().all(|ways| ways.len() >= 60), "{} rules", rules.len());
}
