//! `SYSTEM.md` and `APPEND_SYSTEM.md`: the settings `system` and `append_system` as files.

use zk_settings::{Precedence, TextRead, read_text};

use super::{File, Layer, Origin, ProjectFile, Settings, SettingsSources};
use crate::exit::Outcome;

/// Maximum size of a prompt file, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// Names of the prompt files in a project, and the key that each sets.
const FILES: [(&str, &str); 2] = [(".zk/SYSTEM.md", "system"), (".zk/APPEND_SYSTEM.md", "append_system")];

/// Kind of these files for [`Trust`](zk_core::service::Trust).
const KIND: &str = "prompt";

impl Settings {
    /// Reads the prompt files next to the person's settings.
    pub(super) fn own_prompt_files(
        &mut self,
        sources: &SettingsSources<'_>,
        warnings: &mut Vec<String>,
    ) -> Outcome<()> {
        let Some(config) = &sources.dirs.config else { return Ok(()) };
        for (name, key) in FILES {
            let path = config.join(name.trim_start_matches(".zk/"));
            match read_text(sources.files, Layer::User, &path, MAX_BYTES)? {
                TextRead::Text { text, .. } => {
                    let origin = Origin { layer: Layer::User, place: path.display().to_string() };
                    self.merged.set(vec![key.to_owned()], text.into(), &origin, warnings)?;
                }
                TextRead::Nothing => {}
                TextRead::Foreign(warning) => warnings.push(warning),
            }
        }
        Ok(())
    }

    /// Reads the project's prompt files. Each only applies if exactly its bytes were approved.
    pub(super) fn project_prompt_files(
        &mut self,
        sources: &SettingsSources<'_>,
        warnings: &mut Vec<String>,
    ) -> Outcome<()> {
        for (name, key) in FILES {
            let path = sources.project.join(name);
            match read_text(sources.files, Layer::Project, &path, MAX_BYTES)? {
                TextRead::Text { text, bytes } => {
                    let table = toml::Table::from_iter([(key.to_owned(), text.into())]);
                    let file = File::new(name, KIND, Layer::Project, bytes).with_table(table);
                    self.apply_if_trusted(ProjectFile::new(file), sources, warnings, Precedence::Below)?;
                }
                TextRead::Nothing => {}
                TextRead::Foreign(warning) => warnings.push(warning),
            }
        }
        Ok(())
    }
}
