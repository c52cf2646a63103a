use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use zk_core::events::{CallRef, ToolTransform};
use zk_core::kernel::Bus;
use zk_core::model::{Block, CallId, ToolContent, TurnId};
use zk_tools::Spill;

async fn transformed(bus: &Bus, tool: &str, content: ToolContent) -> ToolContent {
    let call = Arc::new(CallRef {
        turn_id: TurnId::fresh(),
        call_id: CallId::fresh(),
        name: tool.into(),
        display_name: tool.into(),
    });
    let event = ToolTransform { call, content, is_error: false, details: None, output_bytes: 0 };
    bus.cx().emit(event).await.unwrap().content
}

#[tokio::test]
async fn a_huge_result_becomes_a_file_and_a_stub() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("deep/results");
    let bus = Bus::new();
    bus.install(&Spill::new(&results)).unwrap();
    let text = format!("begin{}end", "é".repeat(100_000));
    let stub = transformed(&bus, "shell", text.as_str().into()).await.to_text();
    assert!(
        stub.starts_with("[shell gave 195.3 KB; the whole of it is in ") && stub.ends_with("end"),
        "{stub}"
    );
    assert!(stub.contains("\nbegin") && stub.len() < 2_500, "{}", stub.len());
    assert_eq!(stub, transformed(&bus, "shell", text.as_str().into()).await.to_text(), "the same again");
    let files: Vec<_> = std::fs::read_dir(&results).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    assert!(stub.contains(files[0].canonicalize().unwrap().to_str().unwrap()));
    assert_eq!(std::fs::read_to_string(&files[0]).unwrap(), text);
    assert_eq!(std::fs::metadata(&files[0]).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(&results).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn what_is_small_or_excepted_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::new();
    bus.install(&Spill::new(dir.path()).threshold(4_000).except("grep")).unwrap();
    let big = ToolContent::from("x".repeat(4_001));
    for tool in ["read_file", "recall", "grep"] {
        assert_eq!(transformed(&bus, tool, big.clone()).await, big, "{tool}");
    }
    let small = ToolContent::from("x".repeat(4_000));
    assert_eq!(transformed(&bus, "shell", small.clone()).await, small);
    let child = bus.child("helper");
    assert_ne!(transformed(&child, "shell", big.clone()).await, big, "sub-agents too");
    let blocks = ToolContent::Blocks(vec![Block::text("short"), Block::text("y".repeat(5_000))]);
    let ToolContent::Blocks(blocks) = transformed(&bus, "web", blocks).await else { panic!("no blocks") };
    assert_eq!(blocks[0], Block::text("short"));
    assert!(blocks[1].as_text().unwrap().starts_with("[web gave 4.9 KB"));
}

#[tokio::test]
async fn a_result_that_cannot_be_saved_is_cut_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let bus = Bus::new();
    bus.install(&Spill::new(dir.path().join("file/results"))).unwrap();
    let stub = transformed(&bus, "shell", "x".repeat(100_000).into()).await.to_text();
    assert!(
        stub.len() < 2_500 && stub.contains("the whole of it is lost, it could not be written"),
        "{stub}"
    );
}
