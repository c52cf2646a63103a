//! Guides for strangers, followed in packages outside of the workspace: what they take in lines and minutes.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::run::Run;
use crate::scaffold::{self, Kind};
use crate::vendor_guide;
use crate::workspace::{Text, Workspace};

/// Guide with a program that it shows, and a manifest for it.
struct Guide {
    page: &'static str,
    example: &'static str,
    /// Most lines of code of the program, without its `main` and what that alone needs.
    max_lines: usize,
}

const GUIDES: [Guide; 2] = [
    Guide { page: "docs/guide-plugin.md", example: "crates/zk/examples/plugin.rs", max_lines: 100 },
    Guide { page: "docs/embedding.md", example: "crates/zk/examples/embedding.rs", max_lines: 100 },
];
/// Provider that the guide for providers shows, and its most lines.
const DIALECT: (&str, usize) = ("examples/own-provider/src/lib.rs", 150);

/// Follows the guides for plugins, embedders, dialects and vendors.
///
/// # Errors
/// When a guide does not lead to a program that works, or takes more lines than it says.
pub(crate) fn follow(workspace: &Workspace) -> Result<()> {
    let texts = workspace.texts()?;
    let target = workspace.root().join("target/scaffold/target").to_string_lossy().into_owned();
    for guide in &GUIDES {
        timed(guide.page, || program(workspace, &texts, guide, &target))?;
    }
    timed("the guide for dialects", || {
        let lines = lines_of(text(&texts, DIALECT.0)?);
        ensure!(lines <= DIALECT.1, "{} has {lines} lines, {} are allowed", DIALECT.0, DIALECT.1);
        let dir = workspace.root().join("target/guides");
        let made = dir.join("zk-made-dialect");
        if made.exists() {
            fs::remove_dir_all(&made)?;
        }
        scaffold::new(workspace, Kind::Dialect, "made-dialect", Some(dir))?;
        Run::cargo(&["test"], &made).env("CARGO_TARGET_DIR", &target).wait()?;
        Ok(lines)
    })?;
    timed("the guide for vendors", || vendor_guide::follow(workspace).map(|()| vendor_guide::lines()))
}

fn timed(name: &str, follow: impl FnOnce() -> Result<usize>) -> Result<()> {
    let begun = Instant::now();
    let lines = follow().with_context(|| format!("following {name}"))?;
    println!("{name}: {lines} lines, {:.1} minutes", begun.elapsed().as_secs_f64() / 60.0);
    Ok(())
}

/// Makes a package of the guide's manifest and its program, and runs it.
fn program(workspace: &Workspace, texts: &[Text], guide: &Guide, target: &str) -> Result<usize> {
    let (page, code) = (text(texts, guide.page)?, text(texts, guide.example)?);
    ensure!(page.contains(guide.example), "{} does not link to {}", guide.page, guide.example);
    let lines = lines_of(code.split("#[tokio::main").next().unwrap_or_default());
    ensure!(lines <= guide.max_lines, "{} has {lines} lines, {} are allowed", guide.example, guide.max_lines);
    let manifest = page.split("```toml,manifest\n").nth(1).and_then(|rest| rest.split("```").next());
    let manifest = manifest.with_context(|| format!("{} shows no manifest", guide.page))?;
    let dir = workspace.root().join("target/guides/program");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(dir.join("examples"))?;
    fs::create_dir_all(dir.join("src"))?;
    fs::write(dir.join("src/lib.rs"), "")?;
    fs::write(dir.join("examples/program.rs"), code)?;
    fs::write(dir.join("Cargo.toml"), stranger_manifest(workspace, manifest)?)?;
    fs::copy(workspace.root().join("Cargo.lock"), dir.join("Cargo.lock"))?;
    Run::cargo(&["run", "--example", "program"], &dir).env("CARGO_TARGET_DIR", target).wait()?;
    Ok(lines)
}

/// The manifest as a stranger writes it, with this checkout in the place of the registry.
fn stranger_manifest(workspace: &Workspace, shown: &str) -> Result<String> {
    let head = "[package]\nname = \"program\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n";
    let mut manifest = format!("{head}{shown}");
    manifest.push_str("\n[patch.crates-io]\n");
    for package in workspace.packages()?.iter().filter(|package| package.is_published()) {
        let path = workspace.root().join(&package.dir);
        manifest.push_str(&format!("{} = {{ path = \"{}\" }}\n", package.name, path.display()));
    }
    Ok(manifest)
}

fn text<'a>(texts: &'a [Text], path: &str) -> Result<&'a str> {
    let found = texts.iter().find(|text| text.path == path);
    Ok(&found.with_context(|| format!("there is no {path}"))?.text)
}

fn lines_of(code: &str) -> usize {
    code.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with("//")).count()
}
