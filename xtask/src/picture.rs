use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::run::{Run, exists};
use crate::workspace::Workspace;

/// Path of the picture, relative to the root.
const FILE: &str = "docs/demo.svg";

/// Columns and rows of the terminal.
const COLUMNS: usize = 96;
const ROWS: usize = 44;

/// Width and height of a character cell, in pixels.
const CELL: (f64, f64) = (8.4, 19.0);

/// Margin around the text.
const MARGIN_PX: f64 = 18.0;

/// Last words of the demo, at which the screen is captured.
const END: &str = "checked again without the agent";

const DEMO_TIMEOUT: Duration = Duration::from_secs(60);

/// Colours of a terminal's palette, by index.
const PALETTE: [&str; 8] =
    ["#6e7681", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#76e3ea", "#f0f6fc"];
const FOREGROUND: &str = "#d0d7de";
const BACKGROUND: &str = "#161b22";

/// Runs the demo in a terminal and draws its screen into docs/demo.svg.
pub(crate) fn draw(workspace: &Workspace) -> Result<()> {
    ensure!(exists_tmux(), "a picture of the terminal needs tmux");
    Run::cargo(&["build", "--quiet", "--locked", "--package", "zk-cli"], workspace.root()).wait()?;
    let own = std::env::current_exe().context("where this program is")?;
    let program = own.with_file_name("zk");
    let server = format!("zk-picture-{}", std::process::id());
    let tmux = |args: &[&str]| Run::new("tmux", &[&["-L", &server], args].concat(), workspace.root());
    let demo = format!("{} demo; sleep {}", program.display(), DEMO_TIMEOUT.as_secs());
    let (columns, rows) = (COLUMNS.to_string(), ROWS.to_string());
    tmux(&["new-session", "-d", "-x", &columns, "-y", &rows, &demo]).wait()?;
    let begun = Instant::now();
    let captured = loop {
        let captured = tmux(&["capture-pane", "-e", "-p"]).output();
        let captured = captured.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        match captured {
            Ok(text) if !text.contains(END) && begun.elapsed() < DEMO_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(50));
            }
            captured => break captured,
        }
    };
    tmux(&["kill-server"]).wait()?;
    let captured = captured?;
    if !captured.contains(END) {
        bail!("the demo did not end within {DEMO_TIMEOUT:?}:\n{captured}");
    }
    fs::write(workspace.root().join(FILE), svg(captured.trim_end()))?;
    println!("wrote {FILE}");
    Ok(())
}

fn exists_tmux() -> bool {
    exists("tmux") || Run::new("tmux", &["-V"], std::path::Path::new("/")).quiet().wait().is_ok()
}

/// Style of a piece of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Look {
    /// Index of the colour, if it is set.
    colour: Option<usize>,
    is_bold: bool,
    is_dim: bool,
}

impl Look {
    /// Applies the parameters of one SGR sequence.
    fn take(&mut self, parameters: &str) {
        for parameter in parameters.split(';') {
            match parameter.parse().unwrap_or(0) {
                0 => *self = Self::default(),
                1 => self.is_bold = true,
                2 => self.is_dim = true,
                22 => (self.is_bold, self.is_dim) = (false, false),
                39 => self.colour = None,
                number @ (30..=37 | 90..=97) => self.colour = Some(number % 10),
                _ => {}
            }
        }
    }

    fn attributes(self) -> String {
        let mut attributes = String::new();
        if let Some(colour) = self.colour.and_then(|colour| PALETTE.get(colour)) {
            let _ = write!(attributes, " fill=\"{colour}\"");
        }
        if self.is_bold {
            attributes.push_str(" font-weight=\"bold\"");
        }
        if self.is_dim {
            attributes.push_str(" opacity=\"0.6\"");
        }
        attributes
    }
}

/// Draws rows with SGR sequences as SVG, each piece at its own column.
fn svg(captured: &str) -> String {
    let (width, height) = CELL;
    let rows = captured.lines().count().max(1);
    let (across, down) = (COLUMNS as f64 * width + 2.0 * MARGIN_PX, rows as f64 * height + 2.0 * MARGIN_PX);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {across:.0} {down:.0}\" role=\"img\">\n\
         <title>zk demo on a terminal</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n\
         <g font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"14\" fill=\"{FOREGROUND}\" \
         xml:space=\"preserve\">\n"
    );
    let mut look = Look::default();
    for (row, line) in captured.lines().enumerate() {
        let baseline = MARGIN_PX + (row as f64 + 0.75) * height;
        let mut column = 0;
        for (at, piece) in line.split("\u{1b}[").enumerate() {
            let text = match (at, piece.split_once('m')) {
                (0, _) | (_, None) => piece,
                (_, Some((parameters, text))) => {
                    look.take(parameters);
                    text
                }
            };
            if !text.trim().is_empty() {
                let (x, attributes) = (MARGIN_PX + column as f64 * width, look.attributes());
                let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{baseline:.1}\"{attributes}>{text}</text>");
            }
            column += text.chars().count();
        }
    }
    out.push_str("</g>\n</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_stand_at_their_columns_with_their_colours_and_are_escaped() {
        let drawn = svg("\u{1b}[36m● list\u{1b}[0;2m <a>\n\u{1b}[39mdim still\u{1b}[1;91m!\u{1b}[0m");
        for expected in [
            "<text x=\"18.0\" y=\"32.2\" fill=\"#76e3ea\">● list</text>",
            "<text x=\"68.4\" y=\"32.2\" opacity=\"0.6\"> &lt;a&gt;</text>",
            "<text x=\"18.0\" y=\"51.2\" opacity=\"0.6\">dim still</text>",
            "<text x=\"93.6\" y=\"51.2\" fill=\"#ff7b72\" font-weight=\"bold\" opacity=\"0.6\">!</text>",
        ] {
            assert!(drawn.contains(expected), "{expected}\n{drawn}");
        }
    }
}
