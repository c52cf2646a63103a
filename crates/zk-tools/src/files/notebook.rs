//! Jupyter notebooks, cell by cell, for a model.

use std::fmt::Write;

use serde_json::Value;
use zk_core::model::{Block, Image, MediaTypes};

use crate::text::head;

/// Largest notebook that is shown by its cells, in bytes.
pub(crate) const MAX_NOTEBOOK_BYTES: u64 = 20 << 20;

/// Maximum number of bytes of a cell's output.
const MAX_OUTPUT_BYTES: usize = 4_000;

/// Maximum number of images of a notebook.
const MAX_IMAGES: usize = 8;

/// Notebook as text, with the images of its outputs; `None` if the bytes are no notebook.
pub(crate) fn render(bytes: &[u8]) -> Option<(String, Vec<Block>)> {
    let notebook: Value = serde_json::from_slice(bytes).ok()?;
    let cells = notebook.get("cells")?.as_array()?;
    notebook.get("nbformat")?;
    let (mut text, mut images) = (String::new(), Vec::new());
    for (cell, number) in cells.iter().zip(1..) {
        let kind = cell.get("cell_type").and_then(Value::as_str).unwrap_or("cell");
        let source = joined(cell.get("source"));
        let _ = write!(text, "[cell {number}: {kind}]\n{}\n", source.trim_end());
        for output in cell.get("outputs").and_then(Value::as_array).into_iter().flatten() {
            let shown = render_output(output, &mut images);
            if !shown.trim().is_empty() {
                let cut = if shown.len() > MAX_OUTPUT_BYTES { "\n[…]" } else { "" };
                let _ = write!(text, "[output]\n{}{cut}\n", head(shown.trim_end(), MAX_OUTPUT_BYTES));
            }
        }
    }
    Some((text, images))
}

/// Text of a notebook's field: one string, or a list of lines.
fn joined(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        Some(_) | None => String::new(),
    }
}

fn render_output(output: &Value, images: &mut Vec<Block>) -> String {
    if output.get("output_type").and_then(Value::as_str) == Some("error") {
        let part = |key| output.get(key).and_then(Value::as_str).unwrap_or_default();
        return format!("{}: {}", part("ename"), part("evalue"));
    }
    let Some(data) = output.get("data").and_then(Value::as_object) else { return joined(output.get("text")) };
    let mut text = joined(data.get("text/plain"));
    for kind in MediaTypes::WEB {
        let image = joined(data.get(*kind)).split_whitespace().collect::<String>();
        if image.is_empty() {
            continue;
        }
        if images.len() < MAX_IMAGES {
            images.push(Block::Image(Image::new(*kind, image)));
            let _ = write!(text, "\n[image {}]", images.len());
        } else {
            text.push_str("\n[an image, not shown]");
        }
    }
    text
}
