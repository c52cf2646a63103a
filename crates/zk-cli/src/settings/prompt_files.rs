//! `SYSTEM.md` and `APPEND_SYSTEM.md`: the settings `system` and `append_system` as files.

use std::path::Path;

use zk_core::service::{HostFileError, HostRead};

use super::{File, Layer, Origin, ProjectFile, Settings, SettingsSources};
use crate::exit::{Failure, Outcome};

/// The most such a file may have, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// Their names in a project, and what each sets.
const FILES: [(&str, &str); 2] = [(".zk/SYSTEM.md", "system"), (".zk/APPEND_SYSTEM.md", "append_system")];

/// Kind of these files for [`Trust`](zk_core::service::Trust).
const KIND: &str = "prompt";

impl Settings {
    /// Takes in the files beside the settings of the person.
    pub(super) fn own_prompt_files(
        &mut self,
        sources: &SettingsSources<'_>,
        warnings: &mut Vec<String>,
    ) -> Outcome<()> {
        let Some(config) = &sources.dirs.config else { return Ok(()) };
        for (name, key) in FILES {
            let path = config.join(name.trim_start_matches(".zk/"));
            let Some(bytes) = read(sources, Layer::User, &path, warnings)? else { continue };
            let Some(text) = text(&bytes, &path)? else { continue };
            let origin = Origin { layer: Layer::User, place: path.display().to_string() };
            self.set(vec![key.to_owned()], text, &origin, warnings)?;
        }
        Ok(())
    }

    /// Takes in those of the project, each once exactly its bytes were approved.
    pub(super) fn project_prompt_files(
        &mut self,
        sources: &SettingsSources<'_>,
        warnings: &mut Vec<String>,
    ) -> Outcome<()> {
        for (name, key) in FILES {
            let path = sources.project.join(name);
            let Some(bytes) = read(sources, Layer::Project, &path, warnings)? else { continue };
            let Some(text) = text(&bytes, &path)? else { continue };
            let table = toml::Table::from_iter([(key.to_owned(), text)]);
            let file = File::new(name, KIND, Layer::Project, bytes).with_table(table);
            self.count_if_trusted(ProjectFile::new(file), sources, warnings, Self::set_below)?;
        }
        Ok(())
    }
}

/// The bytes of such a file, if there is one of the person's.
fn read(
    sources: &SettingsSources<'_>,
    layer: Layer,
    path: &Path,
    warnings: &mut Vec<String>,
) -> Outcome<Option<Vec<u8>>> {
    let how = HostRead { own_only: layer.is_project(), ..HostRead::whole(MAX_BYTES) };
    match sources.files.read(path, &how) {
        Ok(file) => Ok(Some(file.bytes)),
        Err(error) if error.is_missing() => Ok(None),
        Err(HostFileError::ForeignOwner { uid }) => {
            warnings.push(format!(
                "{} is not read: it belongs to another user (uid {uid}); if you trust it, make it yours with chown",
                path.display()
            ));
            Ok(None)
        }
        Err(error) => Err(Failure::usage(format!("cannot read {}: {error}", path.display()))),
    }
}

/// Reads the text of a file; an empty file says nothing.
fn text(bytes: &[u8], path: &Path) -> Outcome<Option<toml::Value>> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("cannot read {}: it is not UTF-8", path.display())))?;
    let text = text.trim();
    Ok((!text.is_empty()).then(|| toml::Value::String(text.to_owned())))
}
