/// Path of this file, for messages.
pub(crate) const FILE: &str = "xtask/src/models/corrections.rs";

/// Path of the list of providers, which zk reads as well, for messages.
pub(crate) const PROVIDERS_FILE: &str = "crates/zk-providers/src/catalogue/models/providers.tsv";
const PROVIDERS: &str = include_str!("../../../crates/zk-providers/src/catalogue/models/providers.tsv");

/// Providers of the catalogue, each with zk's name for it. Others are left out.
pub(super) fn providers() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = PROVIDERS.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once('\t'))
        .flat_map(|(name, theirs)| theirs.split_whitespace().map(move |theirs| (theirs, name)))
}

/// Models without chat, by API or id.
pub(super) const LEFT_OUT: &[LeftOut] = &[
    LeftOut { api: "openai-decisions", id: "*", why: "it answers with a choice, not with messages" },
    LeftOut { api: "typesafe-system-one", id: "*", why: "it answers with a choice, not with messages" },
    LeftOut { api: "google-generative-ai", id: "deep-research-*", why: "it is an agent of another API" },
];

/// Corrections of the catalogue's data.
pub(super) const CORRECTIONS: &[Correction] = &[
    Correction {
        provider: "anthropic",
        id: "claude-opus-4-6",
        change: Change::Efforts("off,low,medium,high,xhigh=max,max"),
        why: "its only step above high is max, and extra effort means that step",
    },
    Correction {
        provider: "anthropic",
        id: "claude-sonnet-4-6",
        change: Change::Efforts("off,low,medium,high,xhigh=max,max"),
        why: "its only step above high is max, and extra effort means that step",
    },
    Correction {
        provider: "deepseek",
        id: "deepseek-flash",
        change: Change::AlsoCalled("deepseek-v4-flash"),
        why: "the service takes either name",
    },
    Correction {
        provider: "openai",
        id: "gpt-5.6-sol",
        change: Change::AlsoCalled("gpt-5.6"),
        why: "the service takes either name, and answers with the longer one",
    },
    Correction {
        provider: "gemini",
        id: "gemma-4-*",
        change: Change::Efforts("minimal,high"),
        why: "levels are sent in small letters; the catalogue has these two in capitals",
    },
    Correction {
        provider: "huggingface",
        id: "thinkingmachines/Inkling-Small",
        change: Change::MaxOutput(524_288),
        why: "no answer is longer than the window",
    },
    Correction {
        provider: "mistral",
        id: "ministral-3b-2512",
        change: Change::MaxOutput(131_072),
        why: "no answer is longer than the window",
    },
];

/// Shutdown dates of models, as announced by their providers; the catalogue has none.
pub(super) const SHUTDOWNS: &[Shutdown] = &[
    Shutdown {
        provider: "openai",
        date: "2026-10-23",
        ids: &["gpt-4-turbo", "gpt-4.1-nano", "o1", "o3-mini", "o4-mini"],
    },
    Shutdown { provider: "openai", date: "2026-12-11", ids: &["gpt-5", "gpt-5-mini", "gpt-5-nano", "o3"] },
    Shutdown { provider: "openai", date: "2027-01-14", ids: &["gpt-4.1", "gpt-4o"] },
];

/// Last day of some models.
pub(super) struct Shutdown {
    pub(super) provider: &'static str,
    /// Date as `YYYY-MM-DD`.
    pub(super) date: &'static str,
    pub(super) ids: &'static [&'static str],
}

/// Rows of one API that are left out. A `*` at the end of `id` matches any rest.
pub(super) struct LeftOut {
    pub(super) api: &'static str,
    pub(super) id: &'static str,
    pub(super) why: &'static str,
}

/// Manual change. A `*` at the end of `id` matches any rest.
pub(super) struct Correction {
    pub(super) provider: &'static str,
    pub(super) id: &'static str,
    pub(super) change: Change,
    pub(super) why: &'static str,
}

#[cfg_attr(not(test), expect(dead_code, reason = "the next correction may need any of them"))]
#[derive(Clone)]
pub(super) enum Change {
    /// Adds a model that is missing in the catalogue.
    Add(NewModel),
    /// Sets the context window, in tokens.
    Window(u64),
    /// Sets the prices in US dollars for a million tokens: input, output, cache read, cache write.
    Price([&'static str; 4]),
    MaxOutput(u64),
    Efforts(&'static str),
    /// Adds a second row with this id.
    AlsoCalled(&'static str),
}

/// Row of a new model, with the values of the table.
#[derive(Clone, Copy)]
pub(super) struct NewModel {
    pub(super) window: u64,
    pub(super) max_output: u64,
    pub(super) price: [&'static str; 4],
    pub(super) vision: bool,
    /// Kind of thinking: `none`, `budget`, `effort` or `adaptive`.
    pub(super) thinking: &'static str,
    /// Levels of effort with the provider's names for them; `-` for none.
    pub(super) efforts: &'static str,
}

/// Whether `pattern` matches `id`.
pub(super) fn matches_id(pattern: &str, id: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == id, |start| id.starts_with(start))
}
