//! Settings of hooks.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::event::{HookEvent, UNSUPPORTED_EVENTS};
use super::matcher::Matcher;
use super::names::Vocabulary;

/// Default time limit of a hook.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time limit of a hook, in seconds.
const MAX_HOOK_SECONDS: f64 = 3600.0;

/// Settings file of hooks, with the rights of its hooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookSource {
    /// Path or name of the file, for messages.
    pub place: String,
    /// Whether it is a settings file of Claude Code, whose hooks get that program's names of tools and
    /// arguments.
    pub is_claude: bool,
    /// Whether its hooks may allow calls in place of the person. False for those of a project.
    pub may_allow: bool,
}

/// One command hook.
#[derive(Clone, Debug)]
pub struct CommandHook {
    /// Event of the hook.
    pub event: HookEvent,
    /// Matcher of tools, or of the event's kind.
    pub matcher: Matcher,
    /// Command line of the hook, for `bash -c`.
    pub command: String,
    /// Time limit of the hook.
    pub timeout: Duration,
    /// Settings file of the hook.
    pub source: Arc<HookSource>,
    /// Reason why the hook cannot run, if any; a gate then refuses.
    pub unusable: Option<String>,
    /// Environment variables of the hook beside the usual ones.
    pub env: Vec<(String, String)>,
}

impl CommandHook {
    /// Vocabulary for the hook's input about a tool; `None` if the hook does not match the tool.
    pub(super) fn vocabulary(&self, tool: &str) -> Option<Vocabulary> {
        let matched = self.matcher.tool(tool)?;
        Some(if self.source.is_claude { Vocabulary::Claude } else { matched })
    }
}

/// Hooks in the order of their settings.
#[derive(Clone, Debug, Default)]
pub struct HookSet {
    /// The hooks.
    pub hooks: Vec<Arc<CommandHook>>,
    /// Warnings about settings without effect.
    pub warnings: Vec<String>,
}

/// Invalid settings of hooks; none of the hooks is used then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` {what}")]
pub struct HookConfigError {
    /// Path of the setting.
    pub key: String,
    /// Error in words.
    pub what: String,
}

/// Matcher with one command, or several.
#[derive(Deserialize)]
struct Group {
    matcher: Option<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// Settings of one command; some fields of Claude Code have no effect here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    #[serde(rename = "type")]
    _kind: Option<String>,
    command: Option<String>,
    timeout: Option<f64>,
    #[serde(default)]
    r#async: bool,
    #[serde(rename = "statusMessage")]
    _status_message: Option<String>,
}

impl HookSet {
    /// Parses a `hooks` table: `{"PreToolUse": [{"matcher": "shell", "command": "…", "timeout": 60}]}`, or,
    /// as in Claude Code, with a list of commands below `hooks` of each matcher.
    ///
    /// # Errors
    /// [`HookConfigError`] for misspelt settings and wrong types: a guard must not be skipped silently.
    pub fn read(hooks: &Value, source: HookSource) -> Result<Self, HookConfigError> {
        let source = Arc::new(source);
        let Value::Object(events) = hooks else {
            return Err(config_error("hooks", "must be a table, such as [[hooks.PreToolUse]]"));
        };
        let mut set = Self::default();
        for (name, groups) in events {
            let key = format!("hooks.{name}");
            let Some(event) = HookEvent::named(name) else {
                if UNSUPPORTED_EVENTS.contains(&name.as_str()) {
                    set.warnings
                        .push(format!("{}: `{key}` has no effect: zk has no such event", source.place));
                    continue;
                }
                let names: Vec<&str> = HookEvent::ALL.into_iter().map(HookEvent::name).collect();
                return Err(config_error(&key, format!("is no event; there are {}", names.join(", "))));
            };
            let Value::Array(groups) = groups else {
                return Err(config_error(&key, format!("must be a list: [[{key}]]")));
            };
            for (at, group) in groups.iter().enumerate() {
                let key = format!("{key}[{at}]");
                set.hooks.extend(read_group(group, event, &key, &source)?.into_iter().map(Arc::new));
            }
        }
        Ok(set)
    }

    /// Appends the hooks of `other`.
    pub fn extend(&mut self, other: Self) {
        self.hooks.extend(other.hooks);
        self.warnings.extend(other.warnings);
    }

    /// Hooks as those of a bundle: `expand` replaces variables in their commands, and `env` is added to their environment.
    /// Hooks that cannot run are left out with a warning, as the bundle's author did not write them for this program.
    #[must_use]
    pub fn of_bundle(self, expand: &dyn Fn(&str) -> String, env: &[(String, String)]) -> Self {
        let mut set = Self { hooks: Vec::new(), warnings: self.warnings };
        for hook in self.hooks {
            if let Some(why) = &hook.unusable {
                set.warnings
                    .push(format!("{}: its hook of {} is left out: {why}", hook.source.place, hook.event));
                continue;
            }
            let command = expand(&hook.command);
            set.hooks.push(Arc::new(CommandHook { command, env: env.to_vec(), ..(*hook).clone() }));
        }
        set
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    /// Sum of the time limits of the hooks of an event, which run one after the other.
    pub(super) fn total_time_limit(&self, event: HookEvent) -> Option<Duration> {
        let limits = self.hooks.iter().filter(|hook| hook.event == event).map(|hook| hook.timeout);
        limits.reduce(|sum, limit| sum + limit)
    }

    /// Longest time limit among the hooks of these events, which run in parallel.
    pub(super) fn longest_time_limit(&self, events: &[HookEvent]) -> Option<Duration> {
        self.hooks.iter().filter(|hook| events.contains(&hook.event)).map(|hook| hook.timeout).max()
    }
}

fn config_error(key: &str, what: impl Into<String>) -> HookConfigError {
    HookConfigError { key: key.to_owned(), what: what.into() }
}

fn read_group(
    group: &Value,
    event: HookEvent,
    key: &str,
    source: &Arc<HookSource>,
) -> Result<Vec<CommandHook>, HookConfigError> {
    let not = |error: serde_json::Error| config_error(key, format!("is no hook: {error}"));
    let Group { matcher, mut rest } = Group::deserialize(group).map_err(not)?;
    let matcher = matcher.unwrap_or_default();
    let (parsed, kind) = if event == HookEvent::FileChanged {
        (Matcher::parse_globs(&matcher), "list of globs")
    } else {
        (Matcher::parse(&matcher), "regular expression")
    };
    let matcher =
        parsed.map_err(|error| config_error(&format!("{key}.matcher"), format!("is no {kind}: {error}")))?;
    let entries = match rest.remove("hooks") {
        None => vec![(key.to_owned(), Value::Object(rest))],
        Some(Value::Array(entries)) if rest.is_empty() => {
            let named = entries.into_iter().enumerate();
            named.map(|(at, entry)| (format!("{key}.hooks[{at}]"), entry)).collect()
        }
        Some(Value::Array(_)) => {
            return Err(config_error(key, "has `hooks`, so its other settings belong into these"));
        }
        Some(_) => return Err(config_error(&format!("{key}.hooks"), "must be a list")),
    };
    let hook = |(key, entry): (String, Value)| {
        // Handlers of other types have other fields.
        let kind = entry.get("type").and_then(Value::as_str).unwrap_or("command").to_owned();
        let (command, timeout, unusable) = if kind == "command" {
            let not = |error: serde_json::Error| config_error(&key, format!("is no hook: {error}"));
            let Entry { command, timeout, r#async, .. } = Entry::deserialize(&entry).map_err(not)?;
            let command = command.filter(|command| !command.trim().is_empty());
            let command = command.ok_or_else(|| config_error(&key, "has no `command`"))?;
            let unusable = r#async.then(|| "zk waits for its hooks, and `async` says not to".to_owned());
            (command, seconds(timeout, &key)?, unusable.filter(|_| event.is_gate()))
        } else {
            (kind.clone(), DEFAULT_TIMEOUT, Some(format!("zk runs commands, and this is of type `{kind}`")))
        };
        Ok(CommandHook {
            event,
            matcher: matcher.clone(),
            command,
            timeout,
            source: source.clone(),
            unusable,
            env: Vec::new(),
        })
    };
    entries.into_iter().map(hook).collect()
}

fn seconds(timeout: Option<f64>, key: &str) -> Result<Duration, HookConfigError> {
    match timeout {
        None => Ok(DEFAULT_TIMEOUT),
        Some(seconds) if seconds > 0.0 && seconds <= MAX_HOOK_SECONDS => Ok(Duration::from_secs_f64(seconds)),
        Some(_) => Err(config_error(&format!("{key}.timeout"), "must be seconds, above 0 and up to 3600")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn source() -> HookSource {
        HookSource { place: "settings.toml".into(), is_claude: false, may_allow: true }
    }

    #[test]
    fn hooks_with_one_command_and_with_a_list_are_read() {
        let set = HookSet::read(
            &json!({
                "PreToolUse": [
                    {"matcher": "shell", "command": "a", "timeout": 5},
                    {"matcher": "Write", "hooks": [{"type": "command", "command": "b"}, {"type": "http", "url": "x"}]},
                ],
                "Stop": [{"command": "c", "async": true}],
                "WorktreeCreate": [{"command": "d"}],
            }),
            source(),
        )
        .unwrap();
        let shown: Vec<_> = set
            .hooks
            .iter()
            .map(|hook| (hook.event.name(), &*hook.command, hook.timeout.as_secs(), hook.unusable.is_some()))
            .collect();
        assert_eq!(
            shown,
            [
                ("PreToolUse", "a", 5, false),
                ("PreToolUse", "b", 60, false),
                ("PreToolUse", "http", 60, true),
                ("Stop", "c", 60, false),
            ]
        );
        assert_eq!(set.warnings.len(), 1);
    }

    #[test]
    fn variables_in_hooks_of_a_bundle_are_replaced_and_unusable_hooks_dropped() {
        let hooks = json!({"PreToolUse": [{"hooks": [
            {"type": "command", "command": "${ROOT}/guard '${ROOT}'"}, {"type": "prompt", "prompt": "x"}
        ]}]});
        let env = [("ROOT".to_owned(), "/b".to_owned())];
        let expand = |text: &str| text.replace("${ROOT}", "/b");
        let set = HookSet::read(&hooks, source()).unwrap().of_bundle(&expand, &env);
        assert_eq!(set.hooks.len(), 1);
        assert_eq!((&*set.hooks[0].command, &*set.hooks[0].env), ("/b/guard '/b'", &env[..]));
        assert!(set.warnings[0].contains("left out"), "{:?}", set.warnings);
    }

    #[test]
    fn a_misspelt_setting_is_an_error_that_names_it() {
        for (hooks, said) in [
            (json!([]), "`hooks` must be a table"),
            (json!({"PreToolUze": []}), "`hooks.PreToolUze` is no event"),
            (json!({"PreToolUse": {}}), "must be a list"),
            (json!({"PreToolUse": [{"comand": "x"}]}), "unknown field `comand`"),
            (json!({"PreToolUse": [{}]}), "`hooks.PreToolUse[0]` has no `command`"),
            (json!({"PreToolUse": [{"command": " "}]}), "has no `command`"),
            (json!({"PreToolUse": [{"command": "x", "timeout": 0}]}), "above 0"),
            (json!({"PreToolUse": [{"command": "x", "timeout": "5"}]}), "is no hook"),
            (json!({"PreToolUse": [{"command": "x", "matcher": "("}]}), "no regular expression"),
            (json!({"FileChanged": [{"command": "x", "matcher": "a|[b"}]}), "no list of globs: `[b`"),
            (json!({"PreToolUse": [{"matcher": 5, "command": "x"}]}), "is no hook"),
            (json!({"PreToolUse": [{"hooks": [], "command": "x"}]}), "belong into these"),
            (json!({"PreToolUse": [{"hooks": {}}]}), "must be a list"),
            (json!({"PreToolUse": ["x"]}), "is no hook"),
        ] {
            let error = HookSet::read(&hooks, source()).unwrap_err().to_string();
            assert!(error.contains(said), "{hooks}: {error}");
        }
    }
}
