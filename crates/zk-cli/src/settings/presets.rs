//! Presets: settings under a name, chosen together with `--preset`.

use std::path::Path;

use super::{Layer, LayerValues, Settings, SettingsSources, file, layers};
use crate::exit::{Failure, Outcome};
use crate::settings::ProjectFile;
use crate::settings::layers::Origin;

/// The presets that zk has itself.
pub(crate) const BUILT_IN: [&str; 3] = ["build", "plan", "explore"];

const PLAN: &str = "You are planning: you have tools that read, and none that change anything. Find out what there is to \
    know, then say what you would change, where, in which order, and how it would be checked.";

const EXPLORE: &str = "You are exploring: you have tools that read, and none that change anything. Answer the question with the \
    files and lines that show it. Search broadly first, read little, stop when you know, and say what you did not look at.";

/// Returns the values that a built-in preset sets.
fn built_in(name: &str) -> Option<LayerValues> {
    let mut given = LayerValues::default();
    let from = "preset";
    match name {
        "build" => {}
        "plan" => {
            given.flag("tools.read_only", from, Some(true));
            given.text("preset_system", from, Some(PLAN.to_owned()));
        }
        "explore" => {
            given.flag("tools.read_only", from, Some(true));
            given.text("preset_system", from, Some(EXPLORE.to_owned()));
            given.text("thinking", from, Some("low".to_owned()));
        }
        _ => return None,
    }
    Some(given)
}

impl Settings {
    /// Takes in what the chosen preset sets: below the command line, above all files but the managed one.
    pub(super) fn preset(
        &mut self,
        sources: &SettingsSources<'_>,
        warnings: &mut Vec<String>,
    ) -> Outcome<()> {
        let Some(name) = self.text("preset").map(str::to_owned) else { return Ok(()) };
        if let Some(values) = built_in(&name) {
            let origin = Origin { layer: Layer::Preset, place: name };
            for (key, _, value) in values.0 {
                let key = key.split('.').map(str::to_owned).collect();
                self.set_below(key, value, &origin, warnings)?;
            }
            return Ok(());
        }
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let is_name = !name.is_empty() && name.bytes().all(is_of_name);
        if is_name
            && (self.project_preset(sources, &name, warnings)?
                || self.own_preset(sources, &name, warnings)?)
        {
            return Ok(());
        }
        let near = crate::suggest::did_you_mean(&name, BUILT_IN);
        let place = self.origin("preset").map_or(String::new(), |origin| format!("{}: ", origin.place));
        Err(Failure::usage(format!(
            "{place}there is no preset `{name}`: zk has {}, and your own are files such as .zk/presets/{}.toml{near}",
            crate::suggest::either(&BUILT_IN),
            if is_name { &name } else { "NAME" },
        )))
    }

    /// A preset of the person. Gives whether there is one.
    fn own_preset(
        &mut self,
        sources: &SettingsSources<'_>,
        name: &str,
        warnings: &mut Vec<String>,
    ) -> Outcome<bool> {
        let Some(config) = &sources.dirs.config else { return Ok(false) };
        let path = config.join("presets").join(format!("{name}.toml"));
        let table = match file::read(sources.files, Layer::Preset, &path, false)? {
            file::Read::Table { bytes, .. } if bytes.is_empty() => return Ok(false),
            file::Read::Table { table, .. } => table,
            file::Read::Foreign(why) => return Err(Failure::usage(why)),
        };
        let origin = Origin { layer: Layer::Preset, place: path.display().to_string() };
        for (key, value) in layers::flatten(table) {
            self.set_below(key, value, &origin, warnings)?;
        }
        Ok(true)
    }

    /// A preset of the project, which counts only if exactly its bytes were approved. Gives whether there is one.
    fn project_preset(
        &mut self,
        sources: &SettingsSources<'_>,
        name: &str,
        warnings: &mut Vec<String>,
    ) -> Outcome<bool> {
        let relative = format!(".zk/presets/{name}.toml");
        let path = sources.project.join(&relative);
        let layer = Layer::ProjectPreset;
        let (table, bytes) = match file::read(sources.files, layer, &path, false)? {
            file::Read::Table { bytes, .. } if bytes.is_empty() => return Ok(false),
            file::Read::Table { table, bytes } => (table, bytes),
            file::Read::Foreign(why) => return Err(Failure::usage(why)),
        };
        let leaves = layers::flatten(table);
        let mut found = ProjectFile {
            name: relative.into(),
            kind: "preset",
            bytes,
            trusted: false,
            values: leaves.iter().map(|(key, value)| (layers::dotted(key), value.clone())).collect(),
            layer,
            leaves: leaves.clone(),
            hooks: Default::default(),
            server: None,
            scripts: zk_mcp::Scripts::default(),
        };
        found.trusted = sources.trust.is_trusted(&found.item(sources.project));
        let is_trusted = found.trusted;
        self.project_files.push(found);
        if is_trusted {
            let origin = Origin { layer, place: path.display().to_string() };
            for (key, value) in leaves {
                self.set_below(key, value, &origin, warnings)?;
            }
        }
        Ok(true)
    }

    /// Fails if the chosen preset is one of the project that nobody approved: without it more could be allowed.
    pub(crate) fn check_preset(&self, project: &Path) -> Outcome<()> {
        match self.project_files.iter().find(|file| file.kind == "preset" && !file.trusted) {
            Some(file) => Err(Failure::usage(format!(
                "the preset {} is not trusted, so nothing is run: read it, then run `zk trust add --preset {}`",
                project.join(&*file.name).display(),
                file.name.rsplit('/').next().unwrap_or_default().trim_end_matches(".toml"),
            ))),
            None => Ok(()),
        }
    }
}
