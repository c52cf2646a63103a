//! Permission rules of all layers, and permanent approvals.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use zk_chat::walls::Containment;
use zk_exec::{ContextName, Environment, LocalStateFiles, own_files};
use zk_permission::{
    Approvals, Audit, Decision, HostPathClassifier, Layer, ModeSwitch, PermissionJudge, PrivateFiles,
    RuleBase, Rules,
};

use crate::app::{Machine, Workplace};
use crate::containment::widest_mode;
use crate::sandbox;
use crate::settings::{Layer as SettingsLayer, Settings};

/// Search path of commands if the environment has none.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the rules of the settings and of this project's approvals, and the reason if approvals cannot be
/// used.
pub(crate) fn rules(work: &Workplace, settings: &Settings) -> (Rules, Option<String>) {
    let base = RuleBase { root: work.project.clone(), home: work.machine.env.path("HOME") };
    let mut rules = Rules::new();
    let mut problems = Vec::new();
    for (layer, decision, text) in settings.rules() {
        let wrong = rules.extend(of_settings(layer), decision, &[text], &base);
        problems.extend(wrong.iter().map(ToString::to_string));
    }
    match approvals(&work.machine).map(|approvals| approvals.rules(&work.project)) {
        None => {}
        Some(Ok(approved)) => approved.into_iter().for_each(|rule| rules.push(rule)),
        Some(Err(error)) => problems.push(error.to_string()),
    }
    (rules, (!problems.is_empty()).then(|| problems.join("; ")))
}

/// Returns the file of permanent approvals.
pub(crate) fn approvals(machine: &Machine) -> Option<Approvals> {
    Some(Approvals::new(
        machine.dirs.approvals()?,
        Arc::new(LocalStateFiles::new(machine.host_files.clone()).follow_links()),
    ))
}

/// Returns the audit of calls in the execution context `context`. If its directory cannot be written, there
/// is none, and a warning is shown, unless the settings request an audit.
pub(crate) fn audit(machine: &Machine, settings: &Settings, context: String) -> Option<Audit> {
    let dir = machine.dirs.audit().filter(|_| settings.permissions.audit)?;
    let origin = settings.origin("permissions.audit");
    let is_asked_for = origin.is_some_and(|origin| origin.layer != SettingsLayer::Default);
    match own_files::check_writable(dir.parent().unwrap_or(&dir)) {
        Err((place, error)) if !is_asked_for => {
            machine.notices.show(&format!(
                "warning: {} cannot be written ({error}): calls run without an audit record; set ZK_HOME to a \
                 directory of yours, or permissions.audit = true to run none without",
                place.display()
            ));
            None
        }
        Ok(()) | Err(_) => {
            let files = Arc::new(LocalStateFiles::default());
            Some(Audit::new(dir, context, machine.redactor.clone(), files))
        }
    }
}

/// Returns the permission judge of a conversation, and the project's credential files that searches must
/// skip.
pub(crate) fn judge(
    work: &Workplace,
    settings: &Settings,
    containment: &Containment,
    attended: bool,
) -> (PermissionJudge, PrivateFiles) {
    let modes = ModeSwitch::new(containment.mode).limited_to(widest_mode(settings));
    let is_contained = containment.is_contained;
    let (mut rules, problem) = rules(work, settings);
    if is_contained {
        sandbox::mark_held(work, settings, &mut rules);
    }
    if let Some(problem) = problem {
        work.machine.notices.show(&format!("warning: {problem}"));
    }
    let private = PrivateFiles::default();
    let classifier = classifier(work, settings, containment, &private);
    let classifier = match attended && can_read_outside(settings) {
        true => classifier.asking_reads_outside(work.roots().into_iter().chain(work.machine.dirs.outputs())),
        false => classifier,
    };
    let classifier = Arc::new(classifier);
    let judge = match approvals(&work.machine) {
        Some(approvals) => {
            PermissionJudge::with_approvals(modes, rules, &work.project, classifier, approvals)
        }
        None => PermissionJudge::new(modes, rules, &work.project, classifier),
    };
    let judge = if is_contained { judge.contained() } else { judge };
    if containment.restricts_reads {
        judge.restrict_reads();
    }
    (judge, private)
}

/// Returns the judge of an agent in the copy `work` of `original`, in the mode of its conversation. What is
/// denied in the original stays denied. Nothing is approved for good there, since the copy does not last.
pub(crate) fn judge_of_copy(
    original: &Workplace,
    work: &Workplace,
    settings: &Settings,
    containment: &Containment,
    modes: &ModeSwitch,
) -> PermissionJudge {
    let (mut rules, _) = rules(work, settings);
    if containment.is_contained {
        sandbox::mark_held(work, settings, &mut rules);
    }
    let (of_original, _) = self::rules(original, settings);
    let denied = of_original.iter().filter(|rule| rule.decision == Decision::Deny);
    denied.for_each(|rule| rules.push(rule.clone()));
    let classifier = classifier(work, settings, containment, &PrivateFiles::default());
    PermissionJudge::new(modes.clone(), rules, &work.project, Arc::new(classifier))
}

/// Returns the classifier of paths, which records the project's credential files in `private`.
fn classifier(
    work: &Workplace,
    settings: &Settings,
    containment: &Containment,
    private: &PrivateFiles,
) -> HostPathClassifier {
    let path = work.machine.env.get("PATH").unwrap_or(OsStr::new(DEFAULT_PATH));
    let path: Vec<PathBuf> = std::env::split_paths(path).collect();
    let home = work.machine.env.path("HOME");
    let children = Environment::filtered(work.machine.env.without_secrets());
    let variables = children.vars().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let classifier = HostPathClassifier::new(&work.roots(), home.as_deref(), &path)
        .with_variables(variables)
        .protecting(work.machine.dirs.own(&work.roots()))
        .hiding(sandbox::hidden(&work.machine, settings))
        .recording_private(private.clone());
    match containment.for_reads.is_tested() {
        true => classifier.hiding_private(),
        false => classifier,
    }
}

/// Whether file tools can read outside of the project, which requires files of this machine.
pub(crate) fn can_read_outside(settings: &Settings) -> bool {
    matches!(settings.context(), ContextName::Process | ContextName::Sandbox)
}

fn of_settings(layer: SettingsLayer) -> Layer {
    match layer {
        SettingsLayer::Managed => Layer::Managed,
        SettingsLayer::CommandLine | SettingsLayer::Preset => Layer::CommandLine,
        SettingsLayer::ProjectLocal | SettingsLayer::ProjectPreset => Layer::ProjectLocal,
        SettingsLayer::Project => Layer::Project,
        SettingsLayer::Default | SettingsLayer::Environment | SettingsLayer::User | SettingsLayer::Kept => {
            Layer::User
        }
    }
}
