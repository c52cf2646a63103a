//! Available skills: discovery in directories, skills from servers, and the catalogue.

pub(crate) mod catalog;
pub(crate) mod discover;
pub(crate) mod left_out_skills;
pub(crate) mod served_skills;
pub(crate) mod watch;
