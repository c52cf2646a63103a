//! Search over the texts of all sessions, by an index that can be rebuilt at any time.

mod error;
mod file;
mod query;
mod refresh;
mod text;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::{Connection, params};
use zk_core::model::SessionId;
use zk_core::service::visible_line;

pub use self::error::SearchError;
use self::file::{IndexFile, IndexLock};
use self::query::to_fts;
use self::refresh::{MAX_TIME_MS, NUMBER_BITS, first_number, refresh};
pub use self::text::TextKind;
use crate::SqliteStore;
use crate::memory::{from_millis, millis};
use crate::sqlite::files::canonical;
use crate::sqlite::offload;

/// Number of sessions that a search finds unless the filter says otherwise.
const DEFAULT_SESSIONS: usize = 20;

/// Maximum number of hits in one session.
const MAX_SESSION_HITS: usize = 3;

/// Maximum number of matches that a search looks at; older ones are left out.
const MAX_MATCHES: usize = 50_000;

/// Number of words in the excerpt of a hit.
const SNIPPET_WORDS: u32 = 16;

/// Marks around the matching words in SQLite's excerpt. They are no characters of any language.
const MARK_BEGIN: char = '\u{fdd0}';
const MARK_END: char = '\u{fdd1}';

/// Restrictions of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchFilter {
    /// Directory in or below which the sessions worked; `None` for all.
    pub project: Option<PathBuf>,
    /// Tool whose calls and results are searched.
    pub tool: Option<String>,
    /// Part of the name of the model that was in use.
    pub model: Option<String>,
    /// Earliest time of a text.
    pub since: Option<SystemTime>,
    /// Time before which a text was written.
    pub until: Option<SystemTime>,
    /// Maximum number of sessions; 20 if `None`.
    pub limit: Option<usize>,
}

/// Result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchResults {
    /// Sessions with hits; that with the newest hit comes first.
    pub sessions: Vec<SessionHits>,
    /// Whether older matches were left out.
    pub has_more: bool,
    /// Notices about the index, for the person.
    pub notices: Vec<String>,
}

/// Session with hits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionHits {
    /// Id of the session.
    pub id: SessionId,
    /// Title of the session.
    pub title: String,
    /// Working directory of the session.
    pub cwd: PathBuf,
    /// Time of the last entry.
    pub updated: SystemTime,
    /// Newest hits, up to three.
    pub hits: Vec<SearchHit>,
}

/// Text in which all words were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchHit {
    /// Number of the entry, from 1; 0 for the session's name.
    pub entry: u64,
    /// Time of the entry.
    pub time: SystemTime,
    /// Kind of the text.
    pub kind: TextKind,
    /// Tool of a call or result.
    pub tool: Option<String>,
    /// Model that was in use.
    pub model: Option<String>,
    /// Excerpt around the words.
    pub snippet: Vec<SnippetPart>,
}

impl SearchHit {
    /// Excerpt in one line, with the matching words in «quotes». Control characters are visible.
    #[must_use]
    pub fn excerpt(&self) -> String {
        let line = |part: &SnippetPart| {
            let mut text: String = part.text.split_whitespace().collect::<Vec<_>>().join(" ");
            if part.is_match {
                text = format!("«{text}»");
            }
            if part.text.starts_with(char::is_whitespace) {
                text.insert(0, ' ');
            }
            if part.text.trim().len() < part.text.trim_start().len() {
                text.push(' ');
            }
            text
        };
        visible_line(self.snippet.iter().map(line).collect::<String>().trim())
    }
}

/// Part of an excerpt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnippetPart {
    /// Text of the part.
    pub text: String,
    /// Whether the text matched.
    pub is_match: bool,
}

/// State of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchIndexState {
    /// Path of the index.
    pub path: PathBuf,
    /// Bytes of the index.
    pub bytes: u64,
    /// Number of indexed sessions.
    pub sessions: u64,
    /// Number of indexed sessions that are gone.
    pub gone: u64,
}

impl SqliteStore {
    /// Searches the texts of all sessions: prompts, answers, reasoning, calls and results. All words have to be in one
    /// text; `"quoted words"` follow one another, and `begin*` matches words that begin so. Any text is valid.
    ///
    /// The index is brought up to date before. It is a file of its own beside the sessions, contains only what they
    /// contain, and can be deleted at any time. If it cannot be written, everything is read anew.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let root = dir.path().to_path_buf();
    /// use zk_core::model::Message;
    /// use zk_core::service::{Durability, EntryKind, NewSession, SessionStore};
    /// use zk_session::{SearchFilter, SqliteStore};
    ///
    /// let store = SqliteStore::new(root);
    /// let session = store.create(NewSession { id: None, cwd: "/project".into(), parent: None }).await.unwrap();
    /// let prompt = EntryKind::Message { message: Message::user_text("mend the parser").shared(), usage: None };
    /// session.append(vec![prompt], Durability::Process).await.unwrap();
    /// let found = store.search("pars*", &SearchFilter::default()).await.unwrap();
    /// assert_eq!(found.sessions[0].id, *session.id());
    /// # });
    /// ```
    ///
    /// # Errors
    /// [`SearchError`].
    pub async fn search(&self, words: &str, filter: &SearchFilter) -> Result<SearchResults, SearchError> {
        let query = to_fts(words).ok_or_else(|| SearchError::Nothing(words.to_owned()))?;
        let (root, filter) = (self.root().to_path_buf(), filter.clone());
        offload(move || Ok(search(&root, &query, &filter))).await?
    }

    /// Brings the search index up to date, and returns how many sessions left it because they are gone.
    ///
    /// # Errors
    /// [`SearchError`].
    pub async fn refresh_search(&self) -> Result<usize, SearchError> {
        let root = self.root().to_path_buf();
        offload(move || {
            let Ok(Some(_lock)) = IndexLock::take(&root) else { return Ok(Ok(0)) };
            Ok(open_refreshed(&root, &mut Vec::new()).map(|(_, gone)| gone))
        })
        .await?
    }

    /// State of the search index; `None` if there is none.
    ///
    /// # Errors
    /// [`SearchError`] when the index cannot be read.
    pub async fn search_index(&self) -> Result<Option<SearchIndexState>, SearchError> {
        let root = self.root().to_path_buf();
        offload(move || Ok(index_state(&root))).await?
    }
}

fn index_state(root: &Path) -> Result<Option<SearchIndexState>, SearchError> {
    let Some(index) = IndexFile::open_to_read(root)? else { return Ok(None) };
    let count = index.conn.query_row("SELECT count(*) FROM sessions", [], |row| row.get::<_, i64>(0));
    let sessions = count.map_err(index.error_while("read"))?;
    let gone = refresh::count_gone(&index, root)?;
    let bytes = std::fs::metadata(&index.path).map_or(0, |meta| meta.len());
    let sessions = u64::try_from(sessions).unwrap_or_default();
    Ok(Some(SearchIndexState { path: index.path, bytes, sessions, gone: gone as u64 }))
}

fn search(root: &Path, query: &str, filter: &SearchFilter) -> Result<SearchResults, SearchError> {
    let mut notices = Vec::new();
    let found = match IndexLock::take(root) {
        Ok(Some(_lock)) => match open_refreshed(root, &mut notices) {
            Ok((index, _)) => find(&index, query, filter),
            Err(error) => search_without_file(root, query, filter, &error, &mut notices),
        },
        Ok(None) => match IndexFile::open_to_read(root)? {
            Some(index) => {
                notices.push(
                    "another zk is writing the search index; the newest texts may be missing".to_owned(),
                );
                find(&index, query, filter)
            }
            None => search_in_memory(root, query, filter, &mut notices),
        },
        Err(source) => {
            let error = SearchError::Index { doing: "lock", path: file::path_in(root), source };
            search_without_file(root, query, filter, &error, &mut notices)
        }
    };
    let found = match found {
        // Damage may show only when the rows are read.
        Err(SearchError::Damaged { why, .. }) => {
            notices.push(rebuilt_notice(&why));
            match IndexLock::take(root) {
                Ok(Some(_lock)) if file::remove(root).is_ok() => {
                    let (index, _) = open_refreshed(root, &mut notices)?;
                    find(&index, query, filter)
                }
                _ => search_in_memory(root, query, filter, &mut notices),
            }
        }
        other => other,
    }?;
    Ok(SearchResults { notices, ..found })
}

fn rebuilt_notice(why: &str) -> String {
    format!("the search index was damaged ({why}) and was built anew; no session was touched")
}

/// Opens the index and brings it up to date; a damaged one is built anew. The caller holds its lock.
fn open_refreshed(root: &Path, notices: &mut Vec<String>) -> Result<(IndexFile, usize), SearchError> {
    let open = |notices: &mut Vec<String>| {
        let index = IndexFile::open(root)?;
        let refreshed = refresh(&index, root)?;
        add_unreadable_notice(refreshed.unreadable, notices);
        Ok((index, refreshed.gone))
    };
    match open(notices) {
        Err(SearchError::Damaged { path, why }) => {
            let removed = file::remove(root);
            removed.map_err(|source| SearchError::Index { doing: "remove", path, source })?;
            notices.push(rebuilt_notice(&why));
            open(notices)
        }
        other => other,
    }
}

fn add_unreadable_notice(sessions: usize, notices: &mut Vec<String>) {
    let (sessions, are) = match sessions {
        0 => return,
        1 => ("1 session".to_owned(), "is"),
        many => (format!("{many} sessions"), "are"),
    };
    notices.push(format!("{sessions} cannot be read completely and {are} not searched beyond that"));
}

/// Searches without an index file, because of an error that concerns only the file.
fn search_without_file(
    root: &Path,
    query: &str,
    filter: &SearchFilter,
    error: &SearchError,
    notices: &mut Vec<String>,
) -> Result<SearchResults, SearchError> {
    match error {
        SearchError::Index { .. } | SearchError::Damaged { .. } => {
            notices.push(format!("{error}; everything was read anew, which takes longer"));
            search_in_memory(root, query, filter, notices)
        }
        SearchError::TooNew { path, found, known } => {
            Err(SearchError::TooNew { path: path.clone(), found: *found, known: *known })
        }
        SearchError::Nothing(_) | SearchError::Store(_) => search_in_memory(root, query, filter, notices),
    }
}

fn search_in_memory(
    root: &Path,
    query: &str,
    filter: &SearchFilter,
    notices: &mut Vec<String>,
) -> Result<SearchResults, SearchError> {
    let index = IndexFile::in_memory()?;
    add_unreadable_notice(refresh(&index, root)?.unreadable, notices);
    find(&index, query, filter)
}

fn find(index: &IndexFile, query: &str, filter: &SearchFilter) -> Result<SearchResults, SearchError> {
    find_rows(&index.conn, query, filter).map_err(index.error_while("read"))
}

/// Match before its session and its excerpt are read.
struct Match {
    number: i64,
    hit: SearchHit,
}

fn find_rows(conn: &Connection, query: &str, filter: &SearchFilter) -> rusqlite::Result<SearchResults> {
    let limit = filter.limit.unwrap_or(DEFAULT_SESSIONS);
    let allowed = allowed_sessions(conn, filter)?;
    let model = filter.model.as_ref().map(|model| model.to_lowercase());
    let first = filter.since.map_or(0, |since| first_number(millis(since)));
    let end = filter.until.map_or(i64::MAX, |until| first_number(millis(until).min(MAX_TIME_MS)));
    let mut select = conn.prepare_cached(
        "SELECT words.rowid, texts.session, texts.seq, texts.kind, texts.tool, texts.model
         FROM words CROSS JOIN texts ON texts.number = words.rowid
         WHERE words MATCH ?1 AND words.rowid >= ?2 AND words.rowid < ?3 ORDER BY words.rowid DESC",
    )?;
    let mut rows = select.query(params![query, first, end])?;
    // Sessions in the order of their newest hits.
    let mut order: Vec<i64> = Vec::new();
    let mut matches: BTreeMap<i64, Vec<Match>> = BTreeMap::new();
    let (mut seen, mut has_more) = (0, false);
    while let Some(row) = rows.next()? {
        seen += 1;
        if seen > MAX_MATCHES {
            has_more = true;
            break;
        }
        let session: i64 = row.get(1)?;
        if allowed.as_ref().is_some_and(|allowed| !allowed.contains_key(&session)) {
            continue;
        }
        let found = matches.get(&session).map_or(0, Vec::len);
        if found >= MAX_SESSION_HITS {
            continue;
        }
        let tool: Option<String> = row.get(4)?;
        let used: Option<String> = row.get(5)?;
        let is_tool = filter.tool.is_none() || filter.tool == tool;
        let is_model = model.as_ref().is_none_or(|model| {
            used.as_ref().is_some_and(|used| used.to_lowercase().contains(model.as_str()))
        });
        if !is_tool || !is_model {
            continue;
        }
        if found == 0 {
            if order.len() == limit {
                has_more = true;
                break;
            }
            order.push(session);
        }
        let number: i64 = row.get(0)?;
        let kind = TextKind::from_name(&row.get::<_, String>(3)?).unwrap_or(TextKind::Note);
        let time = from_millis(u64::try_from(number >> NUMBER_BITS).unwrap_or_default());
        let entry = u64::try_from(row.get::<_, i64>(2)?).unwrap_or_default();
        let hit = SearchHit { entry, time, kind, tool, model: used, snippet: Vec::new() };
        matches.entry(session).or_default().push(Match { number, hit });
    }
    drop(rows);
    let mut sessions = Vec::with_capacity(order.len());
    for number in order {
        let found = matches.remove(&number).unwrap_or_default();
        sessions.push(describe_session(conn, query, number, found)?);
    }
    Ok(SearchResults { sessions, has_more, notices: Vec::new() })
}

/// Sessions of the requested project; `None` if all are allowed.
fn allowed_sessions(conn: &Connection, filter: &SearchFilter) -> rusqlite::Result<Option<HashMap<i64, ()>>> {
    let Some(project) = filter.project.as_deref().map(canonical) else { return Ok(None) };
    let mut select = conn.prepare("SELECT number, cwd FROM sessions")?;
    let mut rows = select.query([])?;
    let mut allowed = HashMap::new();
    while let Some(row) = rows.next()? {
        if Path::new(row.get_ref(1)?.as_str()?).starts_with(&project) {
            allowed.insert(row.get(0)?, ());
        }
    }
    Ok(Some(allowed))
}

/// Reads the session of these matches, and the excerpt of each.
fn describe_session(
    conn: &Connection,
    query: &str,
    number: i64,
    found: Vec<Match>,
) -> rusqlite::Result<SessionHits> {
    let mut excerpt = conn.prepare_cached(
        "SELECT snippet(words, 0, ?3, ?4, '…', ?5) FROM words WHERE words MATCH ?1 AND rowid = ?2",
    )?;
    let mut hits = Vec::with_capacity(found.len());
    for Match { number, mut hit } in found {
        let (begin, end) = (MARK_BEGIN.to_string(), MARK_END.to_string());
        let text: String =
            excerpt.query_row(params![query, number, begin, end, SNIPPET_WORDS], |row| row.get(0))?;
        hit.snippet = split_snippet(&text);
        hits.push(hit);
    }
    conn.prepare_cached("SELECT id, title, cwd, updated_ms FROM sessions WHERE number = ?1")?.query_row(
        [number],
        |row| {
            Ok(SessionHits {
                id: SessionId::from(row.get::<_, String>(0)?),
                title: row.get(1)?,
                cwd: row.get::<_, String>(2)?.into(),
                updated: from_millis(u64::try_from(row.get::<_, i64>(3)?).unwrap_or_default()),
                hits,
            })
        },
    )
}

/// Splits SQLite's excerpt at the marks into matching and other parts.
fn split_snippet(text: &str) -> Vec<SnippetPart> {
    let mut parts: Vec<SnippetPart> = Vec::new();
    let mut is_match = false;
    for piece in text.split_inclusive([MARK_BEGIN, MARK_END]) {
        let next = match piece.chars().next_back() {
            Some(MARK_BEGIN) => true,
            Some(MARK_END) => false,
            _ => is_match,
        };
        let text = piece.trim_end_matches([MARK_BEGIN, MARK_END]);
        if !text.is_empty() {
            parts.push(SnippetPart { text: text.to_owned(), is_match });
        }
        is_match = next;
    }
    parts
}
