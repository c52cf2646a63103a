//! Notes on what the sandbox denied to a command, for the model and for the person.

use std::path::Path;

use zk_core::kernel::Cx;
use zk_core::service::{Command, Denial, DeniedAct, Files};

use crate::ToolsOptions;

/// Note for the model, with the next step.
pub(super) fn for_model(denial: &Denial, options: &ToolsOptions, cx: &Cx) -> String {
    let ask = if options.outside {
        "call this again with `outside` and a reason to ask the user to run it outside"
    } else {
        "ask the user to run it outside"
    };
    let instead = match denial.act {
        DeniedAct::Exceed | DeniedAct::SetAside => return format!("({denial})"),
        DeniedAct::Connect if options.shell_bounds.is_some() => {
            "name the host in the command, so that the user is asked about it"
        }
        DeniedAct::Write if is_addable(denial, cx) => {
            "use another path, ask the user to add its directory with /add-dir"
        }
        DeniedAct::Connect | DeniedAct::Read | DeniedAct::Write => "use another path",
    };
    format!("({denial}; {instead}, or {ask})")
}

/// Lines for the person, with the command that would allow it.
pub(super) fn for_person(denial: &Denial, cx: &Cx) -> Vec<String> {
    if denial.act == DeniedAct::Write && is_addable(denial, cx) {
        let Denial { target, reason, .. } = denial;
        return vec![
            format!("(possibly denied by the sandbox: write {target})"),
            format!("({reason}; /add-dir adds its directory)"),
        ];
    }
    vec![format!("({denial})")]
}

/// Whether the person can add the directory of a denied write to those that commands work in.
fn is_addable(denial: &Denial, cx: &Cx) -> bool {
    let can_add = cx.item::<dyn Command>("add-dir").is_some();
    let is_outside =
        |files: &dyn Files| !files.roots().iter().any(|root| Path::new(&denial.target).starts_with(root));
    can_add && cx.service::<dyn Files>().is_some_and(|files| is_outside(&*files))
}
