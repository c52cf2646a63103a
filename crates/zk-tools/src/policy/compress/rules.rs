//! Noise in a program's output, line by line.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::command::Run;

/// Judgement of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Line that may matter.
    Kept,
    /// Noise of this kind, unless the line reports an error.
    Likely(Kind),
    /// Noise of this kind in any case: the name of a passed test may contain `error`.
    Surely(Kind),
}

/// Kind of noise, as described to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Progress,
    PassedTests,
    Installing,
    Hints,
    Generated,
    Repeated,
    Learned,
    Navigation,
}

impl Kind {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Progress => "progress of a build",
            Self::PassedTests => "passed tests",
            Self::Installing => "progress of an installation",
            Self::Hints => "hints",
            Self::Generated => "generated files",
            Self::Repeated => "repetitions",
            Self::Learned => "progress by a learned rule",
            Self::Navigation => "links of the page",
        }
    }
}

/// The rules of one program, which may remember the section a line is in.
pub(super) struct Rules {
    families: Vec<Family>,
    /// Whether the line is in a section of generated files.
    is_generated: bool,
    last_author: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Cargo,
    Node,
    Pytest,
    Go,
    Make,
    GitStatus,
    GitDiff,
    GitLog,
    Listing,
    Installer,
}

impl Rules {
    /// Rules for the output of these programs.
    pub(super) fn of(runs: &[Run]) -> Self {
        let families = runs.iter().flat_map(families).collect();
        Self { families, is_generated: false, last_author: String::new() }
    }

    /// Classifies a line, given the lines before it.
    pub(super) fn judge(&mut self, line: &str) -> Line {
        for at in 0..self.families.len() {
            let Some(family) = self.families.get(at).copied() else { break };
            let judged = self.judge_as(family, line);
            if judged != Line::Kept {
                return judged;
            }
        }
        Line::Kept
    }

    fn judge_as(&mut self, family: Family, line: &str) -> Line {
        match family {
            Family::Cargo => judge_cargo(line),
            Family::Node => judge_node(line),
            Family::Pytest => judge_pytest(line),
            Family::Go => judge_go(line),
            Family::Make => judge_make(line),
            Family::GitStatus => judge_git_status(line),
            Family::GitDiff => self.judge_git_diff(line),
            Family::GitLog => self.judge_git_log(line),
            Family::Listing => self.judge_listing(line),
            Family::Installer => judge_installer(line),
        }
    }

    fn judge_git_diff(&mut self, line: &str) -> Line {
        if let Some(files) = line.strip_prefix("diff --git ") {
            self.is_generated = LOCK_FILES.iter().any(|name| files.ends_with(name));
            return Line::Kept;
        }
        let is_name = line.starts_with("--- ") || line.starts_with("+++ ") || line.starts_with("commit ");
        if is_name {
            return Line::Kept;
        }
        if self.is_generated { Line::Surely(Kind::Generated) } else { Line::Kept }
    }

    fn judge_git_log(&mut self, line: &str) -> Line {
        if !line.starts_with("Author: ") {
            return Line::Kept;
        }
        if self.last_author == line {
            return Line::Surely(Kind::Repeated);
        }
        line.clone_into(&mut self.last_author);
        Line::Kept
    }

    fn judge_listing(&mut self, line: &str) -> Line {
        let in_generated = |path: &str| {
            GENERATED_DIRS.iter().any(|dir| {
                path.split_once(dir).is_some_and(|(before, after)| {
                    (before.is_empty() || before.ends_with('/')) && after.starts_with('/')
                })
            })
        };
        // A directory of `ls -R`: its entries follow, up to an empty line.
        if let Some(dir) = line.strip_suffix(':') {
            self.is_generated = in_generated(&format!("{dir}/"));
            return Line::Kept;
        }
        if line.is_empty() {
            self.is_generated = false;
        }
        let is_path = !line.contains(char::is_whitespace) && in_generated(line);
        if self.is_generated || is_path { Line::Surely(Kind::Generated) } else { Line::Kept }
    }
}

const LOCK_FILES: [&str; 10] = [
    "Cargo.lock",
    "package-lock.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "poetry.lock",
    "uv.lock",
    "go.sum",
    "Gemfile.lock",
    "composer.lock",
    "flake.lock",
];

const GENERATED_DIRS: [&str; 6] =
    ["node_modules", ".git", "__pycache__", "target/debug", "target/release", ".venv"];

fn families(run: &Run) -> Vec<Family> {
    match run.program.as_str() {
        "cargo" => vec![Family::Cargo],
        "npm" | "yarn" | "pnpm" | "bun" => vec![Family::Node, Family::Installer],
        "jest" | "vitest" | "mocha" | "node" => vec![Family::Node],
        "pytest" | "py.test" | "tox" | "nox" => vec![Family::Pytest],
        "go" | "gotestsum" => vec![Family::Go],
        // Build tools run any of them.
        "make" | "gmake" | "ninja" | "cmake" | "just" => {
            vec![Family::Make, Family::Cargo, Family::Pytest, Family::Go, Family::Node]
        }
        "gcc" | "g++" | "clang" => vec![Family::Make],
        "git" if run.is("git", &["status"]) => vec![Family::GitStatus],
        "git" if run.is("git", &["diff", "show"]) => vec![Family::GitDiff],
        "git" if run.is("git", &["log"]) => vec![Family::GitLog, Family::GitDiff],
        "ls" | "find" | "tree" | "fd" => vec![Family::Listing],
        "pip" | "pip3" | "apt" | "apt-get" | "brew" | "docker" | "podman" | "gem" | "bundle" => {
            vec![Family::Installer]
        }
        _ => Vec::new(),
    }
}

fn judge_cargo(line: &str) -> Line {
    // `test path::name ... ok`
    if let Some(rest) = line.strip_prefix("test ")
        && rest.rsplit_once(" ... ").is_some_and(|(_, end)| end == "ok" || end.starts_with("ok <"))
    {
        return Line::Surely(Kind::PassedTests);
    }
    let trimmed = line.trim_start();
    let is_indented = line.len() > trimmed.len();
    // nextest: `        PASS [   0.012s] crate module::name`
    if is_indented && trimmed.strip_prefix("PASS [").is_some_and(|rest| rest.contains("s] ")) {
        return Line::Surely(Kind::PassedTests);
    }
    const VERBS: [&str; 12] = [
        "Compiling ",
        "Checking ",
        "Downloading ",
        "Downloaded ",
        "Fresh ",
        "Updating ",
        "Locking ",
        "Adding ",
        "Building ",
        "Documenting ",
        "Blocking ",
        "Dirty ",
    ];
    if is_indented && VERBS.iter().any(|verb| trimmed.starts_with(verb)) {
        let is_package = trimmed.split_whitespace().nth(2).is_some_and(|version| version.starts_with('v'));
        return if is_package { Line::Surely(Kind::Progress) } else { Line::Likely(Kind::Progress) };
    }
    Line::Kept
}

fn judge_node(line: &str) -> Line {
    let trimmed = line.trim_start();
    let passed = ["✓ ", "✔ ", "√ "].iter().any(|mark| trimmed.starts_with(mark));
    // vitest reports failures of a file after its mark: `✓ a.test.ts (4 tests | 1 failed)`
    if passed && !trimmed.contains(" failed") {
        return Line::Surely(Kind::PassedTests);
    }
    // jest: `PASS src/a.test.js (5.1 s)`; TAP: `ok 12 - name`
    let is_tap = trimmed
        .strip_prefix("ok ")
        .and_then(|rest| rest.split_once(" - "))
        .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    if line.starts_with("PASS ") || is_tap {
        return Line::Surely(Kind::PassedTests);
    }
    if ["npm http ", "npm timing ", "npm sill ", "npm verb "].iter().any(|start| line.starts_with(start)) {
        return Line::Surely(Kind::Installing);
    }
    if line.starts_with("npm warn deprecated ") || line.starts_with("npm WARN deprecated ") {
        return Line::Surely(Kind::Installing);
    }
    Line::Kept
}

fn judge_pytest(line: &str) -> Line {
    // `tests/test_a.py::test_b PASSED   [ 12%]`
    if let Some((test, rest)) = line.split_once(" PASSED")
        && test.contains("::")
        && !test.contains(' ')
        && is_percentage(rest)
    {
        return Line::Surely(Kind::PassedTests);
    }
    // `tests/test_a.py ......s..   [ 50%]`, or the dots alone
    let (body, percentage) = match line.rsplit_once('[') {
        Some((body, rest)) if rest.ends_with("%]") => (body.trim_end(), true),
        _ => (line, false),
    };
    let dots = body.rsplit(' ').next().unwrap_or_default();
    let before = body.strip_suffix(dots).unwrap_or_default().trim_end();
    let is_dots = !dots.is_empty() && dots.bytes().all(|byte| matches!(byte, b'.' | b's' | b'x'));
    if is_dots && percentage && (before.is_empty() || before.ends_with(".py")) {
        return Line::Surely(Kind::PassedTests);
    }
    Line::Kept
}

fn is_percentage(rest: &str) -> bool {
    let rest = rest.trim();
    rest.is_empty() || (rest.starts_with('[') && rest.ends_with("%]"))
}

fn judge_go(line: &str) -> Line {
    let trimmed = line.trim_start();
    if ["=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME "].iter().any(|start| line.starts_with(start))
        || trimmed.starts_with("--- PASS: ")
    {
        return Line::Surely(Kind::PassedTests);
    }
    if line.starts_with("ok  \t") || (line.starts_with("?   \t") && line.ends_with("[no test files]")) {
        return Line::Surely(Kind::PassedTests);
    }
    if line.starts_with("go: downloading ") { Line::Surely(Kind::Installing) } else { Line::Kept }
}

fn judge_make(line: &str) -> Line {
    let is_make = line.starts_with("make[") || line.starts_with("make: ");
    if is_make && (line.contains(": Entering directory ") || line.contains(": Leaving directory ")) {
        return Line::Surely(Kind::Progress);
    }
    // CMake and Ninja: `[ 12%] Building C object …`, `[12/90] CXX …`
    let counter = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    if let Some((count, _)) = counter
        && !count.is_empty()
        && count.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b' ' | b'%' | b'/'))
    {
        return Line::Likely(Kind::Progress);
    }
    const COMPILERS: [&str; 9] =
        ["gcc ", "g++ ", "cc ", "c++ ", "clang ", "clang++ ", "ar ", "ld ", "libtool: compile:"];
    if COMPILERS.iter().any(|compiler| line.starts_with(compiler)) && line.contains(" -") {
        // Words of a compiler's line are options, not complaints: `-Werror`.
        return Line::Surely(Kind::Progress);
    }
    // Kbuild: `  CC      kernel/fork.o`
    let mut words = line.split_whitespace();
    let is_kbuild = line.starts_with("  ")
        && words
            .next()
            .is_some_and(|word| matches!(word, "CC" | "LD" | "AR" | "AS" | "CXX" | "HOSTCC" | "GEN"))
        && words.next().is_some()
        && words.next().is_none();
    if is_kbuild { Line::Likely(Kind::Progress) } else { Line::Kept }
}

fn judge_git_status(line: &str) -> Line {
    let is_hint = line.starts_with("  (use \"git ") && line.ends_with(')');
    if is_hint { Line::Surely(Kind::Hints) } else { Line::Kept }
}

fn judge_installer(line: &str) -> Line {
    const STARTS: [&str; 18] = [
        "Collecting ",
        "Downloading ",
        "Using cached ",
        "Requirement already satisfied: ",
        "Obtaining ",
        "Installing build dependencies",
        "Getting requirements to build",
        "Preparing metadata",
        "Get:",
        "Hit:",
        "Selecting previously unselected package ",
        "Preparing to unpack ",
        "Unpacking ",
        "Setting up ",
        "Processing triggers for ",
        "(Reading database ",
        "==> Downloading ",
        "==> Pouring ",
    ];
    let trimmed = line.trim_start();
    if STARTS.iter().any(|start| trimmed.starts_with(start)) {
        return Line::Likely(Kind::Installing);
    }
    // BuildKit: `#12 sha256:ab… 12.3MB / 45MB 1.2s`, and layers: `1a2b3c: Pulling fs layer`
    let is_layer = trimmed.split_once(": ").is_some_and(|(id, what)| {
        id.len() == 12
            && id.bytes().all(|byte| byte.is_ascii_hexdigit())
            && LAYER.iter().any(|word| what.starts_with(word))
    });
    let is_buildkit = trimmed.starts_with('#') && trimmed.contains(" sha256:");
    if is_layer || is_buildkit { Line::Likely(Kind::Installing) } else { Line::Kept }
}

const LAYER: [&str; 6] =
    ["Pulling", "Waiting", "Downloading", "Verifying", "Download complete", "Pull complete"];

/// Words and marks by which programs report errors.
const COMPLAINTS: [&str; 38] = [
    "error",
    "fail",
    "panic",
    "warn",
    "fatal",
    "exception",
    "traceback",
    "assert",
    "undefined",
    "cannot",
    "can't",
    "could not",
    "denied",
    "killed",
    "abort",
    "not ok",
    "not found",
    "missing",
    "unresolved",
    "unexpected",
    "conflict",
    "expected",
    "refused",
    "timeout",
    "timed out",
    "segmentation",
    "violat",
    "invalid",
    "skipp",
    "no such",
    "✗",
    "✕",
    "✖",
    "×",
    "❌",
    "⚠",
    "●",
    "^",
];

static COMPLAINING: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::builder().ascii_case_insensitive(true).build(COMPLAINTS).ok());

/// Whether a line reports an error. Without a searcher every line does, and is kept.
pub(super) fn complains(line: &str) -> bool {
    COMPLAINING.as_ref().is_none_or(|words| words.is_match(line))
}
