//! Defines a settings section: a documented struct, from which checks, messages and the reference are
//! generated.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use zk_settings::{Layer, LayerValues, MergedSettings, Schema};

/// Limits of the searches.
#[derive(Deserialize, JsonSchema)]
#[serde(default)]
struct SearchSettings {
    /// Results of one search.
    #[schemars(range(min = 1))]
    results: u32,
}

impl Default for SearchSettings {
    fn default() -> Self {
        Self { results: 100 }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = Schema::default().section::<SearchSettings>("search");
    let mut settings = MergedSettings::new(Arc::new(schema));
    let mut flags = LayerValues::default();
    flags.count("search.results", "--results", Some(20));
    settings.give(Layer::CommandLine, flags, &mut Vec::new())?;
    assert_eq!(settings.section::<SearchSettings>("search")?.results, 20);

    let mut wrong = LayerValues::default();
    wrong.text("search.results", "--results", Some("many".to_owned()));
    let told = settings.give(Layer::CommandLine, wrong, &mut Vec::new()).map_err(|error| error.to_string());
    assert_eq!(told, Err("--results: `search.results` must be a whole number from 1".to_owned()));
    Ok(())
}
