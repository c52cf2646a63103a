//! Ranking among many facts.

use std::path::Path;

use zk_memory::{FactScope, MemoryStore, RecallQuery, SyncedFile};

use crate::rig::{db, fact};

const FACTS: usize = 10_000;
const QUERIES: usize = 100;
const PROJECT: &str = "/p";

const SUBJECTS: [&str; 25] = [
    "build", "test", "deploy", "release", "database", "server", "parser", "client", "cache", "queue",
    "login", "session", "report", "invoice", "schema", "worker", "proxy", "backup", "metric", "alert",
    "editor", "search", "index", "mailer", "billing",
];
const VERBS: [&str; 15] = [
    "runs", "lives", "belongs", "moved", "depends", "fails", "starts", "writes", "reads", "waits", "needs",
    "uses", "stores", "sends", "owns",
];
const PLACES: [&str; 20] = [
    "Bern", "Oslo", "Lima", "Kyoto", "Quito", "Turin", "Porto", "Delft", "Graz", "Lyon", "Izmir", "Cork",
    "Perth", "Davos", "Basel", "Leeds", "Nagoya", "Malmo", "Ghent", "Riga",
];

/// Made-up name that few facts share.
fn name(random: &mut fastrand::Rng) -> String {
    (0..3)
        .map(|_| ["ka", "ro", "mi", "ten", "zu", "la", "vor", "ni", "pek", "so"][random.usize(..10)])
        .collect()
}

/// Fact with a prompt in other words that asks for it.
fn planted(number: usize, random: &mut fastrand::Rng) -> (String, String) {
    let (subject, place, name) =
        (SUBJECTS[number % 25], PLACES[number % 20], format!("{}{}", name(random), number % 7));
    match number % 4 {
        0 => (
            format!(
                "The {subject} of {name} {} on a machine in {place}, behind the {}",
                VERBS[number % 15],
                SUBJECTS[(number + 3) % 25]
            ),
            format!("on which machine is the {name} {subject}?"),
        ),
        1 => (
            format!("{name} is who to ask about {subject}s; they sit in {place}"),
            format!("please find out who in {place} can be asked for the {subject} and tell me about {name}"),
        ),
        2 => (
            format!(
                "Never restart the {subject} {name} before the {} in {place} is drained",
                SUBJECTS[(number + 9) % 25]
            ),
            format!("I want to restart {name}, anything to know about that {subject}?"),
        ),
        _ => (
            format!("Tests of the {subject} need the variable {name} set to {place}"),
            format!("why do my {subject} tests fail without {name}?"),
        ),
    }
}

fn filler(number: usize, random: &mut fastrand::Rng) -> String {
    let (subject, other) = (SUBJECTS[random.usize(..25)], SUBJECTS[random.usize(..25)]);
    let (verb, place) = (VERBS[random.usize(..15)], PLACES[random.usize(..20)]);
    format!(
        "The {subject} of {} {verb} in {place} and asks the {other}, ticket {number}; tests and machines restart",
        name(random)
    )
}

#[test]
fn of_ten_thousand_facts_the_planted_one_is_among_the_first_five() {
    let dir = tempfile::tempdir().unwrap();
    let store = MemoryStore::new(db(dir.path()));
    let mut random = fastrand::Rng::with_seed(7);
    let planted: Vec<(String, String)> = (0..QUERIES).map(|number| planted(number, &mut random)).collect();
    let fillers = (0..FACTS - QUERIES).map(|number| filler(number, &mut random));
    let facts: Vec<String> = fillers.chain(planted.iter().map(|(fact, _)| fact.clone())).collect();
    // One transaction, unlike as many single facts.
    store
        .sync(&SyncedFile { path: "/p/MEMORY.md".into(), scope: FactScope::Project(PROJECT.into()), facts })
        .unwrap();
    store.keep(&fact("A fact of another project about the build", Path::new("/q"))).unwrap();
    let mut found = 0;
    for (text, prompt) in &planted {
        let recalled = store.recall(&RecallQuery::new(prompt, PROJECT)).unwrap().unwrap();
        let place = recalled.facts.iter().position(|one| one.fact.text == *text);
        found += usize::from(place.is_some_and(|place| place < 5));
    }
    assert!(found * 100 >= QUERIES * 95, "only {found} of {QUERIES} planted facts were among the first five");
}

#[test]
fn of_facts_with_equal_words_the_projects_and_the_often_used_come_first() {
    let dir = tempfile::tempdir().unwrap();
    let store = MemoryStore::new(db(dir.path()));
    let everywhere = zk_memory::NewFact {
        scope: FactScope::Everywhere,
        ..fact("Deploy with make alpha", Path::new(PROJECT))
    };
    store.keep(&everywhere).unwrap();
    let own = store.keep(&fact("Deploy with make bravo", Path::new(PROJECT))).unwrap().id();
    let used = store.keep(&fact("Deploy with make cargo", Path::new(PROJECT))).unwrap().id();
    for word in ["filler", "other", "words"] {
        store.keep(&fact(&format!("Unrelated {word}"), Path::new(PROJECT))).unwrap();
    }
    let query = RecallQuery::new("how to deploy?", PROJECT);
    let only: Vec<_> =
        store.recall(&query).unwrap().unwrap().facts.into_iter().filter(|one| one.fact.id == used).collect();
    (0..8).for_each(|_| store.record_recall(None, &query, &only).unwrap());
    let order: Vec<_> = store.recall(&query).unwrap().unwrap().facts.iter().map(|one| one.fact.id).collect();
    assert_eq!(order[..2], [used, own], "{order:?}");
}
