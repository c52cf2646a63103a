//! A fact that is kept and found again by the words of a prompt: `cargo run -p zk-harness-memory --example recall`.

use zk_memory::{FactOrigin, FactScope, MemoryStore, NewFact, RecallQuery};

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let store = MemoryStore::new(dir.path().join("memory.db"));
    store.keep(&NewFact {
        text: "The tests of this project run with `make check`".to_owned(),
        scope: FactScope::Project("/project".into()),
        origin: FactOrigin::Person,
        session: None,
    })?;
    let query = RecallQuery::new("how do I test my change?", "/project");
    for found in store.recall(&query)?.unwrap_or_default().facts {
        println!("{}: {} (by {})", found.fact.id, found.fact.text, found.words.join(", "));
    }
    Ok(())
}
