//! A recall among 10,000 facts, against a bare query of the index: `cargo bench -p zk-harness-memory`.
#![expect(clippy::print_stdout, clippy::unwrap_used, clippy::indexing_slicing, reason = "a benchmark prints")]

use std::time::{Duration, Instant};

use rusqlite::Connection;
use zk_memory::{FactScope, MemoryStore, RecallQuery, SyncedFile};

const FACTS: usize = 10_000;
const ROUNDS: u32 = 200;

const WORDS: [&str; 40] = [
    "build", "test", "deploy", "release", "database", "server", "parser", "client", "cache", "queue",
    "login", "session", "report", "invoice", "schema", "worker", "proxy", "backup", "metric", "alert",
    "editor", "search", "index", "mailer", "billing", "Bern", "Oslo", "Lima", "Kyoto", "Quito", "runs",
    "lives", "moved", "fails", "starts", "writes", "reads", "waits", "needs", "stores",
];

/// Prompt of some words that many facts have.
fn prompt(number: u32) -> String {
    let words: Vec<&str> = (0..8).map(|at| WORDS[(number as usize * 7 + at * 5) % WORDS.len()]).collect();
    format!("why does the {} and what about number{number}?", words.join(" "))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("memory.db");
    let store = MemoryStore::new(&path);
    let fact = |number: usize| {
        let words: Vec<&str> =
            (0..10).map(|at| WORDS[(number * 13 + at * at * 3 + number / 40) % WORDS.len()]).collect();
        format!("{} number{number}", words.join(" "))
    };
    let facts = (0..FACTS).map(fact).collect();
    store
        .sync(&SyncedFile { path: "/p/MEMORY.md".into(), scope: FactScope::Project("/p".into()), facts })
        .unwrap();
    let conn = Connection::open(&path).unwrap();
    let mut bare =
        conn.prepare("SELECT rowid, bm25(words) FROM words WHERE words MATCH ?1 ORDER BY 2 LIMIT 8").unwrap();
    let (mut recalls, mut queries) = (Vec::new(), Vec::new());
    for number in 0..ROUNDS {
        let query = RecallQuery::new(&prompt(number), "/p");
        let fts = query.words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" OR ");
        let begun = Instant::now();
        let rows: Vec<i64> = bare.query_map([&fts], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        queries.push(begun.elapsed());
        let begun = Instant::now();
        let found = store.recall(&query).unwrap().unwrap();
        recalls.push(begun.elapsed());
        assert!(!rows.is_empty() && !found.facts.is_empty());
    }
    let (recall, query) = (median(recalls), median(queries));
    let ratio = recall.as_secs_f64() / query.as_secs_f64();
    println!("recall {recall:?}, bare query {query:?}, ratio {ratio:.2}");
}
