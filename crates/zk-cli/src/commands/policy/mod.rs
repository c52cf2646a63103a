mod allowed;
mod judged;
mod verdicts;

use zk_core::service::{Trust, visible_lines};
use zk_permission::PermissionGate;
use zk_permission::{Decision, Explanation, Layer, Rule, RuleBase};

use super::print_words as print;
use crate::app::{AppContext, Workplace};
use crate::args::actions::PolicyAction;
use crate::exit::{Exit, Failure, Outcome};
use crate::policy;
use crate::settings::Settings;
use allowed::{Allowed, allowed_calls, project_approvals};
use verdicts::{test, test_host, test_tool};

/// Explains which calls may run, and revokes approvals.
pub(crate) fn policy(app: &AppContext, action: &PolicyAction) -> Outcome<Exit> {
    match action {
        PolicyAction::Test { host: Some(host), .. } => test_host(&app.work, &app.settings, host),
        PolicyAction::Test { host: None, tool: Some(tool), command } => {
            test_tool(&app.work, &app.settings, tool, command)
        }
        PolicyAction::Test { host: None, tool: None, command } => test(&app.work, &app.settings, command),
        PolicyAction::List => list(&app.work, &app.settings),
        PolicyAction::Explain { rule } => explain(&app.work, &app.settings, rule.as_deref()),
        PolicyAction::Revoke { which } => revoke(&app.work, which),
    }
}

fn list(work: &Workplace, settings: &Settings) -> Outcome<Exit> {
    let (rules, problem) = policy::rules(work, settings);
    let settings = rules.iter().filter(|rule| rule.layer != Layer::Approvals);
    let mut lines: Vec<String> = settings
        .flat_map(|rule| visible_lines(&format!("{} `{}` ({})", rule.decision, rule.text, rule.layer)))
        .collect();
    if let Some(problem) = problem {
        return Err(Failure::failed(problem));
    }
    let approved = project_approvals(work)?;
    for (number, allowed) in (1..).zip(&approved) {
        let text = visible_lines(&allowed.describe()).join(" ");
        let day = match allowed {
            Allowed::Rule(approval) => format!("approved {}; ", approval.created),
            Allowed::Call(_) => String::new(),
        };
        lines.push(format!("{number}. {text} ({day}`zk policy revoke {number}`)"));
        lines.extend(example_lines(&allowed.explain()).map(|row| format!(" {row}")));
    }
    if lines.is_empty() {
        lines.push(
            "No rules yet. Add some under [permissions] in settings.toml: allow = [\"cargo test **\"]"
                .to_owned(),
        );
    }
    print(&work.machine, &lines)
}

fn explain(work: &Workplace, settings: &Settings, text: Option<&str>) -> Outcome<Exit> {
    let (rules, problem) = policy::rules(work, settings);
    if let Some(problem) = problem {
        return Err(Failure::failed(problem));
    }
    let given = text.map(|text| {
        let base = RuleBase { root: work.project.clone(), home: work.machine.env.path("HOME") };
        // The decision does not change the matches of a rule; for an allowing one, the explanation is the
        // longest.
        Rule::parse(Layer::CommandLine, Decision::Allow, text, &base)
    });
    let lines: Vec<String> = match given {
        Some(rule) => explain_lines(&rule.map_err(|error| Failure::usage(error.to_string()))?),
        None => {
            let calls = allowed_calls(work)?.into_iter().map(Allowed::Call);
            let calls = calls.flat_map(|call| {
                let heading = visible_lines(&call.describe()).join(" ");
                std::iter::once(heading).chain(explanation_lines(&call.explain()))
            });
            rules.iter().flat_map(explain_lines).chain(calls).collect()
        }
    };
    if lines.is_empty() {
        return list(work, settings);
    }
    print(&work.machine, &lines)
}

fn explain_lines(rule: &Rule) -> Vec<String> {
    let mut lines = visible_lines(&format!("{} ({})", rule.text, rule.layer));
    lines.extend(explanation_lines(&rule.explain()));
    lines
}

/// Formats an explanation with its examples.
fn explanation_lines(explanation: &Explanation) -> Vec<String> {
    let says = format!("  {}", visible_lines(&explanation.says).join(" "));
    std::iter::once(says).chain(example_lines(explanation)).collect()
}

fn example_lines(explanation: &Explanation) -> impl Iterator<Item = String> {
    let shown = |text: &str| visible_lines(text).join(" ");
    let matches = explanation.matches.iter().map(move |text| format!("  matches        {}", shown(text)));
    let misses = explanation.misses.iter();
    matches.chain(misses.map(move |(text, why)| format!("  does not match {}: {why}", shown(text))))
}

fn revoke(work: &Workplace, which: &str) -> Outcome<Exit> {
    let approved = project_approvals(work)?;
    let by_number = which.parse::<usize>().ok().and_then(|number| approved.get(number.checked_sub(1)?));
    let found = by_number.or_else(|| approved.iter().find(|allowed| allowed.text() == which));
    let Some(found) = found else {
        let text = format!("nothing approved here is `{which}`; `zk policy list` numbers what is");
        return Err(Failure::usage(text));
    };
    match found {
        Allowed::Rule(approval) => {
            if let Some(store) = policy::approvals(&work.machine) {
                store.revoke(approval).map_err(Failure::failed)?;
            }
        }
        Allowed::Call(name) => {
            let kind = PermissionGate::TRUST_KIND;
            work.machine.trust.revoke(&work.project, kind, name).map_err(Failure::failed)?;
        }
    }
    print(&work.machine, &[format!("not approved any more: {}", visible_lines(&found.describe()).join(" "))])
}
