use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use zk_permission::{Decision, JudgedProgram, Mode, Obstacle, Rules, Script};

use crate::support::{Setup, bash};
use crate::verdicts::rows;

/// Number of scripts in the full campaign; an ordinary test run uses a hundredth.
const FULL: usize = 30_000;

/// Programs that only write down how they were called.
const RECORDERS: [&str; 30] = [
    "ls", "cat", "grep", "git", "rm", "foo", "cargo", "sort", "head", "tail", "wc", "sed", "tee", "make",
    "npm", "python3", "curl", "cp", "mv", "mkdir", "touch", "awk", "rg", "uniq", "tr", "cut", "ssh",
    "docker", "sudo", "id",
];

/// Programs that start others.
const WRAPPERS: [&str; 8] = ["env", "nice", "timeout", "xargs", "find", "bash", "sh", "stdbuf"];

/// Commands that the shell carries out itself, and programs that cannot reach beyond the directory of the
/// test.
const BUILTINS: [&str; 9] = [":", "[", "command", "echo", "false", "printf", "pwd", "test", "true"];

const PIECES: [&str; 62] = [
    "ls",
    "cat",
    "grep",
    "git",
    "rm",
    "foo",
    "env",
    "nice",
    "timeout",
    "xargs",
    "find",
    "bash",
    "sh",
    "time",
    "command",
    "builtin",
    "echo",
    "printf",
    "true",
    "false",
    "-c",
    "-n",
    "-l",
    "-i",
    "-x",
    "-exec",
    "-I",
    "5",
    "1",
    "a",
    "b.txt",
    "A=b",
    "PATH=.",
    "{}",
    "';'",
    "\\;",
    "+",
    "--",
    "-",
    ".",
    "'ls; rm a'",
    "\"ls && git push\"",
    "'x y'",
    "''",
    "\\a",
    "&&",
    "||",
    ";",
    "|",
    "\n",
    "> out",
    "< in",
    "2>&1",
    ">> out",
    "2> err",
    "# rm",
    "push",
    "$(rm a)",
    "*",
    "&",
    "x=1",
    "-0",
];

struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["bin", "work"] {
            fs::create_dir(at(name)).unwrap();
        }
        let log = at("log");
        let recorder = format!(
            "#!/bin/sh\nr=${{0##*/}}\nfor a; do r=\"$r\u{1f}$a\"; done\nprintf '%s\\036' \"$r\" >> {}\n",
            log.display()
        );
        for name in RECORDERS {
            let path = at("bin").join(name);
            fs::write(&path, &recorder).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        for name in WRAPPERS {
            let real = ["/usr/bin", "/bin"]
                .map(|dir| Path::new(dir).join(name))
                .into_iter()
                .find(|path| path.exists());
            std::os::unix::fs::symlink(real.unwrap(), at("bin").join(name)).unwrap();
        }
        fs::write(at("work").join("in"), "one\ntwo\n").unwrap();
        Self { dir }
    }

    /// Started programs, and bash's own messages.
    fn run(&self, text: &str) -> (Vec<Vec<String>>, String) {
        let log = self.dir.path().join("log");
        fs::write(&log, "").unwrap();
        let ran = bash(text, &self.dir.path().join("work"), self.dir.path().join("bin").to_str().unwrap());
        let log = fs::read_to_string(&log).unwrap();
        let calls = log.split_terminator('\u{1e}');
        (calls.map(|call| call.split('\u{1f}').map(str::to_owned).collect()).collect(), ran.stderr)
    }
}

/// Whether everything that a text starts is harmless here, independent of the judge.
fn may_run(text: &str, programs: &[JudgedProgram]) -> bool {
    let known = |name: &String| {
        let all = RECORDERS.iter().chain(&WRAPPERS).chain(&BUILTINS);
        name == "time" || name == "builtin" || all.clone().any(|known| known == name)
    };
    let is_local = |text: &str| !text.contains("..") && !text.contains(" /") && !text.contains("PATH=/");
    is_local(text) && programs.iter().all(|program| program.argv.first().is_some_and(known))
}

fn is_judged(call: &[String], programs: &[JudgedProgram]) -> bool {
    let is_same = |judged: &String, called: &String| judged == called || judged.contains("{}");
    programs.iter().any(|program| {
        let before = program.argv.iter().take_while(|arg| !arg.contains(['*', '?'])).count();
        if before < program.argv.len() && program.has_more {
            return call.get(..before) == program.argv.get(..before);
        }
        let length_fits = if program.has_more {
            call.len() >= program.argv.len()
        } else {
            call.len() == program.argv.len()
        };
        // Names that `find -exec … +` found are put in one place.
        let is_found = program.argv.iter().any(|arg| arg == "{}");
        (length_fits || is_found)
            && program.argv.iter().zip(call).all(|(judged, called)| is_same(judged, called))
    })
}

fn check(scratch: &Scratch, setup: &Setup, text: &str) -> bool {
    let verdict = setup.command(text);
    let is_opaque = verdict.programs.iter().any(|program| program.is_opaque);
    let is_read_with_patterns = matches!(&Script::parse(text), Err(why) if matches!(why.what, Obstacle::Glob(_)))
        && verdict.decision == Decision::Allow;
    if is_opaque || (Script::parse(text).is_err() && !is_read_with_patterns) {
        assert_eq!(verdict.decision, Decision::Ask, "{text:?} may run what nobody judged");
        return false;
    }
    if !may_run(text, &verdict.programs) {
        return false;
    }
    let (calls, stderr) = scratch.run(text);
    assert!(!stderr.contains("syntax error") && !stderr.contains("unexpected"), "{text:?}: {stderr}");
    for call in &calls {
        assert!(
            is_judged(call, &verdict.programs),
            "{text:?} started {call:?}; judged: {:?}",
            verdict.programs
        );
    }
    true
}

/// Every started program was judged, unless the text was not understood or declared as opaque.
#[test]
#[expect(clippy::disallowed_methods, reason = "how a full campaign is asked for")]
fn every_program_that_runs_was_judged() {
    let (scratch, setup) = (Scratch::new(), Setup::new(Mode::Ask, Rules::new()));
    let runs: usize = match std::env::var("ZK_TRACE_CASES") {
        Ok(count) => count.parse().unwrap(),
        Err(_) => FULL / 100,
    };
    let mut random = fastrand::Rng::with_seed(2_026);
    let mut ran = 0;
    let mut tries = 0;
    while ran < runs {
        tries += 1;
        assert!(tries < runs * 500, "only {ran} of {tries} texts can be run");
        let text: Vec<&str> =
            (0..random.usize(1..12)).map(|_| PIECES[random.usize(..PIECES.len())]).collect();
        ran += usize::from(check(&scratch, &setup, &text.join(if random.u8(..8) == 0 { "" } else { " " })));
    }
}

#[test]
fn every_program_of_the_table_was_judged() {
    let (scratch, setup) = (Scratch::new(), Setup::new(Mode::Ask, Rules::new()));
    let mut random = fastrand::Rng::with_seed(7);
    let ran =
        rows().filter(|_| random.u8(..3) == 0).filter(|(_, _, text)| check(&scratch, &setup, text)).count();
    assert!(ran > 40, "{ran}");
}
