use serde_json::{Map, Value};

use super::HostRule;

/// Keys that change nothing of what an agent may do.
const UNNEEDED: [&str; 9] = [
    "$schema",
    "cleanupPeriodDays",
    "includeCoAuthoredBy",
    "outputStyle",
    "spinnerTipsEnabled",
    "statusLine",
    "theme",
    "verbose",
    "viewMode",
];

/// Settings in the shape of Claude Code, as hosts give them: the parts that zk serves.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HostSettings {
    pub(crate) allow: Vec<String>,
    pub(crate) ask: Vec<String>,
    pub(crate) deny: Vec<String>,
    pub(crate) mode: Option<String>,
    pub(crate) directories: Vec<String>,
    pub(crate) model: Option<String>,
    pub(crate) hooks: HostHooks,
    pub(crate) sandbox: HostSandbox,
    /// Whether no mode may be chosen that never asks.
    pub(crate) keeps_asking: bool,
    /// Notices about keys without effect.
    pub(crate) told: Vec<String>,
}

/// Hooks of settings, and which of them run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HostHooks {
    of_host: Map<String, Value>,
    of_manager: Map<String, Value>,
    /// Whether hooks run only if a manager gave them.
    pub(crate) are_off: bool,
    are_those_of_managers_off: bool,
}

impl HostHooks {
    /// Hooks that run.
    pub(crate) fn running_hooks(&self) -> Map<String, Value> {
        let mut all = Map::new();
        if !self.are_those_of_managers_off {
            add_groups(&mut all, &self.of_manager);
        }
        if !self.are_off {
            add_groups(&mut all, &self.of_host);
        }
        all
    }
}

/// Containment of commands as a host wants it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostSandbox {
    /// Whether commands run in the sandbox, or not at all.
    pub(crate) is_needed: bool,
    /// Whether a single command may run outside after a question.
    may_leave: Option<bool>,
}

impl HostSandbox {
    /// Whether a call that leaves the sandbox is refused.
    pub(crate) fn is_closed(self) -> bool {
        self.is_needed && self.may_leave != Some(true)
    }
}

impl HostSettings {
    /// Adds settings from `place`. Managed settings are refused if one of their keys cannot be served.
    ///
    /// # Errors
    /// A sentence about a value of another shape, or a key of a manager that zk does not serve.
    pub(crate) fn add(&mut self, settings: &Value, place: &str, is_managed: bool) -> Result<(), String> {
        let Value::Object(settings) = settings else { return Err(format!("{place} is no JSON object")) };
        for (key, value) in settings {
            match key.as_str() {
                "permissions" => self.add_permissions(value, place)?,
                "model" => self.model = Some(parse_text(value, key, place)?),
                "hooks" => self.add_hooks(value, place, is_managed)?,
                "disableAllHooks" => {
                    let off = parse_flag(value, key, place)?;
                    self.hooks.are_off |= off;
                    self.hooks.are_those_of_managers_off |= off && is_managed;
                }
                "sandbox" => self.add_sandbox(value, place, is_managed)?,
                key if UNNEEDED.contains(&key) => {}
                key => self.report_unsupported(key, place, is_managed)?,
            }
        }
        Ok(())
    }

    fn add_permissions(&mut self, value: &Value, place: &str) -> Result<(), String> {
        let Value::Object(fields) = value else {
            return Err(format!("`permissions` of {place} is no object"));
        };
        for (key, value) in fields {
            match key.as_str() {
                "allow" => self.allow.extend(rules(value, key, place)?),
                "ask" => self.ask.extend(rules(value, key, place)?),
                "deny" => self.deny.extend(rules(value, key, place)?),
                "defaultMode" => self.mode = Some(parse_text(value, key, place)?),
                "additionalDirectories" => self.directories.extend(parse_texts(value, key, place)?),
                "disableBypassPermissionsMode" => self.keeps_asking = true,
                // A misspelt key would restrict nothing.
                key => {
                    return Err(format!(
                        "`permissions.{key}` of {place} cannot be used: zk does not serve it"
                    ));
                }
            }
        }
        Ok(())
    }

    fn add_hooks(&mut self, value: &Value, place: &str, is_managed: bool) -> Result<(), String> {
        let Value::Object(events) = value else { return Err(format!("`hooks` of {place} is no object")) };
        if let Some((event, _)) = events.iter().find(|(_, groups)| !groups.is_array()) {
            return Err(format!("`hooks.{event}` of {place} is no list"));
        }
        let HostHooks { of_host, of_manager, .. } = &mut self.hooks;
        add_groups(if is_managed { of_manager } else { of_host }, events);
        Ok(())
    }

    fn add_sandbox(&mut self, value: &Value, place: &str, is_managed: bool) -> Result<(), String> {
        let Value::Object(fields) = value else { return Err(format!("`sandbox` of {place} is no object")) };
        for (key, value) in fields {
            let name = format!("sandbox.{key}");
            match key.as_str() {
                "enabled" => self.sandbox.is_needed |= parse_flag(value, &name, place)?,
                "allowUnsandboxedCommands" => {
                    let may = parse_flag(value, &name, place)?;
                    self.sandbox.may_leave = Some(may && self.sandbox.may_leave != Some(false));
                }
                // A start without the sandbox that is needed always fails.
                "failIfUnavailable" => {}
                _ => self.report_unsupported(&name, place, is_managed)?,
            }
        }
        Ok(())
    }

    fn report_unsupported(&mut self, key: &str, place: &str, is_managed: bool) -> Result<(), String> {
        if is_managed {
            return Err(format!(
                "`{key}` of {place} cannot be used: zk does not serve it, and a manager's settings count as a whole"
            ));
        }
        self.told.push(format!("`{key}` of {place} has no effect: zk does not serve it"));
        Ok(())
    }
}

/// Adds hooks to those of their events.
fn add_groups(all: &mut Map<String, Value>, events: &Map<String, Value>) {
    for (event, groups) in events {
        let known = all.entry(event.clone()).or_insert_with(|| Value::Array(Vec::new()));
        if let Some(known) = known.as_array_mut() {
            known.extend(groups.as_array().into_iter().flatten().cloned());
        }
    }
}

fn parse_flag(value: &Value, key: &str, place: &str) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("`{key}` of {place} is neither true nor false"))
}

fn parse_text(value: &Value, key: &str, place: &str) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("`{key}` of {place} is no text"))
}

fn parse_texts(value: &Value, key: &str, place: &str) -> Result<Vec<String>, String> {
    let items = value.as_array().and_then(|items| {
        items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
    });
    items.ok_or_else(|| format!("`{key}` of {place} is no list of texts"))
}

/// Converts the host's rules to rules of zk. Rules that allow unknown calls are left out.
fn rules(value: &Value, key: &str, place: &str) -> Result<Vec<String>, String> {
    let all = parse_texts(value, &format!("permissions.{key}"), place)?;
    let zk_rules = |rule: &String| match (HostRule::read(rule), key) {
        (rule, "allow") => Ok(rule.allowed()),
        (rule, _) => rule.restriction_rules().map_err(|why| format!("`permissions.{key}` of {place}: {why}")),
    };
    Ok(all.iter().map(zk_rules).collect::<Result<Vec<_>, _>>()?.concat())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_of_a_host_are_applied_reported_or_refused() {
        let mut read = HostSettings::default();
        let given = json!({
            "permissions": {"allow": ["Bash(git log:*)"], "deny": ["Write"], "defaultMode": "acceptEdits", "additionalDirectories": ["/a"]},
            "model": "m", "hooks": {"PreToolUse": []}, "outputStyle": "x", "env": {"A": "b"},
        });
        read.add(&given, "--settings", false).unwrap();
        assert_eq!(read.allow, ["git log", "git log **"]);
        assert_eq!(
            (read.deny, read.directories),
            (vec!["tool(write_file)".to_owned()], vec!["/a".to_owned()])
        );
        assert_eq!((read.mode.as_deref(), read.model.as_deref()), (Some("acceptEdits"), Some("m")));
        assert_eq!(read.told, ["`env` of --settings has no effect: zk does not serve it"]);
        for (wrong, why) in [
            (json!([]), "no JSON object"),
            (json!({"permissions": {"deny": "Bash"}}), "`permissions.deny` of --settings is no list"),
            (json!({"permissions": {"denny": []}}), "`permissions.denny` of --settings cannot be used"),
            (json!({"permissions": {"ask": ["Bassh"]}}), "`Bassh` is no tool"),
            (json!({"model": 3}), "`model` of --settings is no text"),
        ] {
            let error = HostSettings::default().add(&wrong, "--settings", false).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let managed = HostSettings::default().add(&json!({"env": {}}), "--managed-settings", true);
        assert!(managed.unwrap_err().contains("cannot be used"));
    }

    #[test]
    fn hooks_that_are_switched_off_leave_those_of_a_manager() {
        let (own, managed) = (json!({"hooks": {"Stop": [{"a": 1}]}}), json!({"hooks": {"Stop": [{"b": 2}]}}));
        let off = json!({"disableAllHooks": true});
        for (more, by_manager, running) in [
            (json!({"disableAllHooks": false}), false, json!({"Stop": [{"b": 2}, {"a": 1}]})),
            (off.clone(), false, json!({"Stop": [{"b": 2}]})),
            (off, true, json!({})),
        ] {
            let mut read = HostSettings::default();
            read.add(&own, "--settings", false).unwrap();
            read.add(&managed, "--managed-settings", true).unwrap();
            read.add(&more, "x", by_manager).unwrap();
            assert_eq!(Value::Object(read.hooks.running_hooks()), running);
        }
        let wrong = HostSettings::default().add(&json!({"disableAllHooks": "yes"}), "--settings", false);
        assert!(wrong.unwrap_err().contains("neither true nor false"));
    }

    #[test]
    fn a_sandbox_that_is_needed_is_closed_unless_the_host_lets_commands_out() {
        let sandbox = |parts: &[Value]| {
            let mut read = HostSettings::default();
            for part in parts {
                read.add(&json!({"sandbox": part}), "--settings", false).unwrap();
            }
            (read.sandbox.is_needed, read.sandbox.is_closed(), read.told.len())
        };
        let let_out = json!({"allowUnsandboxedCommands": true});
        let on = json!({"enabled": true, "failIfUnavailable": true});
        assert_eq!(sandbox(std::slice::from_ref(&on)), (true, true, 0));
        assert_eq!(sandbox(&[on.clone(), let_out.clone()]), (true, false, 0));
        assert_eq!(sandbox(&[on, json!({"allowUnsandboxedCommands": false}), let_out]), (true, true, 0));
        assert_eq!(sandbox(&[json!({"enabled": false, "network": {}})]), (false, false, 1));
        let network = json!({"sandbox": {"enabled": true, "network": {}}});
        let managed = HostSettings::default().add(&network, "--managed-settings", true);
        assert!(managed.unwrap_err().contains("`sandbox.network`"));
    }
}
