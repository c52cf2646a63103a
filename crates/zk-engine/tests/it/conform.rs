//! The contract of engines, kept by the local one.

use std::path::Path;
use std::sync::Arc;

use zk_core::service::Engine;
use zk_engine::LocalEngine;
use zk_exec::LocalStateFiles;
use zk_testkit::{EngineOptions, check_engine};

/// Returns all bytes of the files below `dir`.
fn bytes_below(dir: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => bytes.extend(bytes_below(&entry.path())),
            Ok(kind) if kind.is_file() => bytes.extend(std::fs::read(entry.path()).unwrap()),
            Ok(_) | Err(_) => {}
        }
    }
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_local_engine_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_path_buf();
    let stored = root.clone();
    let options = EngineOptions {
        stored: Some(Arc::new(move |place| bytes_below(&stored.join(place.to_string())))),
        ..EngineOptions::default()
    };
    let make = |place: u32| {
        let dir = root.join(place.to_string());
        async move { Arc::new(LocalEngine::new(dir, Arc::new(LocalStateFiles::default()))) as Arc<dyn Engine> }
    };
    let conformance = check_engine(make, &options).await;
    assert!(conformance.is_met(), "{conformance}");
    assert_eq!(conformance.passed.len(), 30, "{conformance}");
}
