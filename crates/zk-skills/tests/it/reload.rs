//! Looking for skills and commands again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zk_core::kernel::Bus;
use zk_core::service::{Command, FileOwner, HostFile, HostFileError, HostFiles, HostRead};
use zk_exec::LocalHostFiles;
use zk_skills::{CommandFilesPlugin, Skills, SkillsOptions};

use crate::support::{Place, names};

/// The files of this machine, until the disk is gone.
#[derive(Default)]
struct Fragile(AtomicBool);

impl HostFiles for Fragile {
    fn read(&self, path: &Path, how: &HostRead) -> Result<HostFile, HostFileError> {
        assert!(!self.0.load(Ordering::Relaxed), "the disk is gone");
        LocalHostFiles::new().read(path, how)
    }

    fn owner(&self, path: &Path) -> Result<FileOwner, HostFileError> {
        LocalHostFiles::new().owner(path)
    }
}

#[tokio::test]
async fn a_reload_that_fails_keeps_the_skills_that_were_there() {
    let at = Place::new();
    at.skill("home/.agents/skills/pdf", "Reads PDF files.");
    let (bus, files) = (Bus::new(), Arc::new(Fragile::default()));
    bus.scope("files").provide_service::<dyn HostFiles>(files.clone());
    let skills = Skills::new(SkillsOptions::new(at.roots()));
    assert_eq!(names(&skills.resolve(&bus.cx()).await.unwrap()), ["pdf"]);
    at.skill("home/.agents/skills/xls", "Reads tables.");
    files.0.store(true, Ordering::Relaxed);
    assert_eq!(names(&skills.reload(&bus.cx()).await.unwrap()), ["pdf"]);
    files.0.store(false, Ordering::Relaxed);
    assert_eq!(names(&skills.reload(&bus.cx()).await.unwrap()), ["pdf", "xls"]);
}

#[tokio::test]
async fn a_command_file_is_offered_once_it_is_there_and_no_more_once_it_is_gone() {
    let at = Place::new();
    let bus = Bus::new();
    bus.scope("files").provide_service::<dyn HostFiles>(Arc::new(LocalHostFiles::new()));
    let project = at.path("project");
    bus.install(&CommandFilesPlugin::new(&project, &project, Vec::new())).unwrap();
    let commands = bus.service::<CommandFilesPlugin>().unwrap();
    let offered = || bus.items::<dyn Command>().iter().map(|item| item.name.to_string()).collect::<Vec<_>>();
    commands.refresh(&bus.cx()).await;
    assert!(offered().is_empty());
    at.write("project/.zk/commands/review.md", "Look at $1.");
    commands.refresh(&bus.cx()).await;
    assert_eq!(offered(), ["review"]);
    std::fs::remove_file(at.path("project/.zk/commands/review.md")).unwrap();
    commands.refresh(&bus.cx()).await;
    assert!(offered().is_empty());
}
