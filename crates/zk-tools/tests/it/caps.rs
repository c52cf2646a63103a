//! Whatever a call asks for, results and memory stay within bounds.

use std::io::{Seek, SeekFrom, Write};
use std::sync::Arc;

use serde_json::json;
use zk_core::events::ToolTransform;
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::{Block, CallRef, Image, Message, ToolContent};
use zk_core::service::{ContextId, ContextWindow, Reduction, WindowFill};

use zk_tools::ToolsOptions;

use crate::support::{Desk, MEMORY, forget_peak, memory};

const RESULT: usize = 1 << 20;
const TURN: usize = 4 << 20;
/// Maximum memory of the whole process at any moment, in bytes.
const PROCESS: u64 = 128 << 20;

/// File of a gigabyte: lines at both ends, and nothing or few line ends in between.
fn gigabyte(desk: &Desk, name: &str) {
    let mut file = std::fs::File::create(desk.root.join(name)).unwrap();
    let lines = "a line with a needle in it\n".repeat(10_000);
    for _ in 0..40 {
        file.write_all(lines.as_bytes()).unwrap();
    }
    file.seek(SeekFrom::Start(1 << 30)).unwrap();
    file.write_all(b"end\n").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_without_limit_of_a_gigabyte_has_a_cap_and_says_so() {
    let _alone = MEMORY.lock().await;
    forget_peak();
    let desk = Desk::new();
    gigabyte(&desk, "big");
    let text = "needle\n".repeat(1 << 16);
    for n in 0..16 {
        desk.put(&format!("many/{n}"), &text);
    }
    for path in ["big", "many"] {
        let args = json!({ "pattern": "needle", "path": path, "mode": "content", "head_limit": 0 });
        let found = desk.ok("grep", args).await;
        assert!(found.len() <= RESULT + 1024, "{}", found.len());
        let last = found.lines().last().unwrap();
        assert!(last.contains("more follow but one result may have 1.0 MB; continue with offset="), "{last}");
        let next: usize = last.split("offset=").nth(1).unwrap().trim_end_matches(')').parse().unwrap();
        let args =
            json!({ "pattern": "needle", "path": path, "mode": "content", "head_limit": 2, "offset": next });
        assert!(desk.ok("grep", args).await.contains("needle"));
    }
    // Past the end, however much is skipped.
    let args = json!({ "pattern": "needle", "path": "many", "mode": "content", "offset": 1_u64 << 40 });
    assert_eq!(desk.ok("grep", args).await, format!("(there are only {} results)", 1 << 20));
    assert!(memory() < PROCESS, "{} MB", memory() >> 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_reads_without_limit_at_once_stay_small() {
    let _alone = MEMORY.lock().await;
    forget_peak();
    let options = ToolsOptions { dedup_reads: false, ..ToolsOptions::default() };
    let desk = Arc::new(Desk::with(options));
    desk.put("long", "x".repeat(2 << 20));
    desk.put("empty", "\n".repeat(1 << 20));
    desk.put("lines", "some text of a line\r\n".repeat(1 << 17));
    gigabyte(&desk, "big");
    let mut running = Vec::new();
    for n in 0..20 {
        let desk = desk.clone();
        let path = ["long", "empty", "lines", "big"][n % 4];
        running.push(tokio::spawn(async move {
            let args = json!({ "path": path, "max_bytes": 0, "limit": 0 });
            desk.ok("read_file", args).await
        }));
    }
    for running in running {
        let text = running.await.unwrap();
        assert!(text.len() <= RESULT, "{}", text.len());
        assert!(text.ends_with(')') && text.contains("one result may have 1.0 MB"), "{}", text.len());
    }
    assert!(memory() < PROCESS, "{} MB", memory() >> 20);
}

#[tokio::test]
async fn a_read_up_to_the_cap_goes_on_where_it_ended() {
    let desk = Desk::new();
    let lines: Vec<String> = (1..=200_000).map(|n| format!("line number {n}")).collect();
    desk.put("file", lines.join("\n"));
    let (mut seen, mut offset) = (Vec::new(), 1);
    while offset <= lines.len() {
        let text = desk
            .ok("read_file", json!({ "path": "file", "offset": offset, "max_bytes": 0, "limit": 0 }))
            .await;
        assert!(text.len() <= RESULT);
        let shown = text.lines().filter_map(|line| line.split_once('\t')).map(|(_, text)| text.to_owned());
        seen.extend(shown);
        assert!(seen.len() >= offset, "nothing new");
        offset = seen.len() + 1;
    }
    assert_eq!(seen, lines);
}

/// Applies to results of any tool, also of third parties.
#[tokio::test]
async fn the_results_of_a_turn_are_cut_before_they_join_the_history() {
    let desk = Desk::new();
    let result = |turn: &str, bytes: usize| ToolTransform {
        call: Arc::new(CallRef {
            turn_id: turn.into(),
            call_id: "c".into(),
            name: "other".into(),
            display_name: "other".into(),
        }),
        content: ToolContent::Text("é".repeat(bytes / 2)),
        is_error: false,
        details: None,
        output_bytes: bytes,
    };
    let cx = desk.bus.cx();
    let mut kept = Vec::new();
    for _ in 0..20 {
        let out = cx.emit(result("turn", 16 << 20)).await.unwrap();
        kept.push(out.content.to_text());
    }
    assert!(
        kept[0].ends_with("[cut: one result may have 1.0 MB, this one had 16.0 MB; ask for less at a time]")
    );
    assert!(kept[19].ends_with("[cut: all results of one turn may have 4.0 MB together, this one had 16.0 MB; ask for less at a time]"));
    assert!(kept.iter().map(String::len).sum::<usize>() <= TURN + 20 * 200);
    let out = cx.emit(result("next", 1000)).await.unwrap();
    assert_eq!(out.content.to_text().len(), 1000);
}

#[tokio::test]
async fn images_of_a_result_count_and_those_without_room_are_left_out_with_a_note() {
    let desk = Desk::new();
    let call = |turn: &str| {
        Arc::new(CallRef {
            turn_id: turn.into(),
            call_id: "c".into(),
            name: "mcp__any".into(),
            display_name: "any".into(),
        })
    };
    let image = || Block::Image(Image::new("image/png", "aGk="));
    let emit = async |turn: &str, blocks: Vec<Block>| {
        let content = ToolContent::Blocks(blocks);
        let event =
            ToolTransform { call: call(turn), content, is_error: false, details: None, output_bytes: 0 };
        match desk.bus.cx().emit(event).await.unwrap().content {
            ToolContent::Blocks(blocks) => blocks,
            ToolContent::Text(text) => panic!("{text}"),
        }
    };
    let few = vec![Block::text("seen"), image(), image()];
    assert_eq!(emit("few", few.clone()).await, few);
    let kept = emit("many", vec![image(); 300]).await;
    // As many as a megabyte of text takes of the window.
    assert_eq!(kept.iter().filter(|block| **block == image()).count(), RESULT / 4800);
    let notes: Vec<&str> = kept.iter().filter_map(Block::as_text).collect();
    assert!(notes[0].starts_with("[an image is left out]\n[cut: one result may have 1.0 MB"), "{}", notes[0]);
    assert!(notes[1..].iter().all(|note| *note == "[an image is left out]"));
}

/// A window of 100,000 tokens.
struct Window(u64);

#[async_trait::async_trait]
impl ContextWindow for Window {
    fn fill(&self, _: &ContextId) -> Option<WindowFill> {
        Some(WindowFill { usable: Some(100_000), estimate: self.0, ..WindowFill::default() })
    }

    fn sent(&self, _: &ContextId, _: &[Arc<Message>]) -> Option<Vec<Arc<Message>>> {
        None
    }

    fn reduce(&self, _: &ContextId, _: Reduction) {}

    async fn restore(&self, _: &ContextId, _: &Cx) -> Result<bool, BoxError> {
        Ok(false)
    }

    fn take_refusal(&self, _: &ContextId) -> Option<String> {
        None
    }
}

#[tokio::test]
async fn a_result_fits_what_is_left_of_the_window_whoever_gave_it() {
    for (filled, room) in [(20_000, 160_000), (60_000, 80_000), (99_000, 50_000)] {
        let desk = Desk::new();
        let scope = desk.bus.scope("window");
        scope.provide_service::<dyn ContextWindow>(Arc::new(Window(filled)));
        scope.provide_service(Arc::new(ContextId::fresh()));
        let call = Arc::new(CallRef {
            turn_id: "t".into(),
            call_id: "c".into(),
            name: "mcp__any".into(),
            display_name: "any".into(),
        });
        let content = ToolContent::from("x".repeat(300_000));
        let event = ToolTransform { call, content, is_error: false, details: None, output_bytes: 0 };
        let result = desk.bus.cx().emit(event).await.unwrap().content.to_text();
        let cut = format!("the context window has room for {}", if room == 50_000 { "48.8 KB" } else { "" });
        assert!(result.contains(&cut), "{}", result.get(result.len() - 200..).unwrap());
        assert!((room..room + 200).contains(&result.len()), "{}", result.len());
    }
}
