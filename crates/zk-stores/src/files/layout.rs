//! Keys of a session in a map.

use std::collections::BTreeMap;

use zk_core::model::SessionId;

/// Maximum size in bytes of the part of a key that names the session.
const MAX_SESSION_KEY_BYTES: usize = 200;

/// Part of the keys that names a session: its id, with `%XX` for all but letters, digits, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionKey(String);

impl SessionKey {
    /// Key part for a session id; `None` for an empty or very long id.
    pub(super) fn of(id: &SessionId) -> Option<Self> {
        let mut key = String::new();
        for byte in id.as_str().bytes() {
            match byte {
                b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'-' => key.push(char::from(byte)),
                _ => key.push_str(&format!("%{byte:02x}")),
            }
        }
        (!key.is_empty() && key.len() <= MAX_SESSION_KEY_BYTES).then_some(Self(key))
    }

    /// Id of the session that this key part names.
    fn id(&self) -> Option<SessionId> {
        let mut bytes = Vec::new();
        let mut rest = self.0.bytes();
        while let Some(byte) = rest.next() {
            if byte != b'%' {
                bytes.push(byte);
                continue;
            }
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            let (high, low) = (digit(rest.next())?, digit(rest.next())?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        }
        String::from_utf8(bytes).ok().map(|id| SessionId::from(id.as_str()))
    }

    pub(super) fn prefix(&self) -> String {
        format!("{}/", self.0)
    }

    pub(super) fn turns_key(&self, first: u64, last: u64) -> String {
        format!("{}/turns-{first:010}-{last:010}.jsonl", self.0)
    }

    pub(super) fn meta_key(&self) -> String {
        format!("{}/meta.json", self.0)
    }

    pub(super) fn title_key(&self) -> String {
        format!("{}/title.txt", self.0)
    }

    /// Key that marks the session as being deleted.
    pub(super) fn deletion_mark_key(&self) -> String {
        format!("{}/gone.json", self.0)
    }

    pub(super) fn lease_key(&self, token: u64) -> String {
        format!("{}/lease-{token:010}.json", self.0)
    }

    /// Key by which a file map with locks locks the session.
    pub(super) fn lock_key(&self) -> String {
        format!("{}/session.lock", self.0)
    }
}

/// Key with the appends `first` to `last`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) key: String,
    pub(super) first: u64,
    pub(super) last: u64,
}

/// Keys of a session that a map has.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    pub(super) session: SessionKey,
    /// Keys with appends, in the order of the appends.
    pub(super) chunks: Vec<Chunk>,
    /// Tokens of the leases, lowest first.
    pub(super) leases: Vec<u64>,
    pub(super) has_meta: bool,
    pub(super) has_title: bool,
    has_lock: bool,
    is_gone: bool,
    others: Vec<String>,
}

impl Keys {
    pub(super) fn of(session: SessionKey, names: Vec<String>) -> Self {
        let mut keys = Self {
            chunks: Vec::new(),
            leases: Vec::new(),
            has_meta: false,
            has_title: false,
            has_lock: false,
            is_gone: false,
            others: Vec::new(),
            session,
        };
        let prefix = keys.session.prefix();
        for key in names {
            let Some(name) = key.strip_prefix(&prefix) else { continue };
            if let Some((first, last)) = strip_affixes(name, "turns-", ".jsonl").and_then(|text| {
                let (first, last) = text.split_once('-')?;
                Some((first.parse().ok()?, last.parse().ok()?))
            }) {
                keys.chunks.push(Chunk { key, first, last });
            } else if let Some(token) =
                strip_affixes(name, "lease-", ".json").and_then(|text| text.parse().ok())
            {
                keys.leases.push(token);
            } else {
                match name {
                    "meta.json" => keys.has_meta = true,
                    "title.txt" => keys.has_title = true,
                    "session.lock" => keys.has_lock = true,
                    "gone.json" => keys.is_gone = true,
                    _ => keys.others.push(key),
                }
            }
        }
        keys.chunks.sort_by_key(|chunk| (chunk.first, chunk.last));
        keys.leases.sort_unstable();
        keys
    }

    /// Whether the keys are those of a stored session, or what is left of one whose appends vanished.
    pub(super) fn is_session(&self) -> bool {
        !self.is_gone && (self.has_meta || !self.chunks.is_empty())
    }

    /// Number of the last append, which may be incomplete.
    pub(super) fn last_append(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.last).max().unwrap_or_default()
    }

    /// Keys of everything but the lock and the leases, newest appends first.
    pub(super) fn content_keys(&self) -> Vec<&str> {
        let chunks = self.chunks.iter().rev().map(|chunk| chunk.key.as_str());
        chunks.chain(self.others.iter().map(String::as_str)).collect()
    }

    /// Key of the lock, if the map has it. A deletion removes it last: after that, another process may take the
    /// session.
    pub(super) fn stored_lock_key(&self) -> Option<String> {
        self.has_lock.then(|| self.session.lock_key())
    }

    /// Keys with the data that listings show.
    pub(super) fn listing_keys(&self) -> [String; 2] {
        [self.session.meta_key(), self.session.title_key()]
    }
}

fn strip_affixes<'a>(name: &'a str, prefix: &str, suffix: &str) -> Option<&'a str> {
    name.strip_prefix(prefix)?.strip_suffix(suffix)
}

/// Groups the keys of a map by session; keys of no session are left out.
pub(super) fn group_by_session(names: Vec<String>) -> BTreeMap<SessionId, Keys> {
    let mut sessions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in names {
        if let Some((session, _)) = name.split_once('/') {
            sessions.entry(session.to_owned()).or_default().push(name);
        }
    }
    sessions
        .into_iter()
        .filter_map(|(session, names)| {
            let key = SessionKey(session);
            // A key in another spelling than that of zk could hide another session.
            let id = key.id().filter(|id| SessionKey::of(id).as_ref() == Some(&key))?;
            Some((id, Keys::of(key, names)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_part_of_a_key_and_comes_back() {
        for id in ["s_01ab-Z", "../s", "a/b", "%2e", "ß", "."] {
            let key = SessionKey::of(&id.into()).unwrap();
            assert_eq!(key.prefix().matches(['/', '.']).count(), 1, "{key:?}");
            assert_eq!(key.id(), Some(id.into()));
        }
        assert_eq!(SessionKey::of(&"".into()), None);
        assert_eq!(SessionKey::of(&"x".repeat(201).as_str().into()), None);
    }
}
