//! Skills that there are: found in directories, served by others, named to a model.

pub(crate) mod catalog;
pub(crate) mod discover;
pub(crate) mod left_out_skills;
pub(crate) mod served_skills;
pub(crate) mod watch;
