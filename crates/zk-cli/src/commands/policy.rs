use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{Effect, Effects};
use zk_core::service::{CallJudge, CallPlace, Tool, Trust, TrustItem, visible_lines};
use zk_permission::{
    Approval, ApprovalKind, Decision, Explanation, Layer, Rule, RuleBase, Verdict, quote_all,
};
use zk_tools::{PermissionGate, ToolsOptions, ToolsPlugin};

use super::print;
use crate::app::AppContext;
use crate::args::actions::PolicyAction;
use crate::containment::Containment;
use crate::exit::{Exit, Failure, Outcome};
use crate::{compose, policy, sandbox};

/// Says what may run and why, and takes back what was approved.
pub(crate) fn policy(app: &AppContext, action: &PolicyAction) -> Outcome<Exit> {
    match action {
        PolicyAction::Test { host: Some(host), .. } => test_host(app, host),
        PolicyAction::Test { host: None, tool: Some(tool), command } => test_tool(app, tool, command),
        PolicyAction::Test { host: None, tool: None, command } => test(app, command),
        PolicyAction::List => list(app),
        PolicyAction::Explain { rule } => explain(app, rule.as_deref()),
        PolicyAction::Revoke { which } => revoke(app, which),
    }
}

/// Options of zk that decide a verdict, beside the mode: many programs have options of these names.
const VERDICT_OPTIONS: [&str; 3] = ["--config", "--cwd", "--preset"];

fn test(app: &AppContext, command: &[String]) -> Outcome<Exit> {
    refuse_late_options(command)?;
    let text = match command {
        // As it would be typed: quoted once for the shell that started zk.
        [only] => only.clone(),
        words => quote_all(words),
    };
    let args = json!({ "command": text });
    // Effects of what the tool runs for it: a line of the settings may come before it.
    judged(app, "shell", &|has_sandbox| effects(app, "shell", &args, has_sandbox), Some(&args))
}

/// Refuses options of zk behind the command: they would be judged as a part of it, in another mode than was asked for.
fn refuse_late_options(command: &[String]) -> Outcome<()> {
    let Some((first, rest)) = command.split_first() else { return Ok(()) };
    let is_text = first.contains(char::is_whitespace);
    let is_option = |word: &&String| {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        name == "--permission-mode" || (is_text && VERDICT_OPTIONS.contains(&name))
    };
    let Some(option) = rest.iter().find(is_option) else { return Ok(()) };
    let name = option.split_once('=').map_or(option.as_str(), |(name, _)| name);
    Err(Failure::usage(format!(
        "`{name}` stands behind the command, where it would be judged as a part of it: options of zk come first, as in \
         `zk policy test {name} … 'COMMAND'`; a command with an option of that name is one text in quotes"
    )))
}

/// Judges a call of a built-in tool by the effects that the tool tells; what another one does is not known.
fn test_tool(app: &AppContext, name: &str, args: &[String]) -> Outcome<Exit> {
    refuse_late_options(args)?;
    let text = args.join(" ");
    let args: Value = serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!("the arguments of `{name}` are not JSON: {error}: {text}"))
    })?;
    judged(app, name, &|has_sandbox| effects(app, name, &args, has_sandbox), Some(&args))
}

/// The effects that the built-in tool `name` tells of a call.
fn effects(app: &AppContext, name: &str, args: &Value, has_sandbox: bool) -> Outcome<Effects> {
    let bus = Bus::new();
    let options = ToolsOptions {
        outside: has_sandbox,
        shell_bounds: has_sandbox.then(String::new),
        ..sandbox::with_git(app, app.settings.tools.clone().sorted_limits())
    };
    bus.install(&ToolsPlugin::new(options)).map_err(Failure::failed)?;
    #[cfg(feature = "fetch")]
    bus.install(&zk_tools::FetchPlugin::new(app.settings.fetch.clone())).map_err(Failure::failed)?;
    Ok(match bus.item::<dyn Tool>(name) {
        Some(tool) => tool.effects(args, &CallPlace { cx: bus.cx(), cwd: app.cwd.clone() }),
        None => Effects::Unknown,
    })
}

fn test_host(app: &AppContext, host: &str) -> Outcome<Exit> {
    if host.contains('/') {
        let text = format!("rules are about hosts, not about pages; give the host of `{host}` alone");
        return Err(Failure::usage(text));
    }
    let effects = Effects::one(Effect::Network { hosts: vec![host.to_owned()] });
    judged(app, "fetch", &|_| Ok(effects.clone()), None)
}

/// Judges a call; by its arguments too, with which it may have been allowed for good as it is.
fn judged(
    app: &AppContext,
    tool: &str,
    effects: &dyn Fn(bool) -> Outcome<Effects>,
    args: Option<&Value>,
) -> Outcome<Exit> {
    let containment = Containment::of(app, app.settings.permissions.allow_all)?;
    let effects = &effects(containment.sandbox.is_some())?;
    let mode = containment.mode;
    let judge = policy::judge(app, &containment);
    let verdict = judge.verdict(tool, effects, &app.cwd);
    let is_remembered =
        asks_by_no_rule(&verdict) && args.is_some_and(|args| is_remembered(app, tool, args, effects));
    let decision = if is_remembered { Decision::Allow } else { verdict.decision };
    let mut lines = vec![format!("{decision} (mode {mode})")];
    if is_remembered {
        lines.push(format!("  allowed for good, exactly this call in {}", app.cwd.display()));
    }
    lines.extend(
        verdict
            .reasons
            .iter()
            .flat_map(|reason| visible_lines(&reason.to_string()))
            .map(|row| format!("  {row}")),
    );
    if tool == "shell" && decision != Decision::Deny {
        let is_read = containment.for_reads.is_tested() && judge.allows_as_read(tool, effects, &app.cwd);
        let place = match is_read {
            true => "a read-only sandbox".to_owned(),
            false if effects.leaves_context() => "a process of yours, outside of the sandbox".to_owned(),
            false => containment.place(),
        };
        lines.push(format!("  it would run in {place}"));
    }
    print(app, &lines)
}

/// Whether an earlier answer can settle it: a rule that asks does so every time, and what is denied stays so.
fn asks_by_no_rule(verdict: &Verdict) -> bool {
    verdict.decision == Decision::Ask
        && !verdict.reasons.iter().any(|reason| reason.decision == Decision::Ask && reason.rule.is_some())
}

/// Whether a call with exactly these arguments was allowed for good in this directory.
fn is_remembered(app: &AppContext, tool: &str, args: &Value, effects: &Effects) -> bool {
    let Ok(files) = compose::files(app) else { return false };
    let Some(bytes) = PermissionGate::remembered_bytes(&files, &app.cwd, tool, args, effects) else {
        return false;
    };
    // The names are without secrets, so a call is known by its bytes alone.
    let names = calls(app).unwrap_or_default();
    let items = names.iter().map(|name| TrustItem {
        project: &app.project,
        kind: PermissionGate::TRUST_KIND,
        name,
        bytes: &bytes,
    });
    app.trust.are_trusted(&items.collect::<Vec<_>>()).contains(&true)
}

/// The names of the calls that were allowed for good in this project.
fn calls(app: &AppContext) -> Outcome<Vec<String>> {
    let all = app.trust.approved(&app.project).map_err(Failure::failed)?;
    let calls = all.into_iter().filter(|(kind, _)| kind == PermissionGate::TRUST_KIND);
    Ok(calls.map(|(_, name)| name).collect())
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
    for (number, allowed) in (1..).zip(&approved) {
        let text = visible_lines(&allowed.describe()).join(" ");
        let day = match allowed {
            Allowed::Rule(approval) => format!("approved {}; ", approval.created),
            Allowed::Call(_) => String::new(),
        };
        lines.push(format!("{number}. {text} ({day}`zk policy revoke {number}`)"));
        lines.extend(examples(&allowed.explain()).map(|row| format!(" {row}")));
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
        // Matches of a rule are the same whatever it says; one to allow has the most to tell.
        Rule::parse(Layer::CommandLine, Decision::Allow, text, &base)
    });
    let lines: Vec<String> = match given {
        Some(rule) => explained(&rule.map_err(|error| Failure::usage(error.to_string()))?),
        None => {
            let calls = calls(app)?.into_iter().map(Allowed::Call);
            let calls = calls.flat_map(|call| {
                let heading = visible_lines(&call.describe()).join(" ");
                std::iter::once(heading).chain(rows(&call.explain()))
            });
            rules.iter().flat_map(explained).chain(calls).collect()
        }
    };
    if lines.is_empty() {
        return list(app);
    }
    print(app, &lines)
}

fn explained(rule: &Rule) -> Vec<String> {
    let mut lines = visible_lines(&format!("{} ({})", rule.text, rule.layer));
    lines.extend(rows(&rule.explain()));
    lines
}

/// Returns the text of an explanation, and its examples.
fn rows(explanation: &Explanation) -> Vec<String> {
    let says = format!("  {}", visible_lines(&explanation.says).join(" "));
    std::iter::once(says).chain(examples(explanation)).collect()
}

fn examples(explanation: &Explanation) -> impl Iterator<Item = String> {
    let shown = |text: &str| visible_lines(text).join(" ");
    let matches = explanation.matches.iter().map(move |text| format!("  matches        {}", shown(text)));
    let misses = explanation.misses.iter();
    matches.chain(misses.map(move |(text, why)| format!("  does not match {}: {why}", shown(text))))
}

fn revoke(app: &AppContext, which: &str) -> Outcome<Exit> {
    let approved = here(app)?;
    let by_number = which.parse::<usize>().ok().and_then(|number| approved.get(number.checked_sub(1)?));
    let found = by_number.or_else(|| approved.iter().find(|allowed| allowed.text() == which));
    let Some(found) = found else {
        let text = format!("nothing approved here is `{which}`; `zk policy list` numbers what is");
        return Err(Failure::usage(text));
    };
    match found {
        Allowed::Rule(approval) => {
            if let Some(store) = policy::approvals(app) {
                store.revoke(approval).map_err(Failure::failed)?;
            }
        }
        Allowed::Call(name) => {
            let kind = PermissionGate::TRUST_KIND;
            app.trust.revoke(&app.project, kind, name).map_err(Failure::failed)?;
        }
    }
    print(app, &[format!("not approved any more: {}", visible_lines(&found.describe()).join(" "))])
}

/// Something that was allowed for good.
enum Allowed {
    /// In the file of approvals.
    Rule(Approval),
    /// Exactly one call, in the trust store, by its name there.
    Call(String),
}

impl Allowed {
    fn text(&self) -> String {
        match self {
            Self::Rule(approval) => approval.rule().text,
            Self::Call(name) => name.clone(),
        }
    }

    fn explain(&self) -> Explanation {
        match self {
            Self::Rule(approval) => approval.rule().explain(),
            Self::Call(name) => Explanation {
                says: "allow: exactly this call in one directory, of which a hash is kept".to_owned(),
                matches: vec![name.clone()],
                misses: vec![
                    ("the same with any other argument".to_owned(), "it is another call".to_owned()),
                    ("the same in another directory".to_owned(), "it was approved for one".to_owned()),
                ],
            },
        }
    }

    fn describe(&self) -> String {
        let is_exact = match self {
            Self::Rule(Approval { kind: ApprovalKind::Exact { .. }, .. }) | Self::Call(_) => "exactly ",
            Self::Rule(Approval {
                kind: ApprovalKind::Prefix { .. } | ApprovalKind::Directory { .. },
                ..
            }) => "",
        };
        format!("allow {is_exact}`{}`", self.text())
    }
}

/// Lists what was approved in this project: rules in the order in which they were given, then calls.
fn here(app: &AppContext) -> Outcome<Vec<Allowed>> {
    let rules = match policy::approvals(app) {
        Some(store) => store.list().map_err(Failure::failed)?,
        None => Vec::new(),
    };
    let rules = rules.into_iter().filter(|approval| approval.project == app.project).map(Allowed::Rule);
    Ok(rules.chain(calls(app)?.into_iter().map(Allowed::Call)).collect())
}
