use zk_core::model::{Effect, Effects};
use zk_core::service::visible_lines;
use zk_permission::{Approval, ApprovalKind, Decision, Explanation, Layer, Rule, RuleBase, quote_all};

use super::print;
use crate::app::AppContext;
use crate::args::cli::PolicyAction;
use crate::containment::Containment;
use crate::exit::{Exit, Failure, Outcome};
use crate::policy;

/// Says what may run and why, and takes back what was approved.
pub(crate) fn policy(app: &AppContext, action: &PolicyAction) -> Outcome<Exit> {
    match action {
        PolicyAction::Test { host: Some(host), .. } => test_host(app, host),
        PolicyAction::Test { host: None, command } => test(app, command),
        PolicyAction::List => list(app),
        PolicyAction::Explain { rule } => explain(app, rule.as_deref()),
        PolicyAction::Revoke { which } => revoke(app, which),
    }
}

fn test(app: &AppContext, command: &[String]) -> Outcome<Exit> {
    let text = match command {
        // As it would be typed: quoted once for the shell that started zk.
        [only] => only.clone(),
        words => quote_all(words),
    };
    judged(app, "shell", &Effects::executes(text))
}

fn test_host(app: &AppContext, host: &str) -> Outcome<Exit> {
    if host.contains('/') {
        let text = format!("rules are about hosts, not about pages; give the host of `{host}` alone");
        return Err(Failure::usage(text));
    }
    judged(app, "fetch", &Effects::one(Effect::Network { hosts: vec![host.to_owned()] }))
}

fn judged(app: &AppContext, tool: &str, effects: &Effects) -> Outcome<Exit> {
    let Containment { mode, is_contained, .. } =
        Containment::of(app, app.settings.flag("permissions.allow_all"))?;
    let verdict = policy::judge(app, mode, is_contained).verdict(tool, effects, &app.cwd);
    let mut lines = vec![format!("{} (mode {mode})", verdict.decision)];
    lines.extend(
        verdict
            .reasons
            .iter()
            .flat_map(|reason| visible_lines(&reason.to_string()))
            .map(|row| format!("  {row}")),
    );
    print(app, &lines)
}

fn list(app: &AppContext) -> Outcome<Exit> {
    let (rules, problem) = policy::rules(app);
    let settings = rules.iter().filter(|rule| rule.layer != Layer::Approvals);
    let mut lines: Vec<String> = settings
        .flat_map(|rule| visible_lines(&format!("{} `{}` ({})", rule.decision, rule.text, rule.layer)))
        .collect();
    if let Some(problem) = problem {
        return Err(Failure::failed(problem));
    }
    let approved = here(app)?;
    for (number, approval) in approved.iter().enumerate() {
        let text = visible_lines(&describe(approval)).join(" ");
        lines.push(format!(
            "{}. {text} (approved {}; `zk policy revoke {}`)",
            number + 1,
            approval.created,
            number + 1
        ));
    }
    if lines.is_empty() {
        lines.push(format!(
            "no rules hold in {}; [permissions] of the settings has lists allow, ask and deny",
            app.project.display()
        ));
    }
    print(app, &lines)
}

fn explain(app: &AppContext, text: Option<&str>) -> Outcome<Exit> {
    let (rules, problem) = policy::rules(app);
    if let Some(problem) = problem {
        return Err(Failure::failed(problem));
    }
    let given = text.map(|text| {
        let base = RuleBase { root: app.project.clone(), home: app.env.path("HOME") };
        // What a rule matches is the same whatever it says; one to allow has the most to tell.
        Rule::parse(Layer::CommandLine, Decision::Allow, text, &base)
    });
    let lines: Vec<String> = match given {
        Some(rule) => explained(&rule.map_err(|error| Failure::usage(error.to_string()))?),
        None => rules.iter().flat_map(explained).collect(),
    };
    if lines.is_empty() {
        return list(app);
    }
    print(app, &lines)
}

fn explained(rule: &Rule) -> Vec<String> {
    let Explanation { says, matches, misses } = rule.explain();
    let mut lines = visible_lines(&format!("{} ({})", rule.text, rule.layer));
    lines.push(format!("  {}", visible_lines(&says).join(" ")));
    lines.extend(matches.iter().map(|text| format!("  matches        {}", visible_lines(text).join(" "))));
    lines.extend(
        misses.iter().map(|(text, why)| format!("  does not match {}: {why}", visible_lines(text).join(" "))),
    );
    lines
}

fn revoke(app: &AppContext, which: &str) -> Outcome<Exit> {
    let approved = here(app)?;
    let by_number = which.parse::<usize>().ok().and_then(|number| approved.get(number.checked_sub(1)?));
    let found = by_number.or_else(|| approved.iter().find(|approval| approval.rule().text == which));
    let (Some(found), Some(store)) = (found, policy::approvals(app)) else {
        let text = format!("nothing approved here is `{which}`; `zk policy list` numbers what is");
        return Err(Failure::usage(text));
    };
    store.revoke(found).map_err(Failure::failed)?;
    print(app, &[format!("not approved any more: {}", visible_lines(&describe(found)).join(" "))])
}

/// What was approved in this project.
fn here(app: &AppContext) -> Outcome<Vec<Approval>> {
    let Some(store) = policy::approvals(app) else { return Ok(Vec::new()) };
    let all = store.list().map_err(Failure::failed)?;
    Ok(all.into_iter().filter(|approval| approval.project == app.project).collect())
}

fn describe(approval: &Approval) -> String {
    match &approval.kind {
        ApprovalKind::Exact { .. } => format!("allow exactly `{}`", approval.rule().text),
        ApprovalKind::Prefix { .. } | ApprovalKind::Directory { .. } => {
            format!("allow `{}`", approval.rule().text)
        }
    }
}
