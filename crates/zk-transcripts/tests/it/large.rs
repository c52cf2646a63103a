use zk_core::model::{Block, Image, ToolCall};
use zk_transcripts::ExportFormat;

use crate::support::{answer, chain, document, facts, run_start, user};

#[test]
fn long_texts_and_large_images_are_cut_and_the_page_says_so() {
    let line = "x".repeat(5 << 20);
    let many = "line\n".repeat(10_000);
    let call = |id: &str| Block::ToolCall(ToolCall::new(id, "dump", serde_json::json!({})));
    let kinds = vec![
        run_start("r"),
        user(vec![Block::text(line.as_str()), Block::Image(Image::new("image/png", "A".repeat(8 << 20)))]),
        answer(vec![Block::text(line.as_str()), call("one"), call("two")]),
        user(vec![Block::result("one", line.as_str(), false), Block::result("two", many.as_str(), false)]),
    ];
    let page = document(ExportFormat::Html, facts(), &chain(kinds));
    assert!(page.len() < 4 << 20, "{}", page.len());
    for said in ["more bytes are left out", "8,000 more lines are left out", "KB is left out"] {
        assert!(page.contains(said), "{said}");
    }
}

#[test]
fn a_long_session_is_written_run_by_run() {
    let kinds = (0..300).flat_map(|at| {
        let prompt = user(vec![Block::text(format!("prompt {at}"))]);
        [run_start(&format!("r{at}")), prompt, answer(vec![Block::text(format!("answer {at}"))])]
    });
    let entries = chain(kinds.collect());
    for format in [ExportFormat::Html, ExportFormat::Markdown] {
        let text = document(format, facts(), &entries);
        for at in [0, 150, 299] {
            assert!(text.contains(&format!("prompt {at}")) && text.contains(&format!("answer {at}")));
        }
    }
}
