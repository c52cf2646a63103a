use std::io::IsTerminal;

use zk_core::service::visible_line;
use zk_exec::{StateFlaw, state_flaws};
use zk_tui::term::print_stderr;

use super::findings::{Finding, warning};
use crate::app::Machine;
use crate::commands::print_words as print;
use crate::exit::{Exit, Failure, Outcome};

/// Most flaws that are listed one by one.
const MAX_SHOWN: usize = 20;

/// Returns the flaws of zk's own files, such as wrong modes and leftovers. Copies of plugins and outputs of commands
/// are not checked.
fn flaws(machine: &Machine) -> Vec<StateFlaw> {
    let opaque: Vec<_> = machine.dirs.plugins().into_iter().chain(machine.dirs.outputs()).collect();
    match &machine.dirs.state {
        Some(state) => state_flaws(state, &machine.dirs.private(), &opaque),
        None => Vec::new(),
    }
}

/// Returns findings about zk's own files. A missing directory is not reported, since zk creates it when it is needed.
pub(super) fn state_findings(machine: &Machine) -> Vec<Finding> {
    let flaws: Vec<StateFlaw> = flaws(machine).into_iter().filter(|flaw| !flaw.is_absent()).collect();
    let mut told: Vec<Finding> =
        flaw_lines(&flaws).into_iter().map(|line| warning(format!("own files: {line}"))).collect();
    let mendable = flaws.iter().filter(|flaw| flaw.is_mendable()).count();
    if mendable > 0 {
        told.push(warning(format!(
            "own files: `zk doctor --fix` mends {mendable} of these, and asks before"
        )));
    }
    told
}

fn flaw_lines(flaws: &[StateFlaw]) -> Vec<String> {
    let mut lines: Vec<String> =
        flaws.iter().take(MAX_SHOWN).map(|flaw| visible_line(&flaw.to_string())).collect();
    if flaws.len() > MAX_SHOWN {
        lines.push(format!("and {} more", flaws.len() - MAX_SHOWN));
    }
    lines
}

/// Shows what can be mended, and mends it once the person agrees.
///
/// # Errors
/// If nobody can be asked and `--yes` is not there, or if something could not be mended.
pub(super) fn mend(machine: &Machine, is_agreed: bool) -> Outcome<()> {
    let (mendable, others): (Vec<_>, Vec<_>) = flaws(machine).into_iter().partition(StateFlaw::is_mendable);
    let mut lines = flaw_lines(&others);
    if mendable.is_empty() {
        lines.push("There is nothing to mend.".to_owned());
        return print(machine, &lines).map(|_| ());
    }
    lines.extend(flaw_lines(&mendable));
    print(machine, &lines)?;
    if !is_agreed && !ask_to_mend(&mendable)? {
        return print(machine, &["Nothing was changed.".to_owned()]).map(|_| ());
    }
    let total = mendable.len();
    let failed: Vec<String> = mendable
        .iter()
        .filter_map(|flaw| flaw.mend().err().map(|error| format!("{}: {error}", flaw.path.display())))
        .collect();
    print(machine, &[format!("Mended {} of {total}.", total - failed.len())])?;
    match failed.first() {
        None => Ok(()),
        Some(first) => Err(Failure::new(Exit::Failed, format!("not mended: {}", visible_line(first)))),
    }
}

fn ask_to_mend(flaws: &[StateFlaw]) -> Outcome<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::usage(
            "nobody can be asked here, so nothing was changed: `zk doctor --fix --yes` does what is shown",
        ));
    }
    print_stderr(&match flaws.len() {
        1 => "Do this? [y/N]".to_owned(),
        all => format!("Do all {all} of these? [y/N]"),
    });
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(Failure::failed)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
