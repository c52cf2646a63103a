use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use flate2::Compression;
use flate2::write::DeflateEncoder;

use crate::picture::{self, Reply, ScriptedModel, Shop};
use crate::run::{Run, exists};
use crate::workspace::Workspace;
use crate::workspace::names::PROGRAM_PACKAGE;

/// Path of the packed list, relative to the root.
pub(crate) const FILE: &str = "crates/zk-cli/build/order.deflate";

/// Moments of a conversation whose functions are listed: those that need no sandbox, which valgrind cannot set up.
const MOMENTS: [&str; 6] = ["first-screen", "edit-card", "question", "to-do", "models", "sessions"];

/// Replies of a run without a person, which reads and searches.
const REPLIES: &[Reply] = &[
    Reply::Call(
        "Reading.",
        &[
            ("read_file", r#"{"path": "cart.py"}"#),
            ("grep", r#"{"pattern": "pct"}"#),
            ("glob", r#"{"pattern": "*.py"}"#),
            ("shell", r#"{"command": "true"}"#),
        ],
    ),
    Reply::Say("Done."),
];

/// Time for a trace to be written once its program was told to end.
const TRACE_TIMEOUT: Duration = Duration::from_secs(60);

/// Writes the list of functions that usual runs call, by which the linker puts them beside each other.
///
/// A name has a hash of the compiler, the profile, the version of its crate and all crates below it: after a change of one of
/// these the list is written again.
pub(crate) fn write(workspace: &Workspace) -> Result<()> {
    ensure!(exists("valgrind"), "the calls of a run are recorded by valgrind, which is not installed");
    let root = workspace.root();
    let target = root.join("target/order");
    let build =
        Run::cargo(&["build", "--release", "--locked", "--package", PROGRAM_PACKAGE, "--bin", "zk"], root);
    // Flags of the compiler are no part of the names, which `strip` in the profile is.
    let build = build.env("RUSTFLAGS", "-Cstrip=none").env("CARGO_TARGET_DIR", &target.to_string_lossy());
    build.wait()?;
    let program = target.join("release/zk");
    let traces = target.join("traces");
    if traces.exists() {
        fs::remove_dir_all(&traces)?;
    }
    fs::create_dir_all(&traces)?;
    trace_run(&program, &traces)?;
    for name in MOMENTS {
        let command = [&recorder(&traces, name)[..], &[program.display().to_string()]].concat().join(" ");
        picture::play(workspace, &command, name)?;
    }
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(&traces)? {
        names.extend(called_functions(&whole_trace(&entry?.path())?, &program));
    }
    ensure!(names.len() > 1000, "the traces name {} functions only: {}", names.len(), traces.display());
    let list: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut packed = DeflateEncoder::new(fs::File::create(root.join(FILE))?, Compression::best());
    packed.write_all(list.join("\n").as_bytes())?;
    packed.finish()?;
    println!("wrote {FILE}: {} functions", names.len());
    Ok(())
}

/// Program and flags that record the calls of a command into a file of `traces`.
fn recorder(traces: &Path, name: &str) -> Vec<String> {
    let file = format!("--callgrind-out-file={}/{name}.%p", traces.display());
    ["valgrind", "-q", "--tool=callgrind", "--demangle=no", &file].map(str::to_owned).to_vec()
}

/// Records a run without a person, with an empty home and no settings of whoever releases.
fn trace_run(program: &Path, traces: &Path) -> Result<()> {
    let shop = Shop::open("")?;
    for format in ["text", "stream-json"] {
        let model = ScriptedModel::begin(REPLIES)?;
        let line = format!(
            "env -i HOME={home} PATH=\"$PATH\" ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=none {recorder} {program} \
             -p --model claude-sonnet-5-5 --allow-all --output-format {format} 'read it'",
            home = shop.home().display(),
            url = model.url(),
            recorder = recorder(traces, format).join(" "),
            program = program.display(),
        );
        Run::new("sh", &["-c", &line], &shop.project()).quiet().wait()?;
    }
    Ok(())
}

/// Text of a trace, once its last line is written.
fn whole_trace(path: &PathBuf) -> Result<String> {
    let begun = Instant::now();
    loop {
        let text = String::from_utf8_lossy(&fs::read(path)?).into_owned();
        if text.lines().rev().take(3).any(|line| line.starts_with("totals:")) {
            return Ok(text);
        }
        ensure!(begun.elapsed() < TRACE_TIMEOUT, "the trace {} has no end", path.display());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Linker names of the functions of `program` in a trace of callgrind, which gives each file and function a number at
/// its first mention.
fn called_functions(trace: &str, program: &Path) -> BTreeSet<String> {
    let program = program.to_string_lossy();
    let (mut files, mut functions) = (HashMap::new(), HashMap::new());
    let mut is_own = false;
    let mut called = BTreeSet::new();
    for line in trace.lines() {
        let Some((key, value)) = line.split_once('=') else { continue };
        match key {
            "ob" => is_own = *resolved(&mut files, value) == program,
            "cob" => {
                resolved(&mut files, value);
            }
            "cfn" => {
                resolved(&mut functions, value);
            }
            "fn" => {
                let name = resolved(&mut functions, value);
                // A call within itself has its depth behind the name.
                let name = name.split('\'').next().unwrap_or_default();
                if is_own && !name.is_empty() && !name.starts_with("0x") && !name.starts_with('(') {
                    called.insert(name.to_owned());
                }
            }
            _ => {}
        }
    }
    called
}

/// Name of `(number) name`, or of a number that had one before.
fn resolved<'a>(names: &'a mut HashMap<String, String>, value: &str) -> &'a str {
    let (number, name) = value.split_once(") ").unwrap_or((value.trim_end_matches(')'), ""));
    let known = names.entry(number.to_owned()).or_default();
    if !name.is_empty() {
        name.clone_into(known);
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_program_are_told_from_those_of_libraries() {
        let trace = "ob=(1) /lib/libc.so\nfn=(1) malloc\n1 2\nob=(2) /zk\nfn=(2) _ZN2zk4mainE\ncob=(1)\ncfn=(3) free\n\
                     fn=(4) _ZN2zk4walkE'2\nob=(1)\nfn=(3)\nob=(2)\nfn=(5) 0x0000\nfn=(2)\n";
        let called = called_functions(trace, Path::new("/zk"));
        assert_eq!(called.into_iter().collect::<Vec<_>>(), ["_ZN2zk4mainE", "_ZN2zk4walkE"]);
    }
}
