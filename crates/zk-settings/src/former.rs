use crate::layers::dotted;
use crate::node::Node;
use crate::schema::{Schema, visit_nodes};

/// A key that a file sets by a name of earlier versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerKey {
    /// Path by which the file sets the key.
    pub former: Vec<String>,
    /// Path of the key in this version.
    pub present: Vec<String>,
    /// Name of the file.
    pub place: String,
}

impl FormerKey {
    /// Describes the key by both of its names.
    pub(crate) fn describe(&self) -> String {
        format!("`{}` is called `{}` now", dotted(&self.former), dotted(&self.present))
    }
}

impl Schema {
    /// Returns the present path of a key that sections declare as a former one with [`mark::FORMER`](crate::mark).
    #[must_use]
    pub fn present_path(&self, former: &[String]) -> Option<Vec<String>> {
        // A name that is in use again is not a former one.
        if self.is_known(former) {
            return None;
        }
        let mut present = None;
        let mut visit = |path: &str, node: &Node| {
            if let (Node::Key(key), None) = (node, &present) {
                present = key.former.iter().find_map(|pattern| translate(pattern, path, former));
            }
        };
        visit_nodes("", self.whole(), &mut visit);
        present
    }
}

/// Translates a former path by a pattern for former paths and one for present paths: the names for each `*` of one
/// stand for those of the other.
fn translate(former: &str, present: &str, path: &[String]) -> Option<Vec<String>> {
    let parts: Vec<&str> = former.split('.').collect();
    let is_match =
        parts.len() == path.len() && parts.iter().zip(path).all(|(part, name)| *part == "*" || part == name);
    if !is_match {
        return None;
    }
    let mut names = parts.iter().zip(path).filter(|(part, _)| **part == "*").map(|(_, name)| name);
    let part = |part: &str| if part == "*" { names.next().cloned() } else { Some(part.to_owned()) };
    present.split('.').map(part).collect()
}
