pub(crate) mod draft_files;
pub(crate) mod edited;
pub(crate) mod editor;
