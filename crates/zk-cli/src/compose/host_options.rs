use std::sync::Arc;

use zk_core::service::{Lease, Questions, Ui};
use zk_view::ViewDriver;

use crate::settings::Settings;

/// Front end of a conversation, and its options.
pub(crate) struct HostOptions {
    pub(crate) ui: Option<Arc<dyn Ui>>,
    pub(crate) questions: Option<Arc<Questions>>,
    pub(crate) allow_all: bool,
    /// Whether other processes see the conversation in the list of this machine's.
    pub(crate) is_listed: bool,
    /// View of the conversation, which also records blocks in the session.
    pub(crate) view: ViewDriver,
    /// Lease of the leg that the conversation is, if its run outlives this process.
    pub(crate) lease: Option<Lease>,
}

impl HostOptions {
    /// Options of a host without a person to answer questions.
    pub(crate) fn unattended(settings: &Settings) -> Self {
        let allow_all = settings.permissions.allow_all;
        Self { ui: None, questions: None, allow_all, is_listed: false, view: ViewDriver::new(), lease: None }
    }
}
