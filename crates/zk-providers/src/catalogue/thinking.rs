//! Form of thinking by the name of a model, for models that are in no table and whose server was not asked.

use zk_core::model::ThinkingSupport;

use crate::encode::effort::Efforts;

/// One generation of models, whose ids begin with one of `ids`. Used for models that are in no table.
pub(crate) struct Generation {
    ids: &'static [&'static str],
    pub(crate) how: ThinkingSupport,
    /// Whether thinking can be turned off.
    pub(crate) can_be_off: bool,
    /// Effort levels above `high`, each with its value in requests.
    above: &'static [(&'static str, &'static str)],
}

/// Generations by prefix; the first row that matches counts. An id that begins with `claude-` and matches no
/// row is newer than this table.
pub(crate) const GENERATIONS: &[Generation] = &[
    Generation {
        ids: &[
            "claude-2",
            "claude-instant",
            "claude-3-5-",
            "claude-3-opus",
            "claude-3-sonnet",
            "claude-3-haiku",
        ],
        how: ThinkingSupport::None,
        can_be_off: true,
        above: &[],
    },
    Generation {
        ids: &[
            "claude-3-7-",
            "claude-haiku-4",
            "claude-sonnet-4-5",
            "claude-opus-4-5",
            "claude-opus-4-1",
            "claude-opus-4-0",
            "claude-sonnet-4-0",
            "claude-opus-4-2",
            "claude-sonnet-4-2",
        ],
        how: ThinkingSupport::Budget,
        can_be_off: true,
        above: &[],
    },
    Generation {
        ids: &["claude-opus-4-6", "claude-sonnet-4-6"],
        how: ThinkingSupport::Adaptive,
        can_be_off: true,
        above: &[("xhigh", "max"), ("max", "max")],
    },
    Generation {
        ids: &["claude-fable", "claude-mythos", "claude-opus-5-5", "claude-sonnet-5-5"],
        how: ThinkingSupport::Adaptive,
        can_be_off: false,
        above: &[("xhigh", "xhigh"), ("max", "max")],
    },
    Generation {
        ids: &["claude-"],
        how: ThinkingSupport::Adaptive,
        can_be_off: true,
        above: &[("xhigh", "xhigh"), ("max", "max")],
    },
];

impl Generation {
    /// Returns the effort levels of the generation's models.
    pub(crate) fn efforts(&self) -> Efforts {
        let off = self.can_be_off.then_some(("off", None));
        let usual = ["low", "medium", "high"].map(|level| (level, None));
        let above = self.above.iter().map(|(level, word)| (*level, Some((*word).into())));
        Efforts::of(off.into_iter().chain(usual).chain(above))
    }
}

/// Returns the generation of a model by its id.
pub(crate) fn generation(id: &str) -> Option<&'static Generation> {
    // Gateways prefix the name with a vendor: `anthropic/claude-…`, `us.anthropic.claude-…`.
    let at = id.find("claude-")?;
    let id = id.get(at..)?;
    GENERATIONS.iter().find(|row| row.ids.iter().any(|start| id.starts_with(start)))
}

/// Prefixes of models that do not support structured output.
const WITHOUT_FORMATS: &[&str] = &[
    "claude-2",
    "claude-3",
    "claude-instant",
    "claude-opus-4-0",
    "claude-opus-4-2",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
];

/// Whether a model supports structured output, judged by its id.
pub(crate) fn has_formats(id: &str) -> bool {
    let id = id.find("claude-").and_then(|at| id.get(at..));
    id.is_some_and(|id| !WITHOUT_FORMATS.iter().any(|start| id.starts_with(start)))
}

/// Model families that support thinking. `Budget` stands for families with an on-off switch only.
const FAMILIES: &[(&str, ThinkingSupport)] = &[
    ("gpt-oss", ThinkingSupport::Effort),
    ("qwen3-coder", ThinkingSupport::None),
    ("qwen3-embedding", ThinkingSupport::None),
    ("qwen3", ThinkingSupport::Budget),
    ("deepseek-r1", ThinkingSupport::Budget),
    ("deepseek-v3.1", ThinkingSupport::Budget),
    ("deepseek-v4", ThinkingSupport::Budget),
    ("magistral", ThinkingSupport::Budget),
    ("glm-4", ThinkingSupport::Budget),
    ("minimax-m2", ThinkingSupport::Budget),
    ("kimi-k2-thinking", ThinkingSupport::Budget),
];

/// Returns the form of a model's thinking by its name: `library/qwen3:4b` is a `qwen3`.
pub(crate) fn local_support(id: &str) -> ThinkingSupport {
    let name = id.rsplit('/').next().unwrap_or(id);
    FAMILIES
        .iter()
        .find(|(start, _)| name.starts_with(start))
        .map_or(ThinkingSupport::None, |(_, support)| *support)
}
