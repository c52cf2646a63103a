use serde_json::Value;
use zk_core::model::Effects;
use zk_core::service::{CallJudge, Trust, TrustItem, visible_lines};
use zk_permission::{Decision, PermissionGate, Verdict};

use super::super::print_words as print;
use super::allowed::allowed_calls;
use crate::app::Workplace;
use crate::containment;
use crate::exit::{Exit, Outcome};
use crate::settings::Settings;
use crate::{compose, policy};

/// Judges a call and prints the verdict. With `args`, a permanent approval of exactly this call counts, too.
pub(super) fn print_verdict(
    work: &Workplace,
    settings: &Settings,
    tool: &str,
    effects: &dyn Fn(bool) -> Outcome<Effects>,
    args: Option<&Value>,
) -> Outcome<Exit> {
    let containment = containment::select(work, settings, settings.permissions.allow_all)?;
    let effects = &effects(containment.sandbox.is_some())?;
    let mode = containment.mode;
    let (judge, _) = policy::judge(work, settings, &containment, true);
    let verdict = judge.verdict(tool, effects, &work.cwd);
    let is_remembered = can_be_approved(&verdict)
        && args.is_some_and(|args| is_remembered(work, settings, tool, args, effects));
    let decision = if is_remembered { Decision::Allow } else { verdict.decision };
    let mut lines = vec![format!("{decision} (mode {mode})")];
    if is_remembered {
        lines.push(format!("  allowed for good, exactly this call in {}", work.cwd.display()));
    }
    lines.extend(
        verdict
            .reasons
            .iter()
            .flat_map(|reason| visible_lines(&reason.to_string()))
            .map(|row| format!("  {row}")),
    );
    if tool == "shell" && decision != Decision::Deny {
        let is_read = containment.for_reads.is_tested() && judge.allows_as_read(tool, effects, &work.cwd);
        let place = match is_read {
            true => "a read-only sandbox".to_owned(),
            false if effects.leaves_context() => "a process of yours, outside of the sandbox".to_owned(),
            false => containment.place(),
        };
        lines.push(format!("  it would run in {place}"));
    }
    print(&work.machine, &lines)
}

/// Whether a stored approval can allow the call: not if the call is denied, or a rule asks every time.
fn can_be_approved(verdict: &Verdict) -> bool {
    verdict.decision == Decision::Ask
        && !verdict.reasons.iter().any(|reason| reason.decision == Decision::Ask && reason.rule.is_some())
}

/// Whether a call with exactly these arguments was permanently allowed in this directory.
fn is_remembered(work: &Workplace, settings: &Settings, tool: &str, args: &Value, effects: &Effects) -> bool {
    let Ok(files) = compose::files(work, settings) else { return false };
    let Some(bytes) = PermissionGate::remembered_bytes(&files, &work.cwd, tool, args, effects) else {
        return false;
    };
    // Stored names have secrets redacted, so calls are compared by their bytes.
    let names = allowed_calls(work).unwrap_or_default();
    let items = names.iter().map(|name| TrustItem {
        project: &work.project,
        kind: PermissionGate::TRUST_KIND,
        name,
        bytes: &bytes,
    });
    work.machine.trust.are_trusted(&items.collect::<Vec<_>>()).contains(&true)
}
