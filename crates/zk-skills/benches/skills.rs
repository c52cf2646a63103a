//! Benchmarks of skills and the system prompt: `cargo bench -p zk-harness-skills`, or `--profile quick` for a quick
//! look.
//!
//! The bars: 1,000 skills found and catalogued ≤ 50 ms warm, a prompt put together of what is known ≤ 0.2 ms.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on stops")]

use std::sync::Arc;

use divan::Bencher;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use zk_agent::section_texts;
use zk_core::kernel::Bus;
use zk_core::service::HostFiles;
use zk_exec::LocalHostFiles;
use zk_skills::{InstructionsPlugin, SkillRoots, SkillsOptions, SkillsPlugin, catalog, discover};

fn main() {
    divan::main();
}

const SKILLS: usize = 1000;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

/// Home with this number of skills of two kilobytes.
fn home(skills: usize) -> (TempDir, SkillRoots) {
    let home = tempfile::tempdir().unwrap();
    for number in 0..skills {
        let dir = home.path().join(format!("skills/skill-{number}"));
        std::fs::create_dir_all(&dir).unwrap();
        let head = format!(
            "---\nname: skill-{number}\ndescription: Works on files of kind {number} and says what is in them.\n\
             allowed-tools: Read, Bash(git:*)\nmetadata:\n  author: somebody\n---\n"
        );
        std::fs::write(dir.join("SKILL.md"), head + &"Do this, and then that.\n".repeat(80)).unwrap();
    }
    let user = vec![home.path().canonicalize().unwrap().join("skills")];
    let roots = SkillRoots { user, without_project: true, ..SkillRoots::default() };
    (home, roots)
}

#[divan::bench]
fn discover_and_catalogue_1_000_skills(bencher: Bencher<'_, '_>) {
    let (_home, roots) = home(SKILLS);
    let files = LocalHostFiles::new();
    bencher.bench_local(|| {
        let set = discover(&roots, &files, None);
        assert_eq!(set.skills.len(), SKILLS);
        catalog(&set)
    });
}

/// Sections of an unchanged run: skills and instructions.
#[divan::bench]
fn put_the_prompt_together(bencher: Bencher<'_, '_>) {
    let (home, roots) = home(SKILLS);
    std::fs::write(home.path().join("AGENTS.md"), "Write tests first.\n".repeat(100)).unwrap();
    let runtime = runtime();
    let bus = Bus::new();
    bus.scope("files").provide_service::<dyn HostFiles>(Arc::new(LocalHostFiles::new()));
    bus.install(&SkillsPlugin::new(SkillsOptions::new(roots))).unwrap();
    bus.install(&InstructionsPlugin::new(home.path(), home.path(), None)).unwrap();
    let cx = bus.cx();
    let first = runtime.block_on(section_texts(&cx, "Own.")).unwrap();
    assert!(first.iter().any(|section| section.text.contains("skill-7")));
    bencher.bench_local(|| runtime.block_on(section_texts(&cx, "Own.")).unwrap());
}
