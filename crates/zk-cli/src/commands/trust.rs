use zk_core::service::{Trust, visible_lines};

use super::print;
use crate::app::AppContext;
use crate::args::cli::TrustAction;
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::ProjectFile;

/// Shows, approves or revokes what this project sets.
pub(crate) fn trust(app: &AppContext, action: &TrustAction) -> Outcome<Exit> {
    if let Some(problem) = app.trust.problem() {
        return Err(Failure::failed(problem));
    }
    let project = app.project.display();
    let mut lines = Vec::new();
    for file in &app.settings.project_files {
        let item = file.item(&app.project);
        let state = match action {
            TrustAction::Status if file.trusted => "trusted",
            TrustAction::Status => "not trusted: what it sets is ignored",
            TrustAction::Add => {
                app.trust.approve(&item).map_err(Failure::failed)?;
                "trusted from now on, as it is"
            }
            TrustAction::Remove => {
                app.trust.revoke(item.project, item.kind, item.name).map_err(Failure::failed)?;
                "not trusted any more"
            }
        };
        lines.push(format!("{project}/{}: {state}", file.name));
        lines.extend(values(file));
    }
    if lines.is_empty() {
        lines.push(format!("{project} has no settings of its own"));
    }
    print(app, &lines)
}

/// What a file sets, a row for each line of each value.
pub(crate) fn values(file: &ProjectFile) -> Vec<String> {
    let rows = file.values.iter().flat_map(|(name, value)| visible_lines(&format!("{name} = {value}")));
    rows.map(|row| format!("│ {row}")).collect()
}
