//! Looking for skills and commands again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use serde_json::json;
use zk_agent::Agent;
use zk_core::events::{SessionSwitch, TurnAfter};
use zk_core::kernel::{BoxError, Bus, Cx, Scope};
use zk_core::service::{Command, FileOwner, HostFile, HostFileError, HostFiles, HostRead, ToolCx};
use zk_exec::LocalHostFiles;
use zk_skills::{
    ActivatedBy, CommandFilesPlugin, ServedSkill, SkillHost, Skills, SkillsOptions, SkillsPlugin,
};
use zk_testkit::{Script, ScriptedProvider};

use crate::support::{Place, names};

/// File service of this machine that can be made to fail.
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

/// Serves one skill.
struct Host;

#[async_trait]
impl SkillHost for Host {
    fn skills(&self) -> Vec<ServedSkill> {
        vec![ServedSkill {
            uri: "skill://greet/SKILL.md".into(),
            frontmatter: json!({"name": "greet", "description": "Greets people."}),
            files: Vec::new(),
            is_allowed: true,
        }]
    }

    async fn read(&self, _: &str, _: &str, _: &Cx) -> Result<Vec<u8>, String> {
        Err("nothing is read here".into())
    }
}

#[tokio::test]
async fn skills_that_a_server_lists_while_a_run_is_at_work_wait_for_its_end() {
    let at = Place::new();
    let bus = Bus::new();
    bus.scope("files").provide_service::<dyn HostFiles>(Arc::new(LocalHostFiles::new()));
    let plugin = SkillsPlugin::new(SkillsOptions::new(at.roots()));
    bus.install(&plugin).unwrap();
    let scope = bus.scope("server");
    scope.on_async_with(scope.clone(), async |scope: &Scope, turn: &TurnAfter, cx: &Cx| {
        if turn.turn == 1 && cx.item::<dyn SkillHost>("fake").is_none() {
            scope.provide::<dyn SkillHost>("fake", Arc::new(Host))?;
            cx.service::<Skills>().unwrap().source_changed(scope, cx).await?;
        }
        Ok::<_, BoxError>(())
    });
    let script = Script::new()
        .turn(|turn| turn.call("nothing", json!({})))
        .turn(|turn| turn.call("nothing", json!({})))
        .turn(|turn| turn.text("Hi."))
        .turn(|turn| turn.text("Hi."));
    let provider = ScriptedProvider::new(script);
    let agent = Agent::builder(Arc::new(provider.clone()))
        .unguarded()
        .bus(bus)
        .cwd(at.path("project"))
        .build()
        .unwrap();
    for _ in 0..2 {
        agent.run("Go").unwrap().wait().await.result.unwrap();
    }
    let requests = provider.requests();
    let seen: Vec<(bool, usize)> =
        requests.iter().map(|request| (request.system.contains("fake:greet"), request.tools.len())).collect();
    assert_eq!(seen, [(false, 0), (false, 0), (false, 0), (true, 3)]);
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

#[tokio::test]
async fn a_skill_stays_in_use_where_the_session_is_only_read_again() {
    let at = Place::new();
    at.skill("home/.agents/skills/pdf", "Reads PDF files.");
    let bus = Bus::new();
    bus.scope("files").provide_service::<dyn HostFiles>(Arc::new(LocalHostFiles::new()));
    let plugin = SkillsPlugin::new(SkillsOptions::new(at.roots()));
    bus.install(&plugin).unwrap();
    let (skills, cx) = (plugin.skills(), bus.cx());
    skills.activate("pdf", "", ActivatedBy::Model, &ToolCx::new(cx.clone(), "/")).await.unwrap();
    let switch =
        |to: &str| SessionSwitch { from: Some("s_1".into()), to: Some(to.into()), entries: Arc::default() };
    cx.emit(switch("s_1")).await.unwrap();
    assert_eq!(skills.active(&cx), ["pdf"]);
    cx.emit(switch("s_2")).await.unwrap();
    assert!(skills.active(&cx).is_empty());
    bus.close().await;
}
