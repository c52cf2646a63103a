use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use zk_core::events::ModelsQuery;
use zk_core::model::{EntryId, ModelRef, SessionId};
use zk_core::service::{Command, Files, match_command};
use zk_tui::{Asked, Offered};

use super::command_uses::CommandUses;
use super::host_messages::{HostEvent, OpenConversation};
use super::offers::tree::{outline_with_texts, tree_preview, tree_rows_offered};
use super::offers::{
    choices_offered, commands, file_preview, find_files, fixed, models, programs, session_preview,
    stored_sessions,
};
use crate::opening::factory::ConversationFactory;
use crate::opening::setup::{ChatSetup, ExecutionPlace};

/// Maximum number of offered paths.
pub(super) const MAX_PATHS: usize = 100_000;

/// Time for which cached names are used.
const NAMES_TTL: Duration = Duration::from_secs(10);

/// Time for which the cached prompts of the present session are used.
const PROMPTS_TTL: Duration = Duration::from_secs(1);

/// Time for which the cached model lists of servers are used.
const SERVER_MODELS_TTL: Duration = Duration::from_secs(300);

/// Maximum number of cached previews and argument completions.
const MAX_KEPT: usize = 200;

/// Completions of commands, arguments and files. Slow lookups run in the background.
#[derive(Clone)]
pub(crate) struct Completions {
    pub(crate) opened: Arc<OnceLock<OpenConversation>>,
    pub(crate) setup: ChatSetup,
    /// Channel for the event that a background lookup has finished.
    pub(crate) notes: UnboundedSender<HostEvent>,
    pub(crate) uses: CommandUses,
    pub(crate) factory: Arc<dyn ConversationFactory>,
    pub(crate) known: Arc<Mutex<NameCache>>,
}

/// Cached names of each kind.
#[derive(Default)]
pub(crate) struct NameCache {
    /// Working directory for which files and sessions are cached.
    cwd: PathBuf,
    files: Names,
    programs: Names,
    models: Names,
    /// Time at which the servers were last asked for their models.
    listed: Option<Instant>,
    sessions: Names,
    prompts: Names,
    /// Model and session in use when models, sessions and prompts were cached.
    in_use: Option<(ModelRef, Option<Arc<SessionId>>)>,
    /// Cached previews and argument completions, by request.
    kept: HashMap<Asked, Names>,
}

#[derive(Default)]
struct Names {
    offered: Offered,
    asked: Option<Instant>,
}

impl Names {
    /// Renews an expired cache for one more period; returns whether it had expired.
    fn renew_if_expired(&mut self) -> bool {
        let is_due = self.asked.is_none_or(|asked| asked.elapsed() > NAMES_TTL);
        if is_due {
            self.asked = Some(Instant::now());
        }
        is_due
    }
}

impl NameCache {
    /// Drops the cached sessions after a rename or a removal.
    pub(crate) fn forget_sessions(&mut self) {
        self.sessions.asked = None;
    }
}

impl Completions {
    /// Cached names for a request.
    pub(crate) fn offer(&self, asked: &Asked) -> Offered {
        let Some(opened) = self.opened.get() else { return Offered::default() };
        self.drop_outdated(opened);
        match asked {
            Asked::Command => commands(opened, &self.uses),
            Asked::Program => self.programs(),
            Asked::File | Asked::ShellWord => self.files(opened, &self.cwd(opened)),
            Asked::FilePreview(_)
            | Asked::SessionPreview(_)
            | Asked::SessionSearch(_)
            | Asked::TreePreview(_) => self.preview_or_arguments(opened, asked),
            Asked::Argument(line) => match line.as_str() {
                "model" => self.models(opened),
                "resume" => self.sessions(opened, self.cwd(opened)),
                "tree" | "fork" => self.prompts(opened),
                "screen" => fixed(&["inline", "full", "plain"]),
                "permissions" => fixed(&["read-only", "ask", "accept-edits", "auto", "all"]),
                "thinking" | "effort" => {
                    fixed(&["off", "minimal", "low", "medium", "high", "xhigh", "max", "adaptive"])
                }
                _ => self.preview_or_arguments(opened, asked),
            },
        }
    }

    /// Drops lists that tell which model or session is in use, after a change of it.
    fn drop_outdated(&self, opened: &OpenConversation) {
        let in_use = (opened.agent.model().reference(), opened.agent.bus().service::<SessionId>());
        let mut known = self.lock_cache();
        if known.in_use.as_ref() != Some(&in_use) {
            (known.models, known.sessions, known.prompts) = Default::default();
            known.in_use = Some(in_use);
        }
    }

    /// Present working directory. A change drops the cached files and sessions.
    fn cwd(&self, opened: &OpenConversation) -> PathBuf {
        let cwd = self.setup.cwd_now(&opened.agent.bus().cx());
        let mut known = self.lock_cache();
        if known.cwd != cwd {
            (known.files, known.sessions) = (Names::default(), Names::default());
            known.kept.clear();
            known.cwd.clone_from(&cwd);
        }
        cwd
    }

    /// Cached preview, or cached arguments of a command that completes them itself.
    fn preview_or_arguments(&self, opened: &OpenConversation, asked: &Asked) -> Offered {
        let cwd = self.cwd(opened);
        let mut known = self.lock_cache();
        if known.kept.len() > MAX_KEPT {
            known.kept.clear();
        }
        let names = known.kept.entry(asked.clone()).or_default();
        let (is_due, offered) = (names.renew_if_expired(), names.offered.clone());
        drop(known);
        if is_due {
            self.look_up_preview_or_arguments(opened, asked.clone(), cwd);
        }
        offered
    }

    fn look_up_preview_or_arguments(&self, opened: &OpenConversation, asked: Asked, cwd: PathBuf) {
        let completions = self.clone();
        let found = move |asked: Asked, offered: Offered| {
            completions.store_names(move |known| known.kept.entry(asked).or_default(), offered);
        };
        match &asked {
            Asked::FilePreview(path) => {
                let Some(files) = opened.agent.bus().service::<dyn Files>() else { return };
                let path = path.clone();
                tokio::task::spawn_blocking(move || found(asked, file_preview(&*files, &cwd, &path)));
            }
            Asked::SessionPreview(id) => {
                let (sessions, id) = (opened.sessions.clone(), id.clone());
                tokio::spawn(async move {
                    let offered = session_preview(&*sessions, &id).await;
                    found(asked, offered);
                });
            }
            Asked::SessionSearch(words) => {
                let (sessions, words) = (opened.sessions.clone(), words.clone());
                tokio::spawn(async move {
                    let by_text = sessions.search(&words, Some(cwd)).await.unwrap_or_default();
                    let names = by_text.into_iter().map(|session| session.id.as_str().to_owned()).collect();
                    found(asked, Offered { names, ..Offered::default() });
                });
            }
            Asked::TreePreview(id) => {
                let (sessions, factory) = (opened.sessions.clone(), self.factory.clone());
                let (cx, id) = (opened.conversation.command_cx(), EntryId::from(&**id));
                tokio::spawn(async move {
                    let offered = tree_preview(&*sessions, &*factory, &cx, &id).await;
                    found(asked, offered);
                });
            }
            Asked::Argument(line) => {
                let (cx, line) = (opened.conversation.command_cx(), line.clone());
                tokio::spawn(async move {
                    let Some((command, before)) = match_command(&line, |name| cx.item::<dyn Command>(name))
                    else {
                        return;
                    };
                    let offered = choices_offered(command.complete(before, &cx).await);
                    if !offered.names.is_empty() {
                        found(asked, offered);
                    }
                });
            }
            Asked::Command | Asked::File | Asked::Program | Asked::ShellWord => {}
        }
    }

    fn files(&self, opened: &OpenConversation, cwd: &Path) -> Offered {
        let mut known = self.lock_cache();
        if known.files.renew_if_expired()
            && let Some(files) = opened.agent.bus().service::<dyn Files>()
        {
            let (completions, cwd) = (self.clone(), cwd.to_path_buf());
            tokio::task::spawn_blocking(move || {
                let offered = find_files(&*files, &cwd, MAX_PATHS);
                completions.store_names_of(&cwd, |known| &mut known.files, offered);
            });
        }
        known.files.offered.clone()
    }

    /// Programs on the path; none if commands run on another machine or in a container.
    fn programs(&self) -> Offered {
        let is_here = self.setup.execution_place == ExecutionPlace::ThisMachine;
        let mut known = self.lock_cache();
        if is_here && known.programs.renew_if_expired() {
            let (completions, path) = (self.clone(), self.setup.program_path.clone());
            tokio::task::spawn_blocking(move || {
                let names = programs(&path.unwrap_or_default());
                let offered = Offered { names: names.into(), ..Offered::default() };
                completions.store_names(|known| &mut known.programs, offered);
            });
        }
        known.programs.offered.clone()
    }

    /// Models of every provider with a key: known ones at once, the servers' lists when they arrive.
    fn models(&self, opened: &OpenConversation) -> Offered {
        let mut known = self.lock_cache();
        if known.models.renew_if_expired() {
            let asks_servers = known.listed.is_none_or(|listed| listed.elapsed() > SERVER_MODELS_TTL);
            if asks_servers {
                known.listed = Some(Instant::now());
            }
            let (completions, agent) = (self.clone(), opened.agent.clone());
            let factory = self.factory.clone();
            tokio::spawn(async move {
                let cx = agent.bus().cx();
                let others = factory.known_models().await;
                for refresh in [false, true].into_iter().take(if asks_servers { 2 } else { 1 }) {
                    let query = ModelsQuery { refresh, ..ModelsQuery::default() };
                    let own = cx.emit(query).await.map(|reply| reply.models).unwrap_or_default();
                    let offered = models(own, others.clone(), &agent, &*factory);
                    completions.store_names(|known| &mut known.models, offered);
                }
            });
        }
        known.models.offered.clone()
    }

    fn sessions(&self, opened: &OpenConversation, cwd: PathBuf) -> Offered {
        let mut known = self.lock_cache();
        if known.sessions.renew_if_expired() {
            let (completions, sessions) = (self.clone(), opened.sessions.clone());
            tokio::spawn(async move {
                let offered = stored_sessions(&*sessions, cwd.clone()).await;
                completions.store_names_of(&cwd, |known| &mut known.sessions, offered);
            });
        }
        known.sessions.offered.clone()
    }

    /// Prompts of the present session; not cached across sessions.
    fn prompts(&self, opened: &OpenConversation) -> Offered {
        let mut known = self.lock_cache();
        if known.prompts.asked.is_none_or(|asked| asked.elapsed() > PROMPTS_TTL) {
            known.prompts.asked = Some(Instant::now());
            let (completions, sessions) = (self.clone(), opened.sessions.clone());
            tokio::spawn(async move {
                let (outline, texts) = outline_with_texts(&*sessions).await.unwrap_or_default();
                let offered = tree_rows_offered(&outline.rows(), texts);
                completions.store_names(|known| &mut known.prompts, offered);
            });
        }
        known.prompts.offered.clone()
    }

    /// Stores names like [`found`](Self::found), unless the directory changed meanwhile.
    fn store_names_of(&self, cwd: &Path, place: impl FnOnce(&mut NameCache) -> &mut Names, offered: Offered) {
        if self.lock_cache().cwd == cwd {
            self.store_names(place, offered);
        }
    }

    fn store_names(&self, place: impl FnOnce(&mut NameCache) -> &mut Names, offered: Offered) {
        *place(&mut self.lock_cache()) = Names { offered, asked: Some(Instant::now()) };
        // The screen may have ended.
        let _ = self.notes.send(HostEvent::Names);
    }

    fn lock_cache(&self) -> std::sync::MutexGuard<'_, NameCache> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
