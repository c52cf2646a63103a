use std::collections::BTreeMap;

use zk_permission::{Decision, Mode, Rules};

use crate::support::{Setup, rule};

/// Rows of a rule with a forbidden command, and of detours in which `{}` is that command.
const TABLE: &str = include_str!("detours.tsv");

/// Number of rules that are tested with every detour; others with every tenth, or with all if `ZK_DETOURS` is
/// `all`.
const RULES_WITH_ALL_WAYS: usize = 30;

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

#[expect(clippy::disallowed_methods, reason = "the size of the campaign, from outside")]
fn is_campaign() -> bool {
    std::env::var_os("ZK_DETOURS").is_some_and(|size| size == "all")
}

#[test]
fn no_way_around_a_rule_that_denies_runs_unasked() {
    let (rules, ways) = rows();
    let (mut allowed, mut count) = (Vec::new(), 0);
    let is_campaign = is_campaign();
    for (at, forbidden) in rules.iter().enumerate() {
        let is_tried = |way: &usize| is_campaign || at < RULES_WITH_ALL_WAYS || (way + at).is_multiple_of(10);
        for decision in [Decision::Deny, Decision::Ask] {
            let mut only = Rules::new();
            only.push(rule(decision, forbidden.rule));
            for (mode, is_contained) in [(Mode::All, false), (Mode::Auto, true)] {
                let setup = Setup { is_contained, ..Setup::new(mode, only.clone()) };
                let all = ways[forbidden.kind].iter().enumerate();
                for (_, way) in all.filter(|(number, _)| is_tried(number)) {
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
    assert!(rules.len() >= 300 && ways.values().all(|ways| ways.len() >= 60), "{} rules", rules.len());
}
