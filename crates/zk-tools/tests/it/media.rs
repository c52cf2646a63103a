use serde_json::json;
use zk_core::model::{Block, ToolContent};

use crate::support::Desk;

fn png(width: u32, height: u32) -> Vec<u8> {
    [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &width.to_be_bytes(), &height.to_be_bytes(), &[8; 20]]
        .concat()
}

#[tokio::test]
async fn an_image_comes_as_what_a_model_can_see() {
    let desk = Desk::new();
    desk.put("a.png", png(640, 480));
    let output = desk.output("read_file", json!({ "path": "a.png" })).await.unwrap();
    let ToolContent::Blocks(blocks) = &output.content else { panic!("{output:?}") };
    let [Block::Text(text), Block::Image(image)] = blocks.as_slice() else { panic!("{blocks:?}") };
    assert_eq!(text.text, "[`a.png`: image/png, 44 B, 640×480]");
    assert_eq!((image.media_type.as_str(), image.data.starts_with("iVBOR")), ("image/png", true));
    // Once more, it is in the conversation already.
    let again = desk.ok("read_file", json!({ "path": "a.png" })).await;
    assert!(again.contains("unchanged since you read"), "{again}");
}

#[tokio::test]
async fn an_image_that_no_provider_takes_is_named_with_what_to_do() {
    let desk = Desk::new();
    desk.put("wide.png", png(9_000, 10));
    let text = desk.ok("read_file", json!({ "path": "wide.png" })).await;
    assert!(text.contains("9000×10 pixels") && text.contains("make it smaller"), "{text}");
    let mut huge = png(10, 10);
    huge.resize(9 << 20, 0);
    desk.put("huge.png", huge);
    let text = desk.ok("read_file", json!({ "path": "huge.png" })).await;
    assert!(text.contains("no more than 8.0 MB are shown"), "{text}");
}

#[tokio::test]
async fn a_pdf_comes_as_a_document() {
    let desk = Desk::new();
    desk.put("doc/a.pdf", "%PDF-1.7\n1 0 obj <</Type/Pages /Kids [2 0 R] /Count 3>> endobj\n");
    let output = desk.output("read_file", json!({ "path": "doc/a.pdf" })).await.unwrap();
    let ToolContent::Blocks(blocks) = &output.content else { panic!("{output:?}") };
    let [Block::Text(text), Block::Document(document)] = blocks.as_slice() else { panic!("{blocks:?}") };
    assert!(text.text.contains(", 3 pages; ") && text.text.contains("pdftotext"), "{}", text.text);
    assert_eq!((document.media_type.as_str(), document.name.as_deref()), ("application/pdf", Some("a.pdf")));
}

#[tokio::test]
async fn a_notebook_is_read_cell_by_cell() {
    let desk = Desk::new();
    let notebook = json!({
        "nbformat": 4,
        "cells": [
            { "cell_type": "markdown", "source": ["# Title\n", "text"] },
            { "cell_type": "code", "source": "1 + 1", "outputs": [
                { "output_type": "execute_result", "data": { "text/plain": ["2"] } },
                { "output_type": "display_data", "data": { "image/png": "aGk=", "text/plain": "<Figure>" } },
                { "output_type": "stream", "text": ["printed\n"] },
                { "output_type": "error", "ename": "E", "evalue": "why", "traceback": ["\u{1b}[31m"] },
            ] },
        ],
    });
    desk.put("a.ipynb", notebook.to_string());
    let output = desk.output("read_file", json!({ "path": "a.ipynb" })).await.unwrap();
    let ToolContent::Blocks(blocks) = &output.content else { panic!("{output:?}") };
    let expected = "[cell 1: markdown]\n# Title\ntext\n[cell 2: code]\n1 + 1\n[output]\n2\n[output]\n<Figure>\n\
                    [image 1]\n[output]\nprinted\n[output]\nE: why\n";
    assert_eq!(blocks[0].as_text(), Some(expected));
    assert!(matches!(&blocks[1], Block::Image(image) if image.data == "aGk="));
    let part = desk.ok("read_file", json!({ "path": "a.ipynb", "offset": 2, "limit": 1 })).await;
    assert!(part.starts_with("# Title\n(lines 2-2 of"), "{part}");
    desk.put("broken.ipynb", "{ not json");
    assert_eq!(desk.ok("read_file", json!({ "path": "broken.ipynb" })).await, "1\t{ not json\n");
}

#[tokio::test]
async fn a_large_text_is_read_in_parts_that_the_call_names() {
    let desk = Desk::new();
    desk.put("large", "a line of text\n".repeat(200_000));
    let error = desk.err("read_file", json!({ "path": "large" })).await;
    assert!(error.message.contains("offset and limit") && error.message.contains("grep"), "{error}");
    let page = desk.ok("read_file", json!({ "path": "large", "offset": 199_999 })).await;
    assert_eq!(page, "199999\ta line of text\n200000\ta line of text\n");
}

#[tokio::test]
async fn the_source_of_a_notebook_is_read_and_then_written() {
    let desk = Desk::new();
    let source =
        json!({ "nbformat": 4, "cells": [{ "cell_type": "code", "source": "1 + 1", "outputs": [] }] });
    desk.put("a.ipynb", source.to_string());
    desk.ok("read_file", json!({ "path": "a.ipynb" })).await;
    let write = json!({ "path": "a.ipynb", "content": "{}" });
    let error = desk.err("write_file", write.clone()).await;
    assert!(
        error.message.ends_with("you have not seen its source; read it with `raw: true` first"),
        "{error}"
    );
    let raw = desk.ok("read_file", json!({ "path": "a.ipynb", "raw": true })).await;
    assert_eq!(raw, format!("1\t{source}\n"));
    desk.ok("write_file", write).await;
}

#[tokio::test]
async fn a_text_in_utf_16_is_read_and_not_turned_into_utf_8() {
    let desk = Desk::new();
    for is_little in [true, false] {
        let text = "\u{feff}grüße\r\nzwei\r\n";
        let bytes = text
            .encode_utf16()
            .flat_map(|unit| if is_little { unit.to_le_bytes() } else { unit.to_be_bytes() });
        desk.put("a.txt", bytes.collect::<Vec<u8>>());
        let shown = desk.ok("read_file", json!({ "path": "a.txt" })).await;
        assert_eq!(shown, "1\tgrüße\n2\tzwei\n(lines end with CR LF; the file is UTF-16, shown as UTF-8)");
        let error = desk.err("write_file", json!({ "path": "a.txt", "content": "x" })).await;
        assert!(error.message.contains("its text is not in UTF-8"), "{error}");
    }
}
