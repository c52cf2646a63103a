use serde::{Deserialize, Serialize};

use super::name::{check_call_id, check_name};
use super::{EngineError, EngineName};
use crate::model::{CallId, RunId, SessionId};

/// Maximum size in bytes of a job, and of the state of a parked run, as JSON.
pub const MAX_JOB_BYTES: usize = 4096;

/// Newest format version of jobs that this program knows.
pub const JOB_FORMAT: u32 = 1;

/// A run as an engine stores it: ids and names alone, at most [`MAX_JOB_BYTES`] as JSON by construction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredJob", into = "StoredJob")]
pub struct Job {
    stored: StoredJob,
}

/// Fields of a [`Job`] in their JSON form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredJob {
    format: u32,
    run: RunId,
    session: SessionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    template: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<EngineName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<JobParent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    preset: Option<EngineName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workspace: Option<EngineName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue: Option<EngineName>,
    #[serde(default)]
    priority: i8,
}

/// Run whose call caused a child run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobParent {
    /// Id of the parent run.
    pub run: RunId,
    /// Call of the parent that the child's result answers.
    pub call: CallId,
}

impl Job {
    /// Creates the job of a run that goes on with a stored session.
    ///
    /// # Errors
    /// [`EngineError::InvalidName`] when an id is longer or has other characters than ids have.
    pub fn new(run: RunId, session: SessionId) -> Result<Self, EngineError> {
        check_name(run.as_str())?;
        check_name(session.as_str())?;
        let stored = StoredJob {
            format: JOB_FORMAT,
            run,
            session,
            template: None,
            tenant: None,
            parent: None,
            preset: None,
            workspace: None,
            queue: None,
            priority: 0,
        };
        Ok(Self { stored })
    }

    /// Sets the session whose copy this run's session becomes, if it does not exist yet.
    ///
    /// # Errors
    /// [`EngineError::InvalidName`].
    pub fn with_template(mut self, template: SessionId) -> Result<Self, EngineError> {
        check_name(template.as_str())?;
        self.stored.template = Some(template);
        Ok(self)
    }

    /// Sets the call that caused this run.
    ///
    /// # Errors
    /// [`EngineError::InvalidName`].
    pub fn with_parent(mut self, parent: JobParent) -> Result<Self, EngineError> {
        check_name(parent.run.as_str())?;
        check_call_id(parent.call.as_str())?;
        self.stored.parent = Some(parent);
        Ok(self)
    }

    /// Sets the tenant of the run.
    #[must_use]
    pub fn with_tenant(mut self, tenant: EngineName) -> Self {
        self.stored.tenant = Some(tenant);
        self
    }

    /// Sets the preset of the run, by a name that the worker resolves.
    #[must_use]
    pub fn with_preset(mut self, preset: EngineName) -> Self {
        self.stored.preset = Some(preset);
        self
    }

    /// Sets the workspace of the run, by a name that the worker resolves; without one, the session's own
    /// directory.
    #[must_use]
    pub fn with_workspace(mut self, workspace: EngineName) -> Self {
        self.stored.workspace = Some(workspace);
        self
    }

    /// Sets the queue of the run; without one, [`Take::DEFAULT_QUEUE`](super::Take::DEFAULT_QUEUE).
    #[must_use]
    pub fn with_queue(mut self, queue: EngineName) -> Self {
        self.stored.queue = Some(queue);
        self
    }

    /// Sets the priority of the run: runs with a larger one begin first.
    #[must_use]
    pub fn with_priority(mut self, priority: i8) -> Self {
        self.stored.priority = priority;
        self
    }

    /// Returns the id of the run.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.stored.run
    }

    /// Returns the session that the run goes on with.
    #[must_use]
    pub fn session(&self) -> &SessionId {
        &self.stored.session
    }

    /// Returns the session that [`Job::session`] begins as a copy of.
    #[must_use]
    pub fn template(&self) -> Option<&SessionId> {
        self.stored.template.as_ref()
    }

    /// Returns the tenant.
    #[must_use]
    pub fn tenant(&self) -> Option<&EngineName> {
        self.stored.tenant.as_ref()
    }

    /// Returns the call that caused the run.
    #[must_use]
    pub fn parent(&self) -> Option<&JobParent> {
        self.stored.parent.as_ref()
    }

    /// Returns the name of the preset.
    #[must_use]
    pub fn preset(&self) -> Option<&EngineName> {
        self.stored.preset.as_ref()
    }

    /// Returns the name of the workspace.
    #[must_use]
    pub fn workspace(&self) -> Option<&EngineName> {
        self.stored.workspace.as_ref()
    }

    /// Returns the name of the queue, as it was set.
    #[must_use]
    pub fn queue(&self) -> Option<&EngineName> {
        self.stored.queue.as_ref()
    }

    /// Returns the priority.
    #[must_use]
    pub fn priority(&self) -> i8 {
        self.stored.priority
    }
}

impl From<Job> for StoredJob {
    fn from(job: Job) -> Self {
        job.stored
    }
}

impl TryFrom<StoredJob> for Job {
    type Error = EngineError;

    fn try_from(stored: StoredJob) -> Result<Self, EngineError> {
        if stored.format > JOB_FORMAT {
            return Err(EngineError::TooNew { found: stored.format, known: JOB_FORMAT });
        }
        check_name(stored.run.as_str())?;
        check_name(stored.session.as_str())?;
        if let Some(template) = &stored.template {
            check_name(template.as_str())?;
        }
        if let Some(parent) = &stored.parent {
            check_name(parent.run.as_str())?;
            check_call_id(parent.call.as_str())?;
        }
        Ok(Self { stored })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MAX_CALL_ID_BYTES, MAX_ENGINE_NAME_BYTES};
    use super::*;

    #[test]
    fn the_largest_job_fits() {
        let long = "x".repeat(MAX_ENGINE_NAME_BYTES);
        let name = || EngineName::new(&long).unwrap();
        let parent = JobParent { run: long.as_str().into(), call: "c".repeat(MAX_CALL_ID_BYTES).into() };
        let job = Job::new(long.as_str().into(), long.as_str().into())
            .and_then(|job| job.with_template(long.as_str().into()))
            .and_then(|job| job.with_parent(parent))
            .unwrap()
            .with_tenant(name())
            .with_preset(name())
            .with_workspace(name())
            .with_queue(name())
            .with_priority(i8::MIN);
        let json = serde_json::to_string(&job).unwrap();
        assert!(json.len() <= MAX_JOB_BYTES / 2, "{}", json.len());
        assert_eq!(serde_json::from_str::<Job>(&json).unwrap(), job);
    }

    #[test]
    fn a_job_holds_ids_alone() {
        for bad in ["", "..", "/home/me", "fix the test", "x\n", &"x".repeat(MAX_ENGINE_NAME_BYTES + 1)] {
            assert!(Job::new(bad.into(), SessionId::fresh()).is_err(), "{bad}");
            assert!(Job::new(RunId::fresh(), bad.into()).is_err(), "{bad}");
            let json = serde_json::json!({"format": 1, "run": "r_1", "session": "s_1", "preset": bad});
            assert!(serde_json::from_value::<Job>(json).is_err(), "{bad}");
        }
        let call = CallId::from("c".repeat(MAX_CALL_ID_BYTES + 1));
        let job = Job::new(RunId::fresh(), SessionId::fresh()).unwrap();
        assert!(job.with_parent(JobParent { run: RunId::fresh(), call }).is_err());
    }

    #[test]
    fn a_newer_job_is_refused() {
        let json = serde_json::json!({"format": JOB_FORMAT + 1, "run": "r_1", "session": "s_1"});
        let error = serde_json::from_value::<Job>(json).unwrap_err().to_string();
        assert!(error.contains("newer zk"), "{error}");
    }
}
