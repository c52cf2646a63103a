mod model;
mod moments;
mod shop;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

pub(crate) use self::model::{Reply, ScriptedModel};
use self::moments::{MOMENTS, Moment};
pub(crate) use self::shop::Shop;

use crate::run::{Run, exists};
use crate::workspace::Workspace;
use crate::workspace::names::PROGRAM_PACKAGE;

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

/// Directory of the pictures of moments, relative to the root.
const MOMENTS_DIR: &str = "docs/pictures";

/// Longest wait for what a moment waits for.
const MOMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// Time without a change after which a screen counts as drawn.
const SETTLED: Duration = Duration::from_millis(400);

/// Colours of a terminal's palette, by index.
const PALETTE: [&str; 8] =
    ["#6e7681", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#76e3ea", "#f0f6fc"];
const FOREGROUND: &str = "#d0d7de";
const BACKGROUND: &str = "#161b22";

/// Draws moments of a conversation, each as it is on a terminal, or the demo where none is named.
pub(crate) fn draw(workspace: &Workspace, names: &[&str]) -> Result<()> {
    ensure!(exists_tmux(), "a picture of the terminal needs tmux");
    let known = |name: &&&str| !MOMENTS.iter().any(|moment| moment.name == **name) && **name != "all";
    if let Some(unknown) = names.iter().find(known) {
        let names: Vec<&str> = MOMENTS.iter().map(|moment| moment.name).collect();
        bail!("there is no moment `{unknown}`; there are all, {}", names.join(", "));
    }
    Run::cargo(&["build", "--quiet", "--locked", "--package", PROGRAM_PACKAGE], workspace.root()).wait()?;
    let program = std::env::current_exe().context("where this program is")?.with_file_name("zk");
    if names.is_empty() {
        return draw_demo(workspace, &program);
    }
    let is_wanted = |moment: &&Moment| names.contains(&"all") || names.contains(&moment.name);
    fs::create_dir_all(workspace.root().join(MOMENTS_DIR))?;
    for moment in MOMENTS.iter().filter(is_wanted) {
        let captured = capture(workspace, &program.display().to_string(), moment)?;
        let file = format!("{MOMENTS_DIR}/{}.svg", moment.name);
        let picture = svg(captured.trim_end(), moment.size.0, moment.title);
        fs::write(workspace.root().join(&file), picture)?;
        fs::write(workspace.root().join(format!("{MOMENTS_DIR}/{}.txt", moment.name)), plain(&captured))?;
        println!("wrote {file}");
    }
    Ok(())
}

/// Plays the moment `name` by a command that starts the program.
pub(crate) fn play(workspace: &Workspace, command: &str, name: &str) -> Result<()> {
    ensure!(exists_tmux(), "a conversation on a terminal needs tmux");
    let moment = MOMENTS.iter().find(|moment| moment.name == name);
    capture(workspace, command, moment.with_context(|| format!("there is no moment `{name}`"))?).map(drop)
}

/// Plays a moment on a terminal of its own, and captures its screen.
fn capture(workspace: &Workspace, command: &str, moment: &Moment) -> Result<String> {
    let model = ScriptedModel::begin(moment.replies)?;
    let shop = Shop::open(moment.settings)?;
    let server = format!("zk-picture-{}-{}", std::process::id(), moment.name);
    let tmux = |args: &[&str]| Run::new("tmux", &[&["-L", &server], args].concat(), workspace.root());
    let vars = format!(
        "HOME={home} PATH=\"$PATH\" TERM=tmux-256color ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=none",
        home = shop.home().display(),
        url = model.url()
    );
    let line = format!(
        "cd {} && env -i {vars} {command} --model claude-sonnet-5-5 {}; sleep 60",
        shop.project().display(),
        moment.flags
    );
    let (columns, rows) = (moment.size.0.to_string(), moment.size.1.to_string());
    tmux(&["new-session", "-d", "-x", &columns, "-y", &rows, &line]).wait()?;
    let screen = || -> Result<String> {
        let captured = tmux(&["capture-pane", "-e", "-p"]).output()?;
        Ok(String::from_utf8_lossy(&captured).into_owned())
    };
    let played = moment.steps.iter().try_for_each(|(awaited, keys)| {
        wait_for(awaited, &screen)?;
        let keys: Vec<&str> = std::iter::once("send-keys").chain(keys.iter().copied()).collect();
        if keys.len() > 1 { tmux(&keys).wait() } else { Ok(()) }
    });
    let captured = played.and_then(|()| settled(&screen));
    tmux(&["kill-server"]).wait()?;
    captured.with_context(|| format!("the moment {}", moment.name))
}

fn wait_for(awaited: &str, screen: &impl Fn() -> Result<String>) -> Result<()> {
    let begun = Instant::now();
    loop {
        let shown = plain(&screen()?);
        if shown.contains(awaited) {
            return Ok(());
        }
        ensure!(begun.elapsed() < MOMENT_TIMEOUT, "`{awaited}` was not shown:\n{shown}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The screen once nothing changes any more.
fn settled(screen: &impl Fn() -> Result<String>) -> Result<String> {
    let (mut shown, mut since) = (screen()?, Instant::now());
    let begun = since;
    while since.elapsed() < SETTLED && begun.elapsed() < MOMENT_TIMEOUT {
        std::thread::sleep(Duration::from_millis(50));
        let now = screen()?;
        if now != shown {
            (shown, since) = (now, Instant::now());
        }
    }
    Ok(shown)
}

/// The text of rows with SGR sequences.
fn plain(captured: &str) -> String {
    let piece = |(at, piece): (usize, &str)| match (at, piece.split_once('m')) {
        (0, _) | (_, None) => piece.to_owned(),
        (_, Some((_, text))) => text.to_owned(),
    };
    captured.split("\u{1b}[").enumerate().map(piece).collect()
}

/// Draws the demo, as it is on a terminal, into docs/demo.svg.
fn draw_demo(workspace: &Workspace, program: &Path) -> Result<()> {
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
    fs::write(workspace.root().join(FILE), svg(captured.trim_end(), COLUMNS, "zk demo on a terminal"))?;
    println!("wrote {FILE}");
    Ok(())
}

fn exists_tmux() -> bool {
    exists("tmux") || Run::new("tmux", &["-V"], Path::new("/")).quiet().wait().is_ok()
}

/// Style of a piece of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Look {
    /// Index of the colour, if it is set.
    colour: Option<usize>,
    /// Number of the colour of its ground, of 256.
    ground: Option<u8>,
    /// Number of its colour among 256.
    wide_colour: Option<u8>,
    is_bold: bool,
    is_dim: bool,
}

impl Look {
    /// Applies the parameters of one SGR sequence.
    fn take(&mut self, parameters: &str) {
        let mut numbers = parameters.split([';', ':']).map(|parameter| parameter.parse().unwrap_or(0_usize));
        while let Some(number) = numbers.next() {
            match number {
                0 => *self = Self::default(),
                1 => self.is_bold = true,
                2 => self.is_dim = true,
                22 => (self.is_bold, self.is_dim) = (false, false),
                38 | 48 if numbers.next() == Some(5) => {
                    let colour = numbers.next().and_then(|colour| u8::try_from(colour).ok());
                    if number == 38 { self.wide_colour = colour } else { self.ground = colour }
                }
                39 => (self.colour, self.wide_colour) = (None, None),
                49 => self.ground = None,
                number @ (30..=37 | 90..=97) => (self.colour, self.wide_colour) = (Some(number % 10), None),
                _ => {}
            }
        }
    }

    fn attributes(self) -> String {
        let mut attributes = String::new();
        if let Some(colour) = self.wide_colour {
            let _ = write!(attributes, " fill=\"{}\"", wide(colour));
        } else if let Some(colour) = self.colour.and_then(|colour| PALETTE.get(colour)) {
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

/// A colour of the 256 that have no name, as terminals mix it.
fn wide(number: u8) -> String {
    if let Some(grey) = number.checked_sub(232) {
        let level = 8 + 10 * grey;
        return format!("#{level:02x}{level:02x}{level:02x}");
    }
    let Some(cube) = number.checked_sub(16) else {
        return PALETTE.get(usize::from(number % 8)).copied().unwrap_or(FOREGROUND).to_owned();
    };
    let level = |part: u8| if part == 0 { 0 } else { 55 + 40 * part };
    format!("#{:02x}{:02x}{:02x}", level(cube / 36), level(cube / 6 % 6), level(cube % 6))
}

/// Rows with SGR sequences as a picture of so many columns, each piece at its own column.
fn svg(captured: &str, columns: usize, title: &str) -> String {
    let (width, height) = CELL;
    let rows = captured.lines().count().max(1);
    let (across, down) = (columns as f64 * width + 2.0 * MARGIN_PX, rows as f64 * height + 2.0 * MARGIN_PX);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {across:.0} {down:.0}\" role=\"img\">\n\
         <title>{title}</title>\n\
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
            if let Some(ground) = look.ground.filter(|_| !text.is_empty()) {
                let (x, top) = (MARGIN_PX + column as f64 * width, MARGIN_PX + row as f64 * height);
                let (ground, wide) = (wide(ground), text.chars().count() as f64 * width);
                let _ = writeln!(
                    out,
                    "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{height:.1}\" fill=\"{ground}\"/>"
                );
            }
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
        let drawn =
            svg("\u{1b}[36m● list\u{1b}[0;2m <a>\n\u{1b}[39mdim still\u{1b}[1;91m!\u{1b}[0m", 96, "zk");
        for expected in [
            "<text x=\"18.0\" y=\"32.2\" fill=\"#76e3ea\">● list</text>",
            "<text x=\"68.4\" y=\"32.2\" opacity=\"0.6\"> &lt;a&gt;</text>",
            "<text x=\"18.0\" y=\"51.2\" opacity=\"0.6\">dim still</text>",
            "<text x=\"93.6\" y=\"51.2\" fill=\"#ff7b72\" font-weight=\"bold\" opacity=\"0.6\">!</text>",
        ] {
            assert!(drawn.contains(expected), "{expected}\n{drawn}");
        }
    }

    #[test]
    fn colours_among_256_and_grounds_are_drawn() {
        let drawn = svg("\u{1b}[38;5;255;48;5;22m+ new\u{1b}[m", 20, "zk");
        for expected in ["width=\"42.0\" height=\"19.0\" fill=\"#005f00\"/>", "fill=\"#eeeeee\">+ new</text>"]
        {
            assert!(drawn.contains(expected), "{expected}\n{drawn}");
        }
        assert_eq!(plain("\u{1b}[1ma\u{1b}[0m b"), "a b");
    }

    #[test]
    fn moments_have_names_of_their_own() {
        let mut names: Vec<&str> = MOMENTS.iter().map(|moment| moment.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), MOMENTS.len());
    }
}
