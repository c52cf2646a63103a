use std::sync::Arc;

use serde_json::json;
use zk_core::model::ToolErrorKind;
use zk_core::service::{BlobError, BlobId, Blobs};
use zk_tools::Spill;

use crate::support::Desk;

#[tokio::test]
async fn an_output_that_was_too_long_is_paged_and_searched_by_its_path() {
    let desk = Desk::new();
    desk.bus.install(&Spill::new(desk.root.join("outputs"))).unwrap();
    let shown = desk.ok("shell", json!({ "command": "seq 1 20000" })).await;
    let handle =
        shown.split("all of it is in ").nth(1).and_then(|rest| rest.split([',', ')', '\n']).next()).unwrap();
    let page = desk.ok("recall", json!({ "handle": handle, "limit": 2 })).await;
    assert_eq!(page, "1\t1\n2\t2\n(more lines follow; continue with offset=3)");
    let end = desk.ok("recall", json!({ "handle": handle, "offset": 20_000 })).await;
    assert_eq!(end, "20000\t20000\n(the end; 20000 lines in all)");
    let found = desk.ok("recall", json!({ "handle": handle, "query": "1999", "limit": 2 })).await;
    assert_eq!(found, "1999\t1999\n11999\t11999\n(more lines with it follow; continue with offset=19990)");
    let none = desk.ok("recall", json!({ "handle": handle, "query": "nowhere" })).await;
    assert_eq!(none, "(no line with it from line 1 on; there are 20000)");
    let whole = desk.ok("recall", json!({ "handle": handle, "limit": 20_000 })).await;
    assert!(whole.len() <= 33 * 1024, "{}", whole.len());
}

#[tokio::test]
async fn nothing_but_outputs_is_recalled() {
    let desk = Desk::new();
    let dir = desk.root.join("outputs");
    desk.put("outputs/mine.txt", "mine");
    desk.put("secret.txt", "secret");
    std::os::unix::fs::symlink(desk.root.join("secret.txt"), dir.join("link.txt")).unwrap();
    desk.bus.install(&Spill::new(&dir)).unwrap();
    assert!(desk.ok("recall", json!({ "handle": "mine.txt" })).await.contains("mine"));
    for handle in ["../secret.txt", "secret.txt", "link.txt", "..", ".", "", "/etc/passwd", "outputs"] {
        let error = desk.err("recall", json!({ "handle": handle })).await;
        assert_eq!(error.kind, ToolErrorKind::NotFound, "{handle}: {error}");
    }
}

/// One blob.
struct One;

impl Blobs for One {
    fn put(&self, _: &[u8]) -> Result<BlobId, BlobError> {
        Ok(BlobId("one".to_owned()))
    }

    fn open(
        &self,
        id: &BlobId,
        _: Option<std::ops::Range<u64>>,
    ) -> Result<Box<dyn std::io::Read + Send>, BlobError> {
        if id.0 == "one" {
            return Ok(Box::new(std::io::Cursor::new(b"of a blob\n")));
        }
        Err(BlobError::Missing { id: id.clone() })
    }

    fn len(&self, _: &BlobId) -> Result<u64, BlobError> {
        Ok(10)
    }
}

#[tokio::test]
async fn a_blob_is_recalled_by_its_id() {
    let desk = Desk::new();
    desk.bus.scope("session").provide_service::<dyn Blobs>(Arc::new(One));
    let text = desk.ok("recall", json!({ "handle": "one" })).await;
    assert_eq!(text, "1\tof a blob\n(the end; 1 lines in all)");
    assert_eq!(desk.err("recall", json!({ "handle": "two" })).await.kind, ToolErrorKind::NotFound);
}

#[tokio::test]
async fn a_line_is_searched_whole_and_shown_in_parts() {
    let desk = Desk::new();
    let line = format!("{}error: E42{}", "a".repeat(100_000), "b".repeat(9_000));
    desk.put("outputs/one.json", format!("first\n{line}\nlast\n"));
    desk.bus.install(&Spill::new(desk.root.join("outputs"))).unwrap();
    let found = desk.ok("recall", json!({ "handle": "one.json", "query": "ERROR: e42" })).await;
    assert!(found.starts_with("2@99600\t…aaa") && found.contains("error: E42bbb"), "{found}");
    assert!(
        found.ends_with("…\n(the end; 3 lines in all; a long line is shown in part, offset=2 with at=101600 goes on in it)"),
        "{found}"
    );
    let rest =
        desk.ok("recall", json!({ "handle": "one.json", "offset": 2, "at": 101_600, "limit": 1 })).await;
    assert!(rest.starts_with("2@101600\t…bbb"), "{rest}");
    let none = desk
        .ok("recall", json!({ "handle": "one.json", "query": "error: e42", "offset": 2, "at": 101_600 }))
        .await;
    assert_eq!(none, "(no line with it from line 2 on; there are 3)");
}
