//! Owner of the context window: its state of each conversation, its trigger and its report.

pub(crate) mod budget;
pub(crate) mod conversation;
pub(crate) mod ledger;
pub(crate) mod options;
pub(crate) mod owner;
pub(crate) mod plugin;
pub(crate) mod recall;
pub(crate) mod report;
pub(crate) mod request;
pub(crate) mod trigger;
pub(crate) mod view;
