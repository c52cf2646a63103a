use zk_compaction::STRATEGY_NAMES;
use zk_exec::{ContextName, HostRules};
use zk_providers::{Efforts, Vendors};

use super::layers::{Layer, dotted};
use super::rules::wrong_rule;

/// Keys of the settings. `*` stands for any one name.
pub(super) const KEYS: &[Key] = &[
    Key::new("provider", Kind::Text),
    Key::new("model", Kind::Text),
    Key::new("system", Kind::Text),
    Key::new("append_system", Kind::Text),
    Key::new(
        "thinking",
        Kind::OneOf(&["off", "minimal", "low", "medium", "high", "xhigh", "max", "adaptive"]),
    ),
    Key::new("preset", Kind::Text),
    Key::new("preset_system", Kind::Text),
    Key::new("context", Kind::Context).not_by_projects(),
    Key::new("debug_dump", Kind::Text).not_by_projects(),
    Key::new("screen", Kind::OneOf(&["inline", "full", "plain"])).not_by_projects(),
    Key::new("theme", Kind::OneOf(&["auto", "dark", "light", "colour-blind", "mono"])),
    Key::new("max_turns", Kind::Count),
    Key::new("max_tokens", Kind::Count),
    Key::new("max_budget_usd", Kind::Dollars).not_by_projects(),
    Key::new("max_tokens_total", Kind::Count).not_by_projects(),
    Key::new("thinking_budget", Kind::Count),
    Key::new("queue_mode", Kind::OneOf(&["one", "all"])),
    Key::new("follow_up_mode", Kind::OneOf(&["one", "all"])),
    Key::new("thinking_decay.after_turn", Kind::Count),
    Key::new("thinking_decay.factor", Kind::Share),
    Key::new("thinking_decay.floor", Kind::Count),
    Key::new("add_dirs", Kind::Paths).not_by_projects(),
    Key::new("tools.allowed", Kind::Names),
    Key::new("tools.disallowed", Kind::Names),
    Key::new("tools.read_only", Kind::Flag),
    Key::new("tools.dedup", Kind::Names),
    Key::new("tools.dedup_reads", Kind::Flag),
    Key::new("tools.read_before_edit", Kind::Flag),
    Key::new("tools.line_numbers", Kind::Flag),
    Key::new("tools.max_concurrent", Kind::Count),
    Key::new("tools.read_lines", Kind::Count),
    Key::new("tools.read_bytes", Kind::Count),
    Key::new("tools.shell_bytes", Kind::Count),
    Key::new("tools.shell_seconds", Kind::Count),
    Key::new("tools.shell_seconds_max", Kind::Count),
    Key::new("tools.shell_prefix", Kind::Text).not_by_projects(),
    Key::new("tools.shell_footer", Kind::Flag),
    Key::new("tools.grep_results", Kind::Count),
    Key::new("tools.glob_results", Kind::Count),
    Key::new("tools.output_file_mb", Kind::Count),
    Key::new("tools.budgets.*", Kind::Count),
    Key::new("tools.over_budget", Kind::OneOf(&["block", "steer"])),
    Key::new("tools.output_budget", Kind::Count),
    Key::new("tools.output_budget_percent", Kind::Count),
    Key::new("tools.compress", Kind::OneOf(&["off", "rules", "model"])),
    Key::new("tools.spill_bytes", Kind::Count),
    Key::new("tools.spill_except", Kind::Names),
    Key::new("sessions", Kind::Flag),
    Key::new("shorten", Kind::Flag),
    Key::new("skills.enabled", Kind::Flag),
    Key::new("skills.project", Kind::Flag).not_by_projects(),
    Key::new("skills.paths", Kind::Paths).not_by_projects(),
    Key::new("skills.exclude", Kind::Names),
    Key::new("skills.max_active", Kind::Count),
    Key::new("compaction.strategy", Kind::OneOf(STRATEGY_NAMES)),
    Key::new("compaction.auto_consolidate_min_window", Kind::Count),
    Key::new("compaction.shared_lines", Kind::Flag).not_by_projects(),
    Key::new("compaction.tail", Kind::Flag),
    Key::new("compaction.tail_bytes", Kind::Count),
    Key::new("compaction.tail_turns", Kind::Count),
    Key::new("compaction.tool_pairs", Kind::Flag),
    Key::new("permissions.allow_all", Kind::Flag).not_by_projects(),
    Key::new("sandbox.writable", Kind::Paths).not_by_projects(),
    Key::new("sandbox.hidden", Kind::Paths).not_by_projects(),
    Key::new("sandbox.network", Kind::Network).not_by_projects(),
    Key::new("sandbox.processes", Kind::Count).not_by_projects(),
    Key::new("agents.max_concurrent", Kind::Count),
    Key::new("agents.max_depth", Kind::Count),
    Key::new("agents.max_total", Kind::Count),
    Key::new("agents.max_turns", Kind::Count),
    Key::new("agents.max_output_tokens", Kind::Count),
    Key::new("fetch.allow", Kind::Names).not_by_projects(),
    Key::new("fetch.max_bytes", Kind::Count),
    Key::new("fetch.seconds", Kind::Count),
    Key::new("fetch.redirects", Kind::Count),
    Key::new("docker.socket", Kind::Text).not_by_projects(),
    Key::new("docker.network", Kind::Flag).not_by_projects(),
    Key::new("limits.memory_mb", Kind::Count).not_by_projects(),
    Key::new("limits.processes", Kind::Count).not_by_projects(),
    Key::new("limits.output_mb", Kind::Count).not_by_projects(),
    Key::new("limits.seconds", Kind::Count).not_by_projects(),
    Key::new("permissions.mode", Kind::OneOf(&["read-only", "ask", "accept-edits", "auto", "all"]))
        .not_by_projects(),
    Key::new("permissions.audit", Kind::Flag).not_by_projects(),
    Key::new("mcp.wait", Kind::Whole),
    Key::new("mcp.disclosure", Kind::OneOf(&["eager", "lazy"])),
    Key::new("mcp.eager_tokens", Kind::Count),
    Key::new("mcp.opener", Kind::Texts).not_by_projects(),
    Key::new("mcp.client_metadata_url", Kind::Text).not_by_projects(),
    Key::new("mcp.servers.*.type", Kind::OneOf(&["stdio", "http", "sse"])),
    Key::new("mcp.servers.*.command", Kind::Text),
    Key::new("mcp.servers.*.args", Kind::Texts),
    Key::new("mcp.servers.*.cwd", Kind::Text),
    Key::new("mcp.servers.*.env.*", Kind::Text).secret(),
    Key::new("mcp.servers.*.url", Kind::Text),
    Key::new("mcp.servers.*.headers.*", Kind::Text).secret(),
    Key::new("mcp.servers.*.oauth.client_id", Kind::Text),
    Key::new("mcp.servers.*.oauth.client_secret", Kind::Text).secret(),
    Key::new("mcp.servers.*.oauth.issuer", Kind::Text),
    Key::new("mcp.servers.*.oauth.scopes", Kind::Texts),
    Key::new("mcp.servers.*.oauth.port", Kind::Count),
    Key::new("mcp.servers.*.oauth.client_metadata_url", Kind::Text),
    Key::new("mcp.servers.*.enabled", Kind::Flag),
    Key::new("mcp.servers.*.timeout", Kind::Count),
    Key::new("mcp.servers.*.tool_timeouts.*", Kind::Count),
    Key::new("mcp.servers.*.start_timeout", Kind::Count),
    Key::new("mcp.servers.*.disclosure", Kind::OneOf(&["eager", "lazy"])),
    Key::new("mcp.servers.*.pin", Kind::Flag).not_by_projects(),
    Key::new("mcp.servers.*.trust", Kind::OneOf(&["trusted", "untrusted", "sandboxed"])).not_by_projects(),
    Key::new("mcp.servers.*.allow_tools", Kind::Texts).not_by_projects(),
    Key::new("mcp.servers.*.deny_tools", Kind::Texts).not_by_projects(),
    Key::new("mcp.servers.*.skills", Kind::OneOf(&["ask", "allow", "deny"])).not_by_projects(),
    Key::new("mcp.servers.*.read_only", Kind::Texts).not_by_projects(),
    Key::new("mcp.servers.*.sampling", Kind::OneOf(&["ask", "allow", "deny"])).not_by_projects(),
    Key::new("permissions.allow", Kind::Rules),
    Key::new("permissions.ask", Kind::Rules),
    Key::new("permissions.deny", Kind::Rules),
    Key::new("models.*.window", Kind::Count),
    Key::new("models.*.max_output", Kind::Count),
    Key::new("models.*.input", Kind::Price),
    Key::new("models.*.output", Kind::Price),
    Key::new("models.*.cache_read", Kind::Price),
    Key::new("models.*.cache_write", Kind::Price),
    Key::new("models.*.vision", Kind::Flag),
    Key::new("models.*.thinking", Kind::OneOf(&["none", "budget", "effort", "adaptive"])),
    Key::new("models.*.efforts", Kind::Efforts),
    Key::new("providers.*.like", Kind::Text).not_by_projects(),
    Key::new("providers.*.base_url", Kind::Text).not_by_projects(),
    Key::new("providers.*.model", Kind::Text).not_by_projects(),
    Key::new("providers.*.auth_header", Kind::Text).not_by_projects(),
    Key::new("providers.*.auth_prefix", Kind::Text).not_by_projects(),
    Key::new("providers.*.clocks.first_event", Kind::Count).not_by_projects(),
    Key::new("providers.*.clocks.liveness", Kind::Count).not_by_projects(),
    Key::new("providers.*.clocks.progress", Kind::Count).not_by_projects(),
    Key::new("providers.*.retry.retries", Kind::Count).not_by_projects(),
    Key::new("providers.*.retry.longest_wait", Kind::Count).not_by_projects(),
    Key::new("providers.*.headers.*", Kind::Text).not_by_projects().secret(),
    Key::new("providers.*.api_key", Kind::Text).not_by_projects().secret(),
    Key::new("providers.*.auth_token", Kind::Text).not_by_projects().secret(),
];

/// Values of `sandbox.network` beside a list of hosts.
pub(super) const NETWORKS: [&str; 3] = ["none", "loopback", "all"];

/// Tables in which a misspelt key would leave a door open.
const GUARDED: [&str; 5] = ["docker", "limits", "permissions", "policy", "sandbox"];

/// Letters in which a misspelt table may differ from the one that was meant.
const MAX_TABLE_ERRORS: usize = 2;

/// Tables that a project cannot touch at all: they say where requests go and what may run.
const NOT_BY_PROJECTS: [&str; 6] = ["docker", "limits", "permissions", "policy", "sandbox", "providers"];

/// Keys that say how zk looks: a wrong one is no reason not to begin.
const LOOKS: [&str; 2] = ["screen", "theme"];

/// Endpoint keys people look for at the top level.
const ENDPOINT: [&str; 3] = ["base_url", "api_key", "auth_token"];

pub(super) struct Key {
    pub(super) path: &'static str,
    pub(super) kind: Kind,
    by_projects: bool,
    secret: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    /// A list of texts.
    Texts,
    OneOf(&'static [&'static str]),
    /// Context of commands.
    Context,
    /// `"none"`, `"loopback"`, `"all"`, or a list of hosts.
    Network,
    /// A whole number from 1.
    Count,
    /// A whole number from 0.
    Whole,
    Flag,
    /// A list of paths from the root or, after `~/`, from the home directory.
    Paths,
    /// A list of names.
    Names,
    /// US dollars for a million tokens, at least 0.
    Price,
    /// US dollars, more than 0.
    Dollars,
    /// A number from 0 to 1.
    Share,
    /// A list of levels, each with its word where that is another one: `"high=default"`.
    Efforts,
    /// A list of permission rules. The rules of all layers hold, none outranks another.
    Rules,
}

impl Key {
    const fn new(path: &'static str, kind: Kind) -> Self {
        Self { path, kind, by_projects: true, secret: false }
    }

    const fn not_by_projects(mut self) -> Self {
        self.by_projects = false;
        self
    }

    const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    fn is(&self, path: &[String]) -> bool {
        let mut parts = self.path.split('.');
        path.iter().all(|name| parts.next().is_some_and(|part| part == "*" || part == name))
            && parts.next().is_none()
    }

    /// Whether it stands in the table at `path`, which is not one of a kind that people name.
    fn is_below(&self, path: &[String]) -> bool {
        let mut parts = self.path.split('.');
        path.iter().all(|name| parts.next().is_some_and(|part| part == name)) && parts.next().is_some()
    }
}

/// Result of checking one value of a layer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Check {
    Valid,
    /// Kept, with a warning.
    Warn(String),
    /// Left out, with a warning that says why.
    Ignored(String),
    /// Ends the program.
    Invalid(String),
}

/// Whether it is the key or the token of a provider.
pub(crate) fn is_provider_key(path: &[String]) -> bool {
    matches!(path, [table, _, what] if table == "providers" && ENDPOINT.iter().skip(1).any(|name| name == what))
}

pub(crate) fn is_secret(path: &[String]) -> bool {
    KEYS.iter().any(|key| key.secret && key.is(path))
        || path.last().is_some_and(|last| ENDPOINT.iter().skip(1).any(|name| name == last))
}

pub(crate) fn check(path: &[String], value: &toml::Value, layer: Layer, vendors: &Vendors) -> Check {
    let name = dotted(path);
    let table = path.first().map_or("", String::as_str);
    let key = KEYS.iter().find(|key| key.is(path));
    let endpoint = path.len() == 1 && ENDPOINT.contains(&table);
    let is_rules = key.is_some_and(|key| matches!(key.kind, Kind::Rules));
    let barred = (NOT_BY_PROJECTS.contains(&table) && !is_rules)
        || endpoint
        || key.is_some_and(|key| !key.by_projects);
    if layer.is_project() && barred {
        return Check::Ignored(format!(
            "`{name}` is ignored: a project's files cannot say where requests go or what may run; \
             put it into your own settings"
        ));
    }
    if table == "plugins" {
        // The table of a plugin is checked by the plugin.
        return match (path.len(), value) {
            (3.., _) | (_, toml::Value::Table(_)) => Check::Valid,
            _ => Check::Invalid(format!("`{name}` must be a table, such as [plugins.guard]")),
        };
    }
    if is_free(path) {
        // Values in there are checked by whoever uses them.
        return Check::Valid;
    }
    if let [_, _, what] = path
        && is_free(&[path, &[String::new()]].concat())
    {
        return match value {
            // An empty one.
            toml::Value::Table(_) => Check::Valid,
            _ => Check::Invalid(format!("`{name}` must be a table, such as {what} = {{ name = \"value\" }}")),
        };
    }
    if let ([_, provider], "providers") = (path, table) {
        return match value {
            toml::Value::Table(_) if vendors.named(provider).is_some() => Check::Valid,
            toml::Value::Table(_) => Check::Warn(format!(
                "[{name}] is empty: a provider of your own needs a `base_url`, or whom it is `like`"
            )),
            _ => Check::Invalid(format!("`{name}` must be a table: [{name}]")),
        };
    }
    let Some(key) = key else {
        return if is_empty_table(path, value) { Check::Valid } else { unknown(&name, path, endpoint) };
    };
    if let ("models", Some(model)) = (table, path.get(1))
        && model.split_once('/').is_none_or(|(provider, id)| provider.is_empty() || id.is_empty())
    {
        return Check::Warn(format!(
            "`{name}` is about no model: name it with its provider, such as [models.\"anthropic/{model}\"]"
        ));
    }
    if let Kind::OneOf(choices) = key.kind
        && LOOKS.contains(&name.as_str())
        && layer != Layer::CommandLine
        && !value.as_str().is_some_and(|word| choices.contains(&word))
    {
        return Check::Ignored(format!(
            "`{name}` cannot be {value}: what it is without this line holds; use {}",
            crate::suggest::either(choices)
        ));
    }
    match (key.kind, value) {
        (Kind::Text, toml::Value::String(_)) | (Kind::Flag, toml::Value::Boolean(_)) => Check::Valid,
        (Kind::Count, toml::Value::Integer(count)) if (1..=i64::from(u32::MAX)).contains(count) => {
            Check::Valid
        }
        (Kind::Whole, toml::Value::Integer(count)) if (0..=i64::from(u32::MAX)).contains(count) => {
            Check::Valid
        }
        (Kind::Price, toml::Value::Integer(0..)) => Check::Valid,
        (Kind::Price, toml::Value::Float(price)) if *price >= 0.0 && price.is_finite() => Check::Valid,
        (Kind::Share, toml::Value::Integer(0..=1)) => Check::Valid,
        (Kind::Share, toml::Value::Float(part)) if (0.0..=1.0).contains(part) => Check::Valid,
        (Kind::Dollars, toml::Value::Integer(1..)) => Check::Valid,
        (Kind::Dollars, toml::Value::Float(amount)) if *amount > 0.0 && amount.is_finite() => Check::Valid,
        (Kind::Paths, toml::Value::Array(paths)) if paths.iter().all(is_path) => Check::Valid,
        (Kind::Names, toml::Value::Array(names)) if names.iter().all(toml::Value::is_str) => Check::Valid,
        (Kind::Efforts, toml::Value::Array(levels)) if levels.iter().all(is_effort) => Check::Valid,
        (Kind::OneOf(choices), toml::Value::String(word)) if choices.contains(&word.as_str()) => Check::Valid,
        (Kind::Rules, toml::Value::Array(rules)) => rules
            .iter()
            .find_map(|rule| wrong_rule(path, rule))
            .map_or(Check::Valid, |why| Check::Invalid(format!("`{name}`: {why}"))),
        (Kind::Rules, _) => {
            Check::Invalid(format!("`{name}` must be a list of rules, such as [\"cargo test **\"]"))
        }
        (Kind::Context, toml::Value::String(text)) => match text.parse::<ContextName>() {
            Ok(_) => Check::Valid,
            Err(why) => Check::Invalid(format!("`{name}` cannot be `{text}`: {why}")),
        },
        (Kind::Context, _) => Check::Invalid(format!("`{name}` must be {}", ContextName::CHOICES)),
        (Kind::Network, toml::Value::String(word)) if NETWORKS.contains(&word.as_str()) => Check::Valid,
        (Kind::Network, toml::Value::Array(hosts)) if hosts.iter().all(toml::Value::is_str) => {
            match HostRules::parse(hosts.iter().filter_map(toml::Value::as_str)) {
                Ok(_) => Check::Valid,
                Err(why) => Check::Invalid(format!("`{name}`: {why}")),
            }
        }
        (Kind::Network, _) => Check::Invalid(format!(
            "`{name}` must be {} or a list of hosts, such as [\"crates.io\", \"*.npmjs.org\"]",
            crate::suggest::either(&NETWORKS)
        )),
        (Kind::Texts, toml::Value::Array(texts)) if texts.iter().all(toml::Value::is_str) => Check::Valid,
        (Kind::Texts, _) => Check::Invalid(format!("`{name}` must be a list of texts in quotes")),
        (Kind::Text, _) => Check::Invalid(format!("`{name}` must be a text in quotes")),
        (Kind::Flag, _) => Check::Invalid(format!("`{name}` must be true or false")),
        (Kind::Count, _) => Check::Invalid(format!("`{name}` must be a whole number from 1")),
        (Kind::Whole, _) => Check::Invalid(format!("`{name}` must be a whole number from 0")),
        (Kind::Price, _) => {
            Check::Invalid(format!("`{name}` must be the US dollars for a million tokens, a number from 0"))
        }
        (Kind::Share, _) => Check::Invalid(format!("`{name}` must be a number from 0 to 1")),
        (Kind::Dollars, _) => Check::Invalid(format!("`{name}` must be an amount of US dollars above 0")),
        (Kind::Paths, _) => Check::Invalid(format!(
            "`{name}` must be a list of paths that begin with / or ~/, such as [\"~/.cache/pip\"]"
        )),
        (Kind::Names, _) => Check::Invalid(format!("`{name}` must be a list of names, such as [\"pdf\"]")),
        (Kind::Efforts, _) => Check::Invalid(format!(
            "`{name}` must be a list of the levels the model has, of {}, each with the word the server wants \
             where that is another one, such as [\"off\", \"high=default\"]",
            crate::suggest::either(&Efforts::LEVELS)
        )),
        (Kind::OneOf(choices), toml::Value::String(word)) => {
            Check::Invalid(format!("`{name}` cannot be `{word}`; use {}", crate::suggest::either(choices)))
        }
        (Kind::OneOf(choices), _) => {
            Check::Invalid(format!("`{name}` must be {}", crate::suggest::either(choices)))
        }
    }
}

/// Tables of a provider that describe a sign-in, the settings of its dialect, and more of a request's body.
fn is_free(path: &[String]) -> bool {
    match path {
        [providers, _, table, _, ..] => {
            providers == "providers" && ["oauth", "options", "extra_body"].contains(&table.as_str())
        }
        _ => false,
    }
}

/// Whether it is a table of known keys of which none is given.
pub(super) fn is_empty_table(path: &[String], value: &toml::Value) -> bool {
    value.as_table().is_some_and(toml::Table::is_empty) && KEYS.iter().any(|key| key.is_below(path))
}

fn is_path(path: &toml::Value) -> bool {
    path.as_str().is_some_and(|path| path.starts_with('/') || path.starts_with("~/"))
}

/// One level of effort, with or without a word of its own.
fn is_effort(level: &toml::Value) -> bool {
    level.as_str().is_some_and(|level| {
        let (level, word) = level.split_once('=').unwrap_or((level, level));
        Efforts::LEVELS.contains(&level) && !word.is_empty()
    })
}

fn unknown(name: &str, path: &[String], endpoint: bool) -> Check {
    let table = path.first().map_or("", String::as_str);
    // A part that stands for any name is not the one that is misspelt.
    let pattern = match path {
        [table, _, rest @ ..] if !rest.is_empty() => {
            dotted(&[&[table.clone(), "*".to_owned()], rest].concat())
        }
        _ => name.to_owned(),
    };
    let pattern = pattern.replace("\"*\"", "*");
    let hint = if endpoint {
        format!("; put it under its provider, such as providers.anthropic.{name}")
    } else {
        let paths =
            KEYS.iter().map(|key| key.path).filter(|path| path.contains('*') == pattern.contains('*'));
        crate::suggest::did_you_mean(&pattern, paths)
    };
    let text = format!("unknown setting `{name}`{hint}");
    if is_nearly_guarded(table) { Check::Invalid(text) } else { Check::Warn(text) }
}

/// Whether a table is one in which a misspelt key leaves a door open, or the misspelt name of one.
fn is_nearly_guarded(table: &str) -> bool {
    let is_known = |key: &Key| key.path.split('.').next() == Some(table);
    GUARDED.contains(&table)
        || (!KEYS.iter().any(is_known)
            && GUARDED
                .iter()
                .any(|guarded| strsim::osa_distance(&table.to_lowercase(), guarded) <= MAX_TABLE_ERRORS))
}
