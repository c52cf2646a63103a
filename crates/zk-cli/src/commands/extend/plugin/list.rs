use serde_json::json;
use zk_bundles::{Bundle, BundleStore, Fetched, wanted_by_project};
use zk_core::service::visible_line;

use super::{fetch, find_kept, print, shown, source};
use crate::app::{AppContext, Workplace};
use crate::exit::{Exit, Failure, Outcome};

/// Lists the added bundles with their state, and those that the project requests.
pub(super) fn list(app: &AppContext, store: &BundleStore, json: bool) -> Outcome<Exit> {
    let work = &app.work;
    let records = store.records().map_err(Failure::failed)?;
    let loaded = app.settings.bundles();
    let state = |name: &str, enabled: bool| match loaded.bundles.iter().find(|one| one.bundle.name() == name)
    {
        _ if !enabled => "disabled".to_owned(),
        Some(placed) => match placed.unset_options().collect::<Vec<_>>().join(", ") {
            missing if missing.is_empty() => "in use".to_owned(),
            missing => format!("in use, without a value for {missing}"),
        },
        None => "not used".to_owned(),
    };
    if json {
        let rows: Vec<_> = records
            .plugins
            .iter()
            .map(|(name, kept)| {
                json!({ "name": name, "version": kept.version, "source": kept.source, "digest": kept.digest,
                    "commit": kept.commit, "enabled": kept.enabled, "state": state(name, kept.enabled) })
            })
            .collect();
        let text = serde_json::to_string_pretty(&rows).map_err(Failure::failed)?;
        return super::super::print_text(&work.machine, &text);
    }
    let mut lines: Vec<String> = Vec::new();
    for (name, kept) in &records.plugins {
        let version = visible_line(kept.version.as_deref().unwrap_or("-"));
        let digest: String = kept.digest.chars().take(12).collect();
        let state = visible_line(&state(name, kept.enabled));
        lines.push(format!("{name:<20} {version:<10} {state}; {digest} from {}", kept.source));
    }
    let given = loaded.bundles.iter().filter(|placed| !records.plugins.contains_key(placed.bundle.name()));
    lines.extend(given.map(|placed| {
        let why =
            if store.is_of_project(placed) { "of this project" } else { "for this once, by --plugin-dir" };
        format!("{}: {why}", shown::title(&placed.bundle))
    }));
    lines.extend(loaded.problems.iter().map(|problem| visible_line(problem)));
    for wanted in wanted_by_project(&work.project, &work.machine.host_files) {
        let name = wanted.split('@').next().unwrap_or_default();
        if !records.plugins.contains_key(name) {
            let wanted = visible_line(&wanted);
            lines.push(format!(
                "{wanted}: this project asks for it; zk adds nothing by itself: `zk plugin add {wanted}`"
            ));
        }
    }
    if lines.is_empty() {
        lines.push("there is no plugin yet: `zk plugin add` adds one".to_owned());
    }
    print(&work.machine, &lines)
}

/// Shows the contents of an added bundle.
pub(super) fn show(work: &Workplace, store: &BundleStore, name: &str) -> Outcome<Exit> {
    let kept = find_kept(store, name)?;
    let tree = store.tree(name, &kept).map_err(Failure::failed)?;
    let bundle = Bundle::read(&tree, name).map_err(Failure::failed)?;
    let fetched = Fetched { bundle, tree, commit: kept.commit.clone() };
    let mut lines = shown::describe(&fetched).map_err(Failure::failed)?.lines;
    lines.push(format!("from {}, data in {}", kept.source, store.data_dir(name).display()));
    lines.push(format!("SHA-256 of all its files: {}", kept.digest));
    print(&work.machine, &lines)
}

/// Prints the faults of a bundle, for its author.
pub(super) fn check(work: &Workplace, store: &BundleStore, text: &str) -> Outcome<Exit> {
    let from = source(work, text)?;
    let fetched = fetch(work, store, &from)?;
    let shown = shown::describe(&fetched).map_err(|why| Failure::failed(visible_line(&why)))?;
    print(&work.machine, &shown.lines)?;
    if shown.faults.is_empty() {
        return print(&work.machine, &["it is valid".to_owned()]);
    }
    print(&work.machine, &shown.faults.iter().map(|fault| visible_line(fault)).collect::<Vec<_>>())?;
    Ok(Exit::Failed)
}
