//! Sessions on a simulated disk that fails, loses unsynced writes and tears sectors.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use zk_core::service::{Durability, Entry, SessionStore, StoreError};
use zk_stores::{FileMapStore, KeyValue, MapError};

use crate::files::{at, says};

/// Number of operations of the script.
const OPERATIONS: usize = 200;

const SECTOR_BYTES: usize = 512;

/// Failure of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Nothing is written.
    NoSpace,
    /// Some sectors are written, and the call reports an error.
    Torn,
    /// All is written, and the call reports an error all the same.
    Late,
    /// The machine stops: some sectors are written, and every later call fails until it is started again.
    PowerCut,
}

#[derive(Default)]
struct Disk {
    values: BTreeMap<String, Vec<u8>>,
    calls: usize,
    fault: Option<(usize, Fault)>,
    is_off: bool,
    random: u64,
}

#[derive(Clone, Default)]
struct SimDisk(Arc<Mutex<Disk>>);

impl SimDisk {
    fn with_fault(at: usize, fault: Fault, random: u64) -> Self {
        Self(Arc::new(Mutex::new(Disk { fault: Some((at, fault)), random, ..Disk::default() })))
    }

    fn calls(&self) -> usize {
        self.0.lock().unwrap().calls
    }

    /// The disk as the machine finds it when it is started again.
    fn restarted(&self) -> Self {
        let values = self.0.lock().unwrap().values.clone();
        Self(Arc::new(Mutex::new(Disk { values, ..Disk::default() })))
    }
}

impl Disk {
    /// Fault of this call; an error once the machine is off.
    fn call(&mut self) -> Result<Option<Fault>, io::Error> {
        if self.is_off {
            return Err(io::Error::other("the machine is off"));
        }
        self.calls += 1;
        Ok(self.fault.filter(|(at, _)| *at == self.calls).map(|(_, fault)| fault))
    }

    fn coin(&mut self) -> bool {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.random >> 63 == 1
    }

    /// Writes some sectors of a value: a prefix that ends at a sector, or one with sectors of zeros.
    fn tear(&mut self, key: &str, value: &[u8]) {
        let mut torn = Vec::new();
        for sector in value.chunks(SECTOR_BYTES) {
            match (self.coin(), self.coin()) {
                (true, _) => torn.extend_from_slice(sector),
                (false, true) => torn.extend(std::iter::repeat_n(0, sector.len())),
                (false, false) => break,
            }
        }
        if self.coin() {
            self.values.insert(key.to_owned(), torn);
        }
    }
}

#[async_trait]
impl KeyValue for SimDisk {
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, MapError> {
        let mut disk = self.0.lock().unwrap();
        match disk.call().map_err(|error| MapError::new("read", key, error))? {
            None => Ok(disk.values.get(key).cloned()),
            Some(fault) => {
                disk.is_off |= fault == Fault::PowerCut;
                Err(MapError::new("read", key, io::Error::other("I/O error")))
            }
        }
    }

    async fn save(&self, key: &str, value: Vec<u8>) -> Result<(), MapError> {
        let mut disk = self.0.lock().unwrap();
        let error = |kind, text: &str| MapError::new("write", key, io::Error::new(kind, text));
        match disk.call().map_err(|error| MapError::new("write", key, error))? {
            None => {
                disk.values.insert(key.to_owned(), value);
                Ok(())
            }
            Some(Fault::NoSpace) => Err(error(io::ErrorKind::StorageFull, "no space left on device")),
            Some(Fault::Torn) => {
                disk.tear(key, &value);
                Err(error(io::ErrorKind::Other, "I/O error"))
            }
            Some(Fault::Late) => {
                disk.values.insert(key.to_owned(), value);
                Err(error(io::ErrorKind::Other, "I/O error"))
            }
            Some(Fault::PowerCut) => {
                disk.tear(key, &value);
                disk.is_off = true;
                Err(error(io::ErrorKind::Other, "the machine is off"))
            }
        }
    }

    async fn delete(&self, key: &str) -> Result<(), MapError> {
        let mut disk = self.0.lock().unwrap();
        let fault = disk.call().map_err(|error| MapError::new("remove", key, error))?;
        if fault.is_none() || fault == Some(Fault::Late) || (fault.is_some() && disk.coin()) {
            disk.values.remove(key);
        }
        disk.is_off |= fault == Some(Fault::PowerCut);
        match fault {
            None => Ok(()),
            Some(_) => Err(MapError::new("remove", key, io::Error::other("I/O error"))),
        }
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, MapError> {
        let mut disk = self.0.lock().unwrap();
        match disk.call().map_err(|error| MapError::new("list", prefix, error))? {
            None => Ok(disk.values.keys().filter(|key| key.starts_with(prefix)).cloned().collect()),
            Some(fault) => {
                disk.is_off |= fault == Fault::PowerCut;
                Err(MapError::new("list", prefix, io::Error::other("I/O error")))
            }
        }
    }
}

/// Appends of the script that were acknowledged, and that failed.
#[derive(Debug, Default)]
struct Outcome {
    acknowledged: Vec<String>,
    failed: Vec<String>,
}

/// Appends one to three entries in each operation; some operations reopen or rename the session instead.
async fn run(disk: &SimDisk) -> Outcome {
    let store = FileMapStore::new(Arc::new(disk.clone()));
    let mut session = store.create(at("s_1")).await.ok();
    let mut outcome = Outcome::default();
    for n in 0..OPERATIONS {
        match n % 25 {
            23 => drop(store.rename(&"s_1".into(), &format!("title {n}")).await),
            24 => {
                if let Some(open) = session.take() {
                    let _ = open.close().await;
                }
                session = store.open(&"s_1".into()).await.ok();
            }
            _ => {
                if session.is_none() {
                    session = match store.open(&"s_1".into()).await {
                        Ok(open) => Some(open),
                        Err(StoreError::NotFound { .. }) => store.create(at("s_1")).await.ok(),
                        Err(_) => None,
                    };
                }
                let Some(open) = &session else { continue };
                let texts: Vec<String> =
                    (0..=n % 3).map(|step| format!("{n}.{step} {}", "x".repeat(n * 4))).collect();
                let kinds = texts.iter().flat_map(|text| says(text)).collect();
                match open.append(kinds, Durability::Disk).await {
                    Ok(ids) => {
                        assert_eq!(ids.len(), texts.len());
                        outcome.acknowledged.extend(texts);
                    }
                    Err(_) => outcome.failed.extend(texts),
                }
            }
        }
    }
    outcome
}

fn texts(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.kind.message().unwrap().text()).collect()
}

/// Checks that all acknowledged entries are stored in order, and whole appends only.
async fn check(disk: &SimDisk, outcome: &Outcome, name: &str) {
    let store = FileMapStore::new(Arc::new(disk.restarted()));
    let session = match store.open(&"s_1".into()).await {
        Ok(session) => session,
        Err(error) => {
            assert!(outcome.acknowledged.is_empty(), "{name}: {error}");
            return;
        }
    };
    let stored = texts(&session.entries().await.unwrap());
    let mut rest = stored.iter();
    for text in &outcome.acknowledged {
        let Some(found) = rest.by_ref().find(|found| *found == text) else {
            panic!("{name}: {:.10} is lost", text);
        };
        assert_eq!(found, text);
    }
    let known: HashSet<&String> = outcome.acknowledged.iter().chain(&outcome.failed).collect();
    let mut parts: BTreeMap<usize, Vec<&String>> = BTreeMap::new();
    for text in &stored {
        assert!(known.contains(text), "{name}: an entry that nobody appended");
        parts.entry(text.split_once('.').unwrap().0.parse().unwrap()).or_default().push(text);
    }
    // An append of an unknown outcome is stored whole, once, or not at all.
    for (n, texts) in parts {
        let once: HashSet<_> = texts.iter().collect();
        assert_eq!((once.len(), texts.len()), (n % 3 + 1, n % 3 + 1), "{name}: append {n} is not whole");
    }
    // The session goes on.
    session.append(says("after"), Durability::Disk).await.unwrap();
    assert_eq!(texts(&session.entries().await.unwrap()).last().map(String::as_str), Some("after"));
}

#[tokio::test]
async fn a_fault_at_every_call_loses_nothing_that_was_acknowledged() {
    let whole = SimDisk::default();
    let outcome = run(&whole).await;
    assert!(outcome.failed.is_empty());
    check(&whole, &outcome, "no fault").await;
    let calls = whole.calls();
    assert!(calls > OPERATIONS, "{calls} calls");
    let mut runs = 0;
    for fault in [Fault::NoSpace, Fault::Torn, Fault::Late, Fault::PowerCut] {
        for at in 1..=calls {
            let disk = SimDisk::with_fault(at, fault, (at as u64) << 32 | runs);
            let outcome = run(&disk).await;
            check(&disk, &outcome, &format!("{fault:?} at call {at}")).await;
            runs += 1;
        }
    }
    println!("{runs} runs, {calls} calls each");
}
