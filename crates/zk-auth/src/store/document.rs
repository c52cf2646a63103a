//! JSON document of the credential file. Unknown content is kept.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};

use crate::Secret;
use crate::{Credential, OAuthTokens};

/// Format version that this program writes.
const VERSION: u64 = 1;

/// Reason why a file is not a valid document; does not quote its content.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    Damaged(String),
    TooNew(u64),
}

#[derive(Debug, Default)]
pub(super) struct Document(Map<String, Value>);

impl Document {
    /// Parses a file. Only white space counts as an empty document, such as after `touch`.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Flaw> {
        if bytes.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        let damaged = |reason: String| Flaw::Damaged(reason);
        let value = serde_json::from_slice(bytes).map_err(|error| {
            damaged(format!("no JSON from line {}, column {} on", error.line(), error.column()))
        })?;
        let Value::Object(root) = value else { return Err(damaged("no JSON object".to_owned())) };
        match root.get("version").map(Value::as_u64) {
            None | Some(Some(VERSION)) => {}
            Some(Some(found)) if found > VERSION => return Err(Flaw::TooNew(found)),
            Some(_) => return Err(damaged("`version` is no format of zk's".to_owned())),
        }
        if root.get("credentials").is_some_and(|entries| !entries.is_object()) {
            return Err(damaged("`credentials` is no object".to_owned()));
        }
        Ok(Self(root))
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // Serialising a value cannot fail, and ends without a line break.
        format!("{:#}\n", Value::Object(self.0.clone())).into_bytes()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.entries().map(|entries| entries.keys().cloned().collect()).unwrap_or_default()
    }

    /// Parses the credential called `name`; fails with the reason if the entry is invalid.
    pub(super) fn get(&self, name: &str) -> Result<Option<Credential>, String> {
        self.entries().and_then(|entries| entries.get(name)).map(parse_entry).transpose()
    }

    /// Stores a credential. Unknown fields of the entry are kept if its kind stays the same.
    pub(super) fn put(&mut self, name: &str, credential: &Credential) {
        self.0.insert("version".to_owned(), VERSION.into());
        let entries = self.0.entry("credentials").or_insert_with(|| Value::Object(Map::new()));
        let Some(entries) = entries.as_object_mut() else { return };
        let new = entry_fields(credential);
        let entry = entries.entry(name).or_insert(Value::Null);
        match entry.as_object_mut() {
            Some(old) if old.get("type") == new.get("type") => {
                for field in FIELDS {
                    old.remove(*field);
                }
                old.extend(new);
            }
            Some(_) | None => *entry = Value::Object(new),
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> bool {
        let entries = self.0.get_mut("credentials").and_then(Value::as_object_mut);
        entries.is_some_and(|entries| entries.remove(name).is_some())
    }

    fn entries(&self) -> Option<&Map<String, Value>> {
        self.0.get("credentials")?.as_object()
    }
}

/// Fields of an entry that this program writes.
const FIELDS: &[&str] = &["type", "key", "access", "refresh", "expires_at", "account", "issuer"];

fn parse_entry(entry: &Value) -> Result<Credential, String> {
    let text = |field: &str| entry.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let needed = |field: &str| text(field).ok_or_else(|| format!("it has no `{field}`"));
    match needed("type")? {
        "api_key" => Ok(Credential::ApiKey(needed("key")?.into())),
        "oauth" => Ok(Credential::OAuth(OAuthTokens {
            access: needed("access")?.into(),
            refresh: text("refresh").map(Secret::from),
            expires_at: entry
                .get("expires_at")
                .and_then(Value::as_u64)
                .and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds))),
            account: text("account").map(str::to_owned),
            issuer: needed("issuer")?.to_owned(),
        })),
        _ => Err("its `type` is neither `api_key` nor `oauth`".to_owned()),
    }
}

fn entry_fields(credential: &Credential) -> Map<String, Value> {
    let entry = match credential {
        Credential::ApiKey(key) => json!({ "type": "api_key", "key": key.expose_secret() }),
        Credential::OAuth(tokens) => json!({
            "type": "oauth",
            "access": tokens.access.expose_secret(),
            "refresh": tokens.refresh.as_ref().map(ExposeSecret::expose_secret),
            "expires_at": tokens.expires_at.map(seconds),
            "account": tokens.account,
            "issuer": tokens.issuer,
        }),
    };
    let Value::Object(entry) = entry else { return Map::new() };
    entry.into_iter().filter(|(_, value)| !value.is_null()).collect()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
