//! Transcripts that the functions of an SDK read: a line a block, in the folder that the host named.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use zk_core::model::{Message, Role};

use super::host::{Host, SdkOptions};
use super::names::Names;
use super::output::line_uuid;
use super::wire::now;

/// Maximum length of a folder's name in characters.
const MAX_FOLDER_CHARS: usize = 200;

/// Writes transcripts.
pub(super) struct Transcripts {
    folder: PathBuf,
    cwd: PathBuf,
    writes: bool,
    mirrors: bool,
    /// Last written file, with its lines and the newest of them.
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    file: PathBuf,
    lines: HashSet<String>,
    last: Option<String>,
}

impl Transcripts {
    pub(super) fn new(options: &SdkOptions) -> Self {
        let home = options.home.clone().unwrap_or_default().join(".claude");
        let root = options.config_dir.clone().unwrap_or(home);
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let folder: String =
            options.cwd.to_string_lossy().chars().map(plain).take(MAX_FOLDER_CHARS).collect();
        Self {
            folder: root.join("projects").join(folder),
            cwd: options.cwd.clone(),
            writes: options.config_dir.is_some() && !options.args.has("no-session-persistence"),
            mirrors: options.args.has("session-mirror"),
            written: Mutex::default(),
        }
    }

    /// The file of a session.
    pub(super) fn path(&self, session: &str) -> PathBuf {
        self.folder.join(format!("{session}.jsonl"))
    }

    /// Returns lines for the messages that are not yet in the session's file.
    fn new_lines(&self, session: &str, history: &[Arc<Message>], names: &Names) -> Vec<Value> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let file = self.path(session);
        if written.file != file {
            *written = Written { lines: known_lines(&file), file, last: None };
        }
        let mut lines = Vec::new();
        for message in history.iter().filter(|message| message.injected_by.is_none()) {
            for (index, content) in contents(message, names) {
                let uuid = line_uuid(message, index);
                let parent = written.last.replace(uuid.clone());
                if !written.lines.insert(uuid.clone()) {
                    continue;
                }
                let kind = if message.role == Role::User { "user" } else { "assistant" };
                let mut said = json!({"role": kind, "content": content});
                if let (Some(origin), Some(said)) = (&message.origin, said.as_object_mut()) {
                    said.insert("model".to_owned(), origin.model.clone().into());
                    said.insert("type".to_owned(), "message".into());
                }
                lines.push(json!({
                    "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": session, "isSidechain": false,
                    "cwd": self.cwd, "timestamp": now(), "message": said,
                }));
            }
        }
        lines
    }

    fn append(&self, file: &Path, lines: &[Value]) -> std::io::Result<()> {
        if let Some(folder) = file.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::OpenOptions::new().create(true).append(true).mode(0o600).open(file)?.write_all(text.as_bytes())
    }
}

/// Returns the ids of the lines in a file.
fn known_lines(file: &Path) -> HashSet<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let id = |line: &str| serde_json::from_str::<Value>(line).ok()?.get("uuid")?.as_str().map(str::to_owned);
    text.lines().filter_map(id).collect()
}

/// Returns the contents of a message's lines. A prompt of one text becomes a string.
fn contents(message: &Message, names: &Names) -> Vec<(usize, Value)> {
    if let ([only], Role::User) = (message.content.as_slice(), message.role)
        && let Some(text) = only.as_text()
    {
        return vec![(0, text.into())];
    }
    let blocks = message.content.iter().enumerate();
    blocks.filter_map(|(index, block)| Some((index, json!([names.block(block)?])))).collect()
}

impl Host {
    /// Writes the new messages of the conversation, and sends them to a host that stores sessions itself.
    pub(super) fn write_transcript(&self, history: &[Arc<Message>]) {
        let transcripts = &self.transcripts;
        if !transcripts.writes && !transcripts.mirrors {
            return;
        }
        let (session, sidechains) = {
            let mut known = self.known();
            (known.session.clone(), std::mem::take(&mut known.sidechains))
        };
        let file = transcripts.path(&session);
        let mut lines = transcripts.new_lines(&session, history, &self.names);
        for line in &mut lines {
            self.options.redactor.redact_value(line);
        }
        self.write_lines(&file, &lines);
        for (agent, said) in sidechains {
            let id: String = agent.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
            self.write_sidechain(&session, &agent, &id, said);
        }
    }

    fn write_sidechain(&self, session: &str, agent: &str, id: &str, said: Vec<Value>) {
        let folder = self.transcripts.folder.join(session).join("subagents");
        let mut parent = Value::Null;
        let mut lines: Vec<Value> = said
            .into_iter()
            .map(|mut line| {
                if let Some(fields) = line.as_object_mut() {
                    let own = fields.get("uuid").cloned().unwrap_or_default();
                    fields.insert("parentUuid".to_owned(), std::mem::replace(&mut parent, own));
                    fields.insert("sessionId".to_owned(), session.into());
                    fields.insert("agentId".to_owned(), id.into());
                    fields.insert("isSidechain".to_owned(), true.into());
                }
                self.options.redactor.redact_value(&mut line);
                line
            })
            .collect();
        let call = self.known().parents.get(agent).cloned();
        let meta = json!({"agentType": agent, "toolUseId": call});
        let file = folder.join(format!("agent-{id}.jsonl"));
        if self.transcripts.writes {
            let beside = folder.join(format!("agent-{id}.meta.json"));
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
            if let Err(error) = made.and_then(|()| fs::write(&beside, meta.to_string())) {
                self.warn_host(&format!("cannot write {}: {error}", beside.display()));
            }
        }
        if self.transcripts.mirrors {
            let mut entry = meta;
            if let Some(fields) = entry.as_object_mut() {
                fields.insert("type".to_owned(), "agent_metadata".into());
            }
            self.send_mirror(&file, &[entry]);
        }
        self.write_lines(&file, &std::mem::take(&mut lines));
    }

    fn write_lines(&self, file: &Path, lines: &[Value]) {
        if lines.is_empty() {
            return;
        }
        if self.transcripts.writes
            && let Err(error) = self.transcripts.append(file, lines)
        {
            self.warn_host(&format!("cannot write the transcript {}: {error}", file.display()));
        }
        if self.transcripts.mirrors {
            self.send_mirror(file, lines);
        }
    }

    fn send_mirror(&self, file: &Path, lines: &[Value]) {
        self.channel.send(json!({"type": "transcript_mirror", "filePath": file, "entries": lines}));
    }
}
