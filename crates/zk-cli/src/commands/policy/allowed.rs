use zk_permission::PermissionGate;
use zk_permission::{Approval, ApprovalKind, Explanation};

use crate::app::Workplace;
use crate::exit::{Failure, Outcome};
use crate::policy;

/// Returns the names of the permanently allowed calls in this project.
pub(super) fn allowed_calls(work: &Workplace) -> Outcome<Vec<String>> {
    let all = work.machine.trust.approved(&work.project).map_err(Failure::failed)?;
    let calls = all.into_iter().filter(|(kind, _)| kind == PermissionGate::TRUST_KIND);
    Ok(calls.map(|(_, name)| name).collect())
}

/// Permanent approval of calls in this project.
pub(super) enum Allowed {
    /// A rule in the file of approvals.
    Rule(Approval),
    /// One exact call, by its name in the trust store.
    Call(String),
}

impl Allowed {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Rule(approval) => approval.rule().text,
            Self::Call(name) => name.clone(),
        }
    }

    pub(super) fn explain(&self) -> Explanation {
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

    pub(super) fn describe(&self) -> String {
        let is_exact = match self {
            Self::Rule(Approval { kind: ApprovalKind::Exact { .. }, .. }) | Self::Call(_) => "exactly ",
            Self::Rule(Approval {
                kind:
                    ApprovalKind::Prefix { .. }
                    | ApprovalKind::Directory { .. }
                    | ApprovalKind::Reads { .. }
                    | ApprovalKind::Code(_)
                    | ApprovalKind::Tools { .. },
                ..
            }) => "",
        };
        let sandbox = match self {
            Self::Rule(Approval { kind: ApprovalKind::Prefix { .. }, .. }) => " in the sandbox",
            Self::Rule(_) | Self::Call(_) => "",
        };
        format!("allow {is_exact}`{}`{sandbox}", self.text())
    }
}

/// Lists the approvals of this project: rules in the order of their approval, then calls.
pub(super) fn project_approvals(work: &Workplace) -> Outcome<Vec<Allowed>> {
    let rules = match policy::approvals(&work.machine) {
        Some(store) => store.list().map_err(Failure::failed)?,
        None => Vec::new(),
    };
    let rules = rules.into_iter().filter(|approval| approval.project == work.project).map(Allowed::Rule);
    Ok(rules.chain(allowed_calls(work)?.into_iter().map(Allowed::Call)).collect())
}
