//! Further settings in `[tools]`, about results of tools, besides [`ToolsOptions`](crate::ToolsOptions).

use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zk_core::kernel::Plugin;

use crate::{Compress, CompressLimits, LearnedRules, Spill};

/// Settings in `[tools]` for long results.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ResultSettings {
    /// Compression of known kinds of output.
    pub compress: Compression,
    /// Whether compression learns forms of progress lines from the outputs of each project.
    #[schemars(extend("x-by-projects" = false))]
    pub learn: bool,
    /// Lines from which an output is compressed.
    #[schemars(range(min = 1))]
    pub compress_from_lines: u32,
    /// Bytes from which a model summarises a result, with `compress = "model"`.
    #[schemars(range(min = 1))]
    pub summarise_from_bytes: u32,
    /// Largest summary of a model, in tokens.
    #[schemars(range(min = 100))]
    pub summary_tokens: u32,
    /// Bytes above which a result is moved to a file.
    #[schemars(range(min = 1))]
    pub spill_bytes: Option<u32>,
    /// Tools whose results stay in the conversation.
    #[schemars(extend("x-expected" = "a list of names, such as [\"shell\"]"))]
    pub spill_except: Vec<String>,
}

impl Default for ResultSettings {
    fn default() -> Self {
        Self {
            compress: Compression::default(),
            learn: true,
            compress_from_lines: 10,
            summarise_from_bytes: 8_000,
            summary_tokens: 800,
            spill_bytes: None,
            spill_except: Vec::new(),
        }
    }
}

/// Compression of known kinds of output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// No compression.
    Off,
    /// Compression by rules.
    #[default]
    Rules,
    /// Compression by rules, and a model's summary of results that are still long.
    Model,
}

impl ResultSettings {
    /// Policies for results, in their order. Rules are learned in `learned`, if given.
    #[must_use]
    pub fn policies(&self, learned: Option<LearnedRules>) -> Vec<Arc<dyn Plugin>> {
        let compress = match learned.filter(|_| self.learn) {
            Some(rules) => Compress::new().learning(rules),
            None => Compress::new(),
        };
        let compress = compress.limited(CompressLimits {
            min_lines: self.compress_from_lines as usize,
            min_summarised_bytes: self.summarise_from_bytes as usize,
            max_summary_tokens: self.summary_tokens,
        });
        match self.compress {
            Compression::Off => Vec::new(),
            Compression::Model => vec![Arc::new(compress.asking_model())],
            Compression::Rules => vec![Arc::new(compress)],
        }
    }

    /// Policy that moves huge results to files in `dir`.
    #[must_use]
    pub fn spill(&self, dir: &Path) -> Spill {
        let spill = Spill::new(dir);
        let spill = match self.spill_bytes {
            Some(bytes) => spill.threshold(bytes as usize),
            None => spill,
        };
        self.spill_except.iter().cloned().fold(spill, Spill::except)
    }
}

/// Serialises time limits as whole seconds.
pub(crate) mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(time.as_secs())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u32::deserialize(deserializer).map(|seconds| Duration::from_secs(seconds.into()))
    }
}

/// Serialises sizes as mebibytes.
pub(crate) mod mebibytes {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(bytes >> 20)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        u32::deserialize(deserializer).map(|size| u64::from(size) << 20)
    }
}
