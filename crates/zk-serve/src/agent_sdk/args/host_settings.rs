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
    pub(crate) hooks: Map<String, Value>,
    /// Whether no mode may be chosen that never asks.
    pub(crate) keeps_asking: bool,
    /// Sentences about keys without effect.
    pub(crate) told: Vec<String>,
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
                "model" => self.model = Some(text(value, key, place)?),
                "hooks" => self.add_hooks(value, place)?,
                "sandbox" if !is_managed => {
                    self.told.push(format!(
                        "`sandbox` of {place} has no effect: commands run in the sandbox of zk's own settings"
                    ));
                }
                key if UNNEEDED.contains(&key) => {}
                key => self.leave_out(key, place, is_managed)?,
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
                "defaultMode" => self.mode = Some(text(value, key, place)?),
                "additionalDirectories" => self.directories.extend(texts(value, key, place)?),
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

    fn add_hooks(&mut self, value: &Value, place: &str) -> Result<(), String> {
        let Value::Object(events) = value else { return Err(format!("`hooks` of {place} is no object")) };
        for (event, groups) in events {
            let Value::Array(groups) = groups else {
                return Err(format!("`hooks.{event}` of {place} is no list"));
            };
            let all = self.hooks.entry(event.clone()).or_insert_with(|| Value::Array(Vec::new()));
            if let Some(all) = all.as_array_mut() {
                all.extend(groups.iter().cloned());
            }
        }
        Ok(())
    }

    fn leave_out(&mut self, key: &str, place: &str, is_managed: bool) -> Result<(), String> {
        if is_managed {
            return Err(format!(
                "`{key}` of {place} cannot be used: zk does not serve it, and a manager's settings count as a whole"
            ));
        }
        self.told.push(format!("`{key}` of {place} has no effect: zk does not serve it"));
        Ok(())
    }
}

fn text(value: &Value, key: &str, place: &str) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("`{key}` of {place} is no text"))
}

fn texts(value: &Value, key: &str, place: &str) -> Result<Vec<String>, String> {
    let items = value.as_array().and_then(|items| {
        items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
    });
    items.ok_or_else(|| format!("`{key}` of {place} is no list of texts"))
}

/// Converts the host's rules to rules of zk. Rules that allow unknown calls are left out.
fn rules(value: &Value, key: &str, place: &str) -> Result<Vec<String>, String> {
    let all = texts(value, &format!("permissions.{key}"), place)?;
    let zk_rules = |rule: &String| match (HostRule::read(rule), key) {
        (rule, "allow") => Ok(rule.allowed()),
        (rule, _) => rule.held().map_err(|why| format!("`permissions.{key}` of {place}: {why}")),
    };
    Ok(all.iter().map(zk_rules).collect::<Result<Vec<_>, _>>()?.concat())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_of_a_host_are_served_told_or_refused() {
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
}
