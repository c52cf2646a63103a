//! A project and a home on disk, and a store that trusts what it is told to.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use zk_core::service::{Trust, TrustError, TrustItem};
use zk_exec::LocalHostFiles;
use zk_skills::{SkillApproval, SkillRoots, SkillSet, discover};

pub(crate) struct Place {
    temp: tempfile::TempDir,
    pub(crate) trust: Approved,
}

#[derive(Default)]
pub(crate) struct Approved(Mutex<Vec<(String, String, Vec<u8>)>>);

impl Trust for Approved {
    fn is_trusted(&self, item: &TrustItem<'_>) -> bool {
        let key = (item.kind.to_owned(), item.name.to_owned(), item.bytes.to_vec());
        self.0.lock().unwrap().contains(&key)
    }

    fn approve(&self, item: &TrustItem<'_>) -> Result<(), TrustError> {
        let key = (item.kind.to_owned(), item.name.to_owned(), item.bytes.to_vec());
        self.0.lock().unwrap().push(key);
        Ok(())
    }

    fn revoke(&self, _: &Path, kind: &str, name: &str) -> Result<(), TrustError> {
        self.0.lock().unwrap().retain(|(of, at, _)| of != kind || at != name);
        Ok(())
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(temp.path().join("project/.git")).unwrap();
        std::fs::create_dir_all(temp.path().join("home")).unwrap();
        Self { temp, trust: Approved::default() }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    /// A valid skill in the directory `dir`.
    pub(crate) fn skill(&self, dir: &str, description: &str) -> &Self {
        let name = dir.rsplit('/').next().unwrap();
        let text = format!("---\nname: {name}\ndescription: {description}\n---\nBody of {dir}.\n");
        self.write(&format!("{dir}/SKILL.md"), &text)
    }

    pub(crate) fn roots(&self) -> SkillRoots {
        SkillRoots {
            cwd: self.path("project"),
            project: self.path("project"),
            user: vec![self.path("home/.agents/skills"), self.path("home/.claude/skills")],
            ..SkillRoots::default()
        }
    }

    pub(crate) fn discover(&self) -> SkillSet {
        discover(&self.roots(), &LocalHostFiles::new(), Some(&self.trust))
    }

    /// Approves every skill of the project in its present state.
    pub(crate) fn approve_all(&self) -> &Self {
        let set = self.discover();
        for skill in &set.untrusted {
            let approval = SkillApproval::of(skill, &self.path("project"), &LocalHostFiles::new()).unwrap();
            for item in approval.items(&self.path("project")) {
                self.trust.approve(&item).unwrap();
            }
        }
        self
    }
}

pub(crate) fn names(set: &SkillSet) -> Vec<&str> {
    set.skills.iter().map(|skill| skill.name()).collect()
}
