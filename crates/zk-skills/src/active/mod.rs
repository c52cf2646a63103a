//! Skills in use: their delivery to a model, and the model's tools for them.

pub(crate) mod plugin;
pub(crate) mod relevant_skills;
pub(crate) mod skill_text;
pub(crate) mod skills;
pub(crate) mod suspicious_text;
pub(crate) mod tools;
