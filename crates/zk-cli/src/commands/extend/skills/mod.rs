mod check;
mod manage;
mod rows;
mod show;

use std::time::Duration;

use serde_json::Value;
use zk_core::service::visible_line;
use zk_mcp::McpServers;
use zk_skills::{SkillSet, Skills};

use super::{print, print_text};
use crate::app::{AppContext, Machine, runtime};
use crate::args::actions::SkillsAction;
use crate::compose::{self, HostOptions};
use crate::exit::{Exit, Failure, Outcome};
use crate::sessions::Session;
use crate::skills;
use check::check;
use manage::{add, new, remove};
use rows::{Row, rows};
use show::show;

/// Lists, shows, checks and manages skills.
pub(crate) fn skills(app: &AppContext, action: &SkillsAction) -> Outcome<Exit> {
    match action {
        SkillsAction::List { json } => list(app, *json),
        SkillsAction::Show { name } => show(app, name),
        SkillsAction::Check { paths, json } => check(app, paths, *json),
        SkillsAction::Add { path, project } => add(&app.work, path, *project),
        SkillsAction::Remove { name, project } => remove(&app.work, &app.settings, name, *project),
        SkillsAction::New { name, project } => new(&app.work, name, *project),
    }
}

/// Time limit for MCP servers to list their skills.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// Finds all skills, including those of plugins and MCP servers, which are started for this.
fn find_all(app: &AppContext) -> Outcome<SkillSet> {
    let has_others = !app.settings.additions.plugins.is_empty() || !app.settings.mcp_servers().0.is_empty();
    if !has_others || !app.settings.skills.enabled {
        return Ok(skills::find(&app.work, &app.settings));
    }
    runtime()?.block_on(async {
        let host = HostOptions { allow_all: false, ..HostOptions::unattended(&app.settings) };
        let bus = compose::bus(app, &Session::default(), host).await?;
        bus.warm_up();
        if let Some(servers) = bus.service::<McpServers>() {
            servers.skills_ready(LIST_TIMEOUT).await;
        }
        let found = match bus.service::<Skills>() {
            Some(skills) => Some(skills.reload(&bus.cx()).await),
            None => None,
        };
        bus.close().await;
        let found = found.transpose().map_err(Failure::failed)?;
        Ok(found.map_or_else(|| skills::find(&app.work, &app.settings), |set| SkillSet::clone(&set)))
    })
}

fn list(app: &AppContext, json: bool) -> Outcome<Exit> {
    let set = find_all(app)?;
    let mut rows = rows(&set);
    rows.extend(skills::left_out_of(&app.work, &app.settings, &set).into_iter().map(|left| Row {
        name: left.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        path: left.path.display().to_string(),
        source: left.source,
        state: "left out",
        about: String::new(),
        valid: false,
        diagnostics: vec![left.why.into_owned()],
    }));
    if json {
        return print_json(&app.work.machine, rows.iter().map(Row::json).collect());
    }
    let mut lines = Vec::new();
    for row in &rows {
        let about: String = row.about.chars().take(100).collect();
        let line = format!("{:<24} {:<10} {:<12} {about}", row.name, row.source.as_str(), row.state);
        // Blanks that only pad the columns are removed.
        lines.push(visible_line(line.trim_end_matches(' ')));
        lines.extend(row.diagnostics.iter().map(|fault| visible_line(&format!("  {}: {fault}", row.path))));
    }
    if lines.is_empty() {
        lines.push(
            "there are no skills; `zk skills new NAME` makes one, `zk skills add DIR` copies one".to_owned(),
        );
    }
    if rows.iter().any(|row| row.state == "not trusted") {
        lines.push("skills of this project count once you read them and run `zk trust add`".to_owned());
    }
    print(&app.work.machine, &lines)
}

fn print_json(machine: &Machine, rows: Vec<Value>) -> Outcome<Exit> {
    let text = serde_json::to_string_pretty(&Value::Array(rows)).map_err(Failure::failed)?;
    print_text(machine, &text)
}
