use async_trait::async_trait;
use zk_core::service::{Exec, ExecError, ExecRequest, Process};

use super::policy::SandboxPolicy;
use super::report::{SandboxError, SandboxReport, SelfTest};
use crate::{BoundedExec, Environment, Limits, Supervision};

/// Stand-in without values for a build without the sandbox.
#[derive(Debug)]
pub struct SandboxExec {
    never: std::convert::Infallible,
}

impl SandboxExec {
    /// Always fails.
    ///
    /// # Errors
    /// Always [`SandboxError::Unsupported`].
    pub fn new(_: &SandboxPolicy, _: Environment, _: Supervision) -> Result<Self, SandboxError> {
        Err(SandboxError::Unsupported)
    }

    /// Unreachable, since no value of this type exists.
    #[must_use]
    pub fn with_loss_report(self, _: impl Fn(&str) + Send + Sync + 'static) -> Self {
        match self.never {}
    }

    /// Unreachable, since no value of this type exists.
    ///
    /// # Errors
    /// None.
    pub fn start(&self) -> Result<SandboxReport, SandboxError> {
        match self.never {}
    }

    /// Unreachable, since no value of this type exists.
    ///
    /// # Errors
    /// None.
    pub fn hide(&self, _: &[std::path::PathBuf]) -> Result<(), SandboxError> {
        match self.never {}
    }

    /// Unreachable, since no value of this type exists.
    ///
    /// # Errors
    /// None.
    pub async fn self_test(&self) -> Result<SelfTest, SandboxError> {
        match self.never {}
    }

    /// Unreachable, since no value of this type exists.
    ///
    /// # Errors
    /// None.
    pub fn self_test_and_wait(&self) -> Result<SelfTest, SandboxError> {
        match self.never {}
    }

    /// Unreachable, since no value of this type exists.
    pub async fn close(&self) {
        match self.never {}
    }
}

#[async_trait]
impl Exec for SandboxExec {
    async fn spawn(&self, _: ExecRequest) -> Result<Box<dyn Process>, ExecError> {
        match self.never {}
    }
}

#[async_trait]
impl BoundedExec for SandboxExec {
    async fn spawn_within(&self, _: ExecRequest, _: Limits) -> Result<Box<dyn Process>, ExecError> {
        match self.never {}
    }
}
