use std::path::Path;

use zk_core::model::Effect;

use super::Evaluation;
use super::place::Whereabouts;
use crate::classifier::{PathPlace, is_private_name};
use crate::program::{Leaf, words_of_open_text};

impl Evaluation<'_> {
    /// Reason why a command is asked about that names a file with credentials of the project.
    pub(super) fn private_file(&self, leaf: &Leaf, place: &Whereabouts) -> Option<String> {
        let is_private = |path: &&Path| {
            let all = place.of(path).unwrap_or_default();
            all.iter().any(|full| self.here.classifier.path(full) == PathPlace::Private)
        };
        let named = leaf.effects.iter().flat_map(|effect| match effect {
            Effect::Reads { paths } | Effect::Writes { paths } => paths.as_slice(),
            Effect::Executes { .. } | Effect::Network { .. } | Effect::LeavesContext { .. } => &[],
        });
        let mut named = named.map(AsRef::as_ref).chain(leaf.mentions.iter().map(Path::new));
        Some(private_use(named.find(is_private)?))
    }

    pub(super) fn read_place(&self, full: &Path) -> PathPlace {
        if full == Path::new("/dev/null") || full == Path::new("/dev/stdin") {
            return PathPlace::Inside;
        }
        match self.here.classifier.path(full) {
            // Everybody may look at it.
            PathPlace::Protected => PathPlace::Inside,
            place => place,
        }
    }
}

/// Reason why the use of a file with credentials of the project is asked about.
pub(super) fn private_use(path: &Path) -> String {
    format!("`{}` holds credentials of the project", path.display())
}

/// Reason why a text that is not understood is asked about: a word of it names a file with credentials of the project.
pub(super) fn private_word(text: &str) -> Option<String> {
    let words = words_of_open_text(text);
    words.iter().map(Path::new).find(|word| is_private_name(word)).map(private_use)
}
