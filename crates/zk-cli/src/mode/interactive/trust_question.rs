use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_core::kernel::Bus;
use zk_core::service::{Question, Questions, Trust, UiAnswer};
use zk_skills::{Bundle, Skill, place};
use zk_tui::plain::Keyboard;

use crate::app::AppContext;
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::ProjectFile;
use crate::signals::Signals;
use crate::{agents, skills};

/// Longest time for a person to read what a project sets.
const PATIENCE: Duration = Duration::from_secs(600);

/// Asks whether what the project sets may count, file by file. Anything but a yes leaves it ignored. `stop` ends the
/// questions, where somebody listens for it already.
pub(super) async fn ask(
    app: &AppContext,
    questions: &Questions,
    keyboard: &Keyboard,
    signals: &Signals,
    stop: Option<&CancellationToken>,
) -> Outcome<AppContext> {
    let mut app = app.clone();
    let untrusted: Vec<ProjectFile> =
        app.settings.project_files.iter().filter(|file| !file.trusted).cloned().collect();
    let found = skills::untrusted(&app);
    let unapproved = agents::untrusted(&app);
    if (untrusted.is_empty() && found.is_empty() && unapproved.is_empty()) || app.trust.problem().is_some() {
        return Ok(app);
    }
    let (stop, is_listened_for) = (stop.cloned().unwrap_or_default(), stop.is_some());
    let watching = (!is_listened_for).then(|| {
        signals.arm_run(stop.clone());
        keyboard.watch(stop.clone())
    });
    let cx = Bus::new().cx().with_stop(stop);
    for file in untrusted {
        let question = Question::Confirm { text: text(&app, &file) };
        if questions.ask(question, &cx, PATIENCE).await != UiAnswer::Once {
            continue;
        }
        // The file counts for this conversation even if that cannot be stored.
        if let Err(error) = app.trust.approve(&file.item(&app.project)) {
            app.notices.show(&format!("warning: trusted for this conversation only: {error}"));
        }
        for warning in app.settings.count_project_file(&file.name, &app.project)? {
            app.notices.show(&format!("warning: {warning}"));
        }
    }
    if !found.is_empty() {
        let question = Question::Confirm { text: skills_text(&app, &found) };
        if questions.ask(question, &cx, PATIENCE).await == UiAnswer::Once {
            for skill in &found {
                if let Err(error) = skills::approve(&app, skill) {
                    app.notices.show(&format!("warning: the skill {} is not used: {error}", skill.name()));
                }
            }
        }
    }
    if !unapproved.is_empty() {
        let rows: Vec<String> =
            unapproved.iter().map(|file| format!("  {}\n    {}", file.describe(), file.name)).collect();
        let text = format!("Trust these agents of the project exactly as they are?\n{}", rows.join("\n"));
        if questions.ask(Question::Confirm { text }, &cx, PATIENCE).await == UiAnswer::Once {
            for file in &unapproved {
                if let Err(error) = agents::approve(&app, file) {
                    app.notices.show(&format!("warning: the agent {} is not used: {error}", file.name));
                }
            }
        }
    }
    drop(watching);
    if is_listened_for {
        return Ok(app);
    }
    let seen = signals.seen();
    signals.disarm();
    match seen {
        Some(Exit::Terminated) => Err(Failure::new(Exit::Terminated, "ended by a signal before it began")),
        Some(_) | None => Ok(app),
    }
}

fn skills_text(app: &AppContext, found: &[Arc<Skill>]) -> String {
    let row = |skill: &Arc<Skill>| {
        let files = Bundle::of(skill).map(|bundle| bundle.resources()).unwrap_or_default();
        let files = if files.is_empty() { String::new() } else { format!(" (with {})", files.join(", ")) };
        let warnings: String =
            skills::suspicions(app, skill).iter().map(|warning| format!("\n    {warning}")).collect();
        format!("  {}: {}{files}\n    {}{warnings}", skill.name(), skill.manifest.description, place(skill))
    };
    let rows: Vec<String> = found.iter().map(row).collect();
    format!(
        "Trust these skills of the project exactly as they are, with all their files?\n{}",
        rows.join("\n")
    )
}

fn text(app: &AppContext, file: &ProjectFile) -> String {
    let values: Vec<String> = file.values.iter().map(|(name, value)| format!("  {name} = {value}")).collect();
    let place = app.project.join(&*file.name);
    format!("Trust {} exactly as it is? It sets:\n{}", place.display(), values.join("\n"))
}
