use std::sync::Arc;

use serde_json::json;
use zk_core::events::{CallRef, ToolTransform};
use zk_core::kernel::Bus;
use zk_core::model::ToolContent;
use zk_core::service::Redactor;
use zk_tools::{RedactResults, Spill};

fn result(text: &str) -> ToolTransform {
    ToolTransform {
        call: Arc::new(CallRef {
            turn_id: "t".into(),
            call_id: "c".into(),
            name: "shell".into(),
            display_name: "shell".into(),
        }),
        content: ToolContent::Text(text.to_owned()),
        is_error: false,
        details: Some(json!({ "env": "KEY=correct-horse-battery" })),
        output_bytes: text.len(),
    }
}

#[tokio::test]
async fn a_key_that_a_tool_prints_reaches_neither_the_model_nor_a_spilled_file() {
    let dir = tempfile::tempdir().unwrap();
    let redactor = Arc::new(Redactor::new());
    redactor.learn("correct-horse-battery");
    let bus = Bus::new();
    bus.install(&RedactResults::new(redactor)).unwrap();
    bus.install(&Spill::new(dir.path()).threshold(4_096)).unwrap();
    let child = bus.child("helper");
    for bus in [&bus, &child] {
        let small = bus.cx().emit(result("KEY=correct-horse-battery\n")).await.unwrap();
        assert_eq!(small.content, ToolContent::Text("KEY=[redacted]\n".to_owned()));
        assert_eq!(small.details, Some(json!({ "env": "KEY=[redacted]" })));
    }
    let large = format!("{}KEY=correct-horse-battery", "x".repeat(8_192));
    bus.cx().emit(result(&large)).await.unwrap();
    let files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(files.len(), 1, "it was spilled");
    let kept = std::fs::read_to_string(files[0].as_ref().unwrap().path()).unwrap();
    assert!(kept.ends_with("KEY=[redacted]"), "{kept}");
}
