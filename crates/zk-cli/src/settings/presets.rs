//! Presets: settings under a name, chosen together with `--preset`.

use std::path::Path;
use std::sync::Arc;

use zk_settings::{Precedence, flatten, read_preset};

use super::{Entry, File, Layer, Origin, ProjectFile, Settings, SettingsSources};
use super::{hooks, mcp};
use crate::exit::{Failure, Outcome};

/// Names of the built-in presets.
pub(crate) const BUILT_IN: [&str; 3] = ["build", PLAN_PRESET, "explore"];

/// Name of the preset in which the model only plans.
const PLAN_PRESET: &str = "plan";

const PLAN: &str = "You are planning: you have tools that read, and none that change anything. Find out what there is to \
    know, then say what you would change, where, in which order, and how it would be checked.";

const EXPLORE: &str = "You are exploring: you have tools that read, and none that change anything. Answer the question with the \
    files and lines that show it. Search broadly first, read little, stop when you know, and say what you did not look at.";

/// Returns the values that a built-in preset sets.
fn built_in(name: &str) -> Option<Vec<(&'static str, toml::Value)>> {
    let reading = |prompt: &str| vec![("tools.read_only", true.into()), ("preset_system", prompt.into())];
    Some(match name {
        "build" => Vec::new(),
        PLAN_PRESET => reading(PLAN),
        "explore" => {
            let mut values = reading(EXPLORE);
            values.push(("thinking", "low".into()));
            values
        }
        _ => return None,
    })
}

/// Whether the command line or the machine's manager gives a layer.
fn is_given(layer: Layer) -> bool {
    match layer {
        Layer::CommandLine | Layer::Managed => true,
        Layer::Default
        | Layer::Environment
        | Layer::User
        | Layer::Project
        | Layer::ProjectLocal
        | Layer::Kept
        | Layer::ProjectPreset
        | Layer::Preset => false,
    }
}

impl Settings {
    /// Whether a conversation with a person starts in plan mode for the plan preset. In this case the tools
    /// that change something stay available, since the mode refuses them until the plan is approved.
    pub(crate) fn plan_with_person(&mut self) -> bool {
        let is_of_plan = |key: &str| {
            let origin = self.origin(key);
            origin.is_some_and(|origin| origin.layer == Layer::Preset && origin.place == PLAN_PRESET)
        };
        let plans = is_of_plan("tools.read_only");
        let has_text = is_of_plan("preset_system");
        if plans {
            let sections = Arc::make_mut(&mut self.sections);
            sections.calls.read_only = false;
            if has_text {
                sections.program.preset_system = None;
            }
        }
        plans
    }

    /// Adds the values of the selected presets as a layer, below the command line and above all files except
    /// the managed one. A value of a later preset replaces that of an earlier one; hooks of all count, in their
    /// order, and of servers with one name the last.
    pub(super) fn preset(
        &mut self,
        sources: &SettingsSources<'_>,
        warnings: &mut Vec<String>,
    ) -> Outcome<()> {
        let preset = ["preset".to_owned()];
        let Some(names) = self.merged.at(&preset).and_then(Entry::text).map(str::to_owned) else {
            return Ok(());
        };
        names.split(',').try_for_each(|name| self.add_preset(name.trim(), sources, warnings))
    }

    fn add_preset(
        &mut self,
        name: &str,
        sources: &SettingsSources<'_>,
        warnings: &mut Vec<String>,
    ) -> Outcome<()> {
        if let Some(values) = built_in(name) {
            let origin = Origin { layer: Layer::Preset, place: name.to_owned() };
            let values =
                values.into_iter().map(|(key, value)| (key.split('.').map(str::to_owned).collect(), value));
            return Ok(self.merged.set_all(values, &origin, Precedence::Below, warnings)?);
        }
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let is_name = !name.is_empty() && name.bytes().all(is_of_name);
        if is_name
            && (self.project_preset(sources, name, warnings)? || self.own_preset(sources, name, warnings)?)
        {
            return Ok(());
        }
        let near = zk_settings::suggest::did_you_mean(name, BUILT_IN);
        let place = self.origin("preset").map_or(String::new(), |origin| format!("{}: ", origin.place));
        Err(Failure::usage(format!(
            "{place}there is no preset `{name}`: zk has {}, and your own are files such as .zk/presets/{}.toml{near}",
            zk_settings::suggest::either(&BUILT_IN),
            if is_name { name } else { "NAME" },
        )))
    }

    /// Presets that the command line names.
    pub(crate) fn given_presets(&self) -> Vec<String> {
        let is_on_command_line =
            self.origin("preset").is_some_and(|origin| origin.layer == Layer::CommandLine);
        let names =
            self.merged.at(&["preset".to_owned()]).and_then(Entry::text).filter(|_| is_on_command_line);
        names.map(|names| names.split(',').map(|name| name.trim().to_owned()).collect()).unwrap_or_default()
    }

    /// Whether hooks, servers and skills of the person's presets are used: with `--bare`, only if the command line
    /// names the preset.
    fn takes_own_preset(&self) -> bool {
        self.scope.has_own_parts() || self.origin("preset").is_some_and(|origin| is_given(origin.layer))
    }

    /// Whether the skill `skills.inline.NAME` is used: with `--bare`, only one that the command line gives.
    pub(crate) fn takes_inline_skill(&self, name: &str) -> bool {
        if self.scope.has_own_parts() {
            return true;
        }
        let own = self.takes_own_preset();
        let is_of_skill = |path: &[String]| match path {
            [skills, inline, of, ..] => skills == "skills" && inline == "inline" && of == name,
            _ => false,
        };
        let mut fields = self.iter().filter(|(path, _)| is_of_skill(path));
        fields.all(|(_, entry)| is_given(entry.origin.layer) || (own && entry.origin.layer == Layer::Preset))
    }

    /// Applies a preset of the person; returns whether it exists.
    fn own_preset(
        &mut self,
        sources: &SettingsSources<'_>,
        name: &str,
        warnings: &mut Vec<String>,
    ) -> Outcome<bool> {
        let Some(config) = &sources.dirs.config else { return Ok(false) };
        let path = config.join("presets").join(format!("{name}.toml"));
        let Some((mut table, _)) = read_preset(sources.files, Layer::Preset, &path)? else {
            return Ok(false);
        };
        let hooks = hooks::take(&mut table, Layer::Preset, &path)?;
        let servers = mcp::take_servers(&mut table);
        if self.takes_own_preset() {
            self.add_hooks(hooks, warnings);
            self.add_servers(servers, &path)?;
        }
        let origin = Origin { layer: Layer::Preset, place: path.display().to_string() };
        self.merged.set_all(flatten(table), &origin, Precedence::Below, warnings)?;
        Ok(true)
    }

    /// Applies a preset of the project if exactly its bytes were approved; returns whether it exists.
    fn project_preset(
        &mut self,
        sources: &SettingsSources<'_>,
        name: &str,
        warnings: &mut Vec<String>,
    ) -> Outcome<bool> {
        if !sources.scope.has_project() {
            return Ok(false);
        }
        let relative = format!(".zk/presets/{name}.toml");
        let path = sources.project.join(&relative);
        let layer = Layer::ProjectPreset;
        let Some((mut table, bytes)) = read_preset(sources.files, layer, &path)? else { return Ok(false) };
        let hooks = hooks::take(&mut table, layer, &path)?;
        let file =
            File::new(relative, "preset", layer, bytes).with_table(table).with_rows(hooks::rows(&hooks));
        let file = ProjectFile { hooks, ..ProjectFile::new(file) };
        self.apply_if_trusted(file, sources, warnings, Precedence::Below)?;
        Ok(true)
    }

    /// Fails if the selected preset is an unapproved one of the project, since ignoring it could allow more.
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
