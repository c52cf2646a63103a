use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// Server that a preset of an agent declares.
#[derive(Clone, Debug, PartialEq)]
pub struct PresetServer {
    /// Name of the server.
    pub name: String,
    /// Definition of the server, as in a `.mcp.json`.
    pub definition: Value,
}

impl PresetServer {
    /// Creates the server with this name and definition.
    #[must_use]
    pub fn new(name: impl Into<String>, definition: Value) -> Self {
        Self { name: name.into(), definition }
    }
}

/// Skill that a preset of an agent declares, without files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetSkill {
    /// Name of the skill.
    pub name: String,
    /// Use of the skill, by which the model chooses it.
    pub description: String,
    /// Instructions of the skill.
    pub text: String,
}

impl PresetSkill {
    /// Creates the skill with this name, description and text.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), description: description.into(), text: text.into() }
    }
}

/// Servers and skills that presets declare, as a service while their agent is built. A plugin that starts servers
/// or offers skills takes them when it registers; what no plugin takes fails the build.
#[derive(Debug, Default)]
pub struct PresetParts(Mutex<(Vec<PresetServer>, Vec<PresetSkill>)>);

impl PresetParts {
    /// Creates the parts that wait for their plugins.
    #[must_use]
    pub fn new(servers: Vec<PresetServer>, skills: Vec<PresetSkill>) -> Self {
        Self(Mutex::new((servers, skills)))
    }

    /// Takes the servers out.
    #[must_use = "nobody else gets the servers that were taken"]
    pub fn take_servers(&self) -> Vec<PresetServer> {
        std::mem::take(&mut self.lock().0)
    }

    /// Takes the skills out.
    #[must_use = "nobody else gets the skills that were taken"]
    pub fn take_skills(&self) -> Vec<PresetSkill> {
        std::mem::take(&mut self.lock().1)
    }

    fn lock(&self) -> MutexGuard<'_, (Vec<PresetServer>, Vec<PresetSkill>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
