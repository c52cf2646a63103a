use zk_core::service::visible_line;
use zk_settings::suggest;
use zk_skills::{Bundle, Diagnostic, SkillSource};

use super::super::print;
use super::find_all;
use super::rows::address;
use crate::app::AppContext;
use crate::exit::{Exit, Failure, Outcome};
use crate::skills;

pub(super) fn show(app: &AppContext, name: &str) -> Outcome<Exit> {
    let set = find_all(app)?;
    let all = || set.skills.iter().chain(&set.untrusted);
    let Some(skill) = all().find(|skill| skill.name() == name) else {
        let hint = suggest::did_you_mean(name, all().map(|skill| skill.name()));
        return Err(Failure::usage(format!("there is no skill `{name}`{hint}; `zk skills list` shows all")));
    };
    let mut lines = vec![
        format!("name: {}", skill.name()),
        format!("description: {}", skill.manifest.description),
        format!("source: {}", skill.source.as_str()),
        format!("place: {}", address(skill)),
    ];
    let manifest = &skill.manifest;
    for (key, value) in [
        ("license", &manifest.license),
        ("compatibility", &manifest.compatibility),
        ("model", &manifest.model),
        ("thinking", &manifest.thinking),
    ] {
        lines.extend(value.iter().map(|value| format!("{key}: {value}")));
    }
    lines.extend(manifest.allowed_tools.iter().map(|tools| format!("allowed tools: {}", tools.join(", "))));
    if skill.source == SkillSource::Project {
        let state =
            if skills::is_approved(&app.work, skill) { "trusted" } else { "not trusted, so it is not used" };
        lines.push(format!("trust: {state}"));
    }
    lines.extend(skill.diagnostics.iter().map(Diagnostic::to_string));
    lines.extend(zk_skills::suspicions(skill, &app.work.machine.host_files));
    if let Some(served) = &skill.served {
        lines.extend(served.entry.files.iter().map(|(uri, _)| format!("file: {uri}")));
        lines.push(format!("its text is read from {} when it is used", served.host));
        return print(&app.work.machine, &lines.iter().map(|line| visible_line(line)).collect::<Vec<_>>());
    }
    let bundle = Bundle::of(skill).map_err(Failure::failed)?;
    lines.extend(bundle.resources().iter().map(|file| format!("file: {file}")));
    let lines: Vec<String> = lines.iter().map(|line| visible_line(line)).collect();
    let text = zk_skills::body(skill, &app.work.machine.host_files).map_err(Failure::failed)?;
    print(
        &app.work.machine,
        &[lines, vec![String::new()], text.lines().map(str::to_owned).collect()].concat(),
    )
}
