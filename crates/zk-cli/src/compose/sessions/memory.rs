//! Facts that outlive sessions, in the state directory of the person.

use std::sync::Arc;

use zk_core::service::Trust;
use zk_exec::LocalStateFiles;
use zk_memory::{MEMORY_FILE, Memory, MemoryFile, MemoryStore, MissLog, ProjectFacts, trust_item};

use crate::app::Workplace;
use crate::settings::Settings;

/// The person's memory; `None` without a directory of state.
pub(crate) fn store(work: &Workplace) -> Option<MemoryStore> {
    let dir = work.machine.dirs.memory()?;
    Some(MemoryStore::new(dir.join("memory.db")).with_redactor(work.machine.redactor.clone()))
}

/// Returns the plugin that recalls and keeps facts; `None` if it is switched off, or this start uses none of the
/// person's settings and files.
pub(crate) fn plugin(work: &Workplace, settings: &Settings) -> Option<Memory> {
    let is_used = settings.memory.enabled && work.scope.has_own_parts();
    let dir = work.machine.dirs.memory().filter(|_| is_used)?;
    let store = Arc::new(store(work)?);
    let own = work.machine.dirs.config.as_ref().map(|config| config.join(MEMORY_FILE));
    let of_project = work.scope.has_project().then(|| MemoryFile::of_project(&work.project));
    let files = own.map(MemoryFile::of_person).into_iter().chain(of_project);
    let misses = MissLog::new(dir.join("misses.jsonl"), Arc::new(LocalStateFiles::default()));
    let notices = work.machine.notices.clone();
    let memory =
        Memory::new(store, &work.project, settings.memory.clone()).with_files(files).with_misses(misses);
    Some(memory.telling(move |problem| notices.show(problem)))
}

/// Returns the facts of the project's file, if its current content is not approved.
pub(crate) fn untrusted(work: &Workplace, settings: &Settings) -> Option<ProjectFacts> {
    let found = of_project(work).filter(|_| settings.memory.enabled && work.scope.has_project())?;
    (!is_approved(work, &found)).then_some(found)
}

/// Facts of the project's file, approved or not.
pub(crate) fn of_project(work: &Workplace) -> Option<ProjectFacts> {
    MemoryFile::of_project_untrusted(&work.project, &work.machine.host_files)
}

/// Whether the project's file is approved as it is.
pub(crate) fn is_approved(work: &Workplace, facts: &ProjectFacts) -> bool {
    work.machine.trust.is_trusted(&trust_item(&work.project, &facts.bytes))
}

/// Approves exactly the present bytes of the project's file.
pub(crate) fn approve(work: &Workplace, facts: &ProjectFacts) -> Result<(), String> {
    work.machine.trust.approve(&trust_item(&work.project, &facts.bytes)).map_err(|error| error.to_string())
}
