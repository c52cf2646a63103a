//! Figures of the shell beside the bare one, in one run: echo, throughput and memory, idle wake-ups, first prompt, and
//! the text about 1,000 commands for the model.
//!
//! `cargo bench -p zk-harness-shell --bench figures`, on a quiet machine. It prints a table and fails where a bar is missed;
//! `ZK_SHELL_BENCH=short` measures less and has no bars.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench prints its figures, and ends where it cannot measure"
)]

use std::fs::File;
use std::io::{Read, Write, stdin};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use memchr::memmem;
use zk_core::kernel::{BoxError, Bus, Cx};
use zk_core::service::{Command, CommandOutcome, ContextProducer, Redactor};
use zk_exec::{PersonCommand, PersonTerminal};

#[path = "../examples/scripted_shell.rs"]
#[expect(dead_code, reason = "the bench has a `main` of its own")]
mod scripted_shell;

/// Variable by which the bench starts itself as the shell.
const CHILD_VARIABLE: &str = "ZK_SHELL_BENCH_CHILD";

const PROMPT: &[u8] = b"ready> ";

fn main() -> ExitCode {
    if std::env::var_os(CHILD_VARIABLE).is_some() {
        return scripted_shell::run_shell(provide_measure);
    }
    // `cargo test --benches` only builds and starts it.
    if !std::env::args().any(|arg| arg == "--bench") {
        return ExitCode::SUCCESS;
    }
    let is_short = std::env::var("ZK_SHELL_BENCH").is_ok_and(|kind| kind == "short");
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(".bashrc"), "PS1='ready> '\nHISTFILE=\n").unwrap();
    let (keys, megabytes, idle, starts, deltas) = match is_short {
        true => (200, 8, Duration::from_secs(2), 3, 1),
        false => (3_000, 1_024, Duration::from_secs(60), 25, 7),
    };
    println!("{:<36}{:>12}{:>12}", "figure", "measured", "bar");
    let mut figures = Figures::default();
    echo(home.path(), keys, &mut figures);
    throughput(home.path(), megabytes, &mut figures);
    first_prompt(home.path(), starts, &mut figures);
    wake_ups(home.path(), idle, &mut figures);
    context_delta(home.path(), deltas, &mut figures);
    if figures.is_missed && !is_short { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Measured value, and its maximum or minimum as the bar.
struct Figure {
    name: &'static str,
    measured: f64,
    bar: f64,
    is_least: bool,
}

fn figure_with_maximum(name: &'static str, measured: f64, bar: f64) -> Figure {
    Figure { name, measured, bar, is_least: false }
}

/// Figures, each printed as soon as it is measured.
#[derive(Default)]
struct Figures {
    is_missed: bool,
}

impl Figures {
    fn push(&mut self, figure: &Figure) {
        let &Figure { name, measured, bar, is_least } = figure;
        let is_met = if is_least { measured >= bar } else { measured <= bar };
        self.is_missed |= !is_met;
        println!("{name:<36}{measured:>12.3}{bar:>12.3}{}", if is_met { "" } else { "  missed" });
    }
}

/// Shell on a terminal.
struct Shell {
    terminal: PersonTerminal,
    handle: File,
    seen: Vec<u8>,
}

impl Shell {
    fn start(home: &Path, with_zk: bool) -> Self {
        let command = if with_zk {
            PersonCommand::new(std::env::current_exe().unwrap(), home)
                .arg("/bin/bash")
                .env(CHILD_VARIABLE, "1")
        } else {
            PersonCommand::new("/bin/bash", home).arg("-i")
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let command = command
            .env("HOME", home)
            .env("PATH", path)
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8");
        let terminal = PersonTerminal::start(&command, stdin()).unwrap();
        let handle = terminal.handle().unwrap();
        Self { terminal, handle, seen: Vec::new() }
    }

    fn start_at_prompt(home: &Path, with_zk: bool) -> Self {
        let mut shell = Self::start(home, with_zk);
        shell.read_until(PROMPT);
        shell
    }

    fn type_keys(&mut self, keys: &[u8]) {
        self.handle.write_all(keys).unwrap();
    }

    /// Reads until the output has this text, and keeps what comes behind it.
    fn read_until(&mut self, text: &[u8]) {
        let mut buffer = [0; 65_536];
        loop {
            if let Some(at) = memmem::find(&self.seen, text) {
                self.seen.drain(..at + text.len());
                return;
            }
            // Only the end of the output may hold the beginning of the text.
            let keep = self.seen.len().saturating_sub(text.len());
            self.seen.drain(..keep);
            let read = self.read(&mut buffer);
            self.seen.extend_from_slice(&buffer[..read]);
        }
    }

    /// Reads output, and answers the question for the place of the cursor, as a terminal does.
    fn read(&mut self, buffer: &mut [u8]) -> usize {
        let read = self.handle.read(buffer).unwrap();
        assert!(read > 0, "the shell ended: {}", String::from_utf8_lossy(&self.seen));
        if memmem::find(&buffer[..read], b"\x1b[6n").is_some() {
            self.type_keys(b"\x1b[1;1R");
        }
        read
    }

    /// Reads the number behind this text, up to the next character that is none of a number.
    fn read_number(&mut self, label: &[u8]) -> f64 {
        self.read_until(label);
        let (mut number, mut byte) = (String::new(), [0]);
        loop {
            match self.seen.is_empty() {
                true => assert_eq!(self.handle.read(&mut byte).unwrap(), 1),
                false => byte[0] = self.seen.remove(0),
            }
            match byte[0] {
                digit @ (b'0'..=b'9' | b'.') => number.push(char::from(digit)),
                _ => return number.parse().unwrap(),
            }
        }
    }

    fn sum_status(&self, key: &str) -> u64 {
        let tasks = format!("/proc/{}/task", self.terminal.id());
        let mut sum = 0;
        for task in std::fs::read_dir(tasks).unwrap() {
            let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            let values = status
                .lines()
                .filter_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse::<u64>().ok());
            sum += values.sum::<u64>();
        }
        sum
    }

    fn peak_kb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.terminal.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.split_whitespace().next().unwrap().parse().unwrap()
    }

    fn leave(mut self) {
        // The line may have text.
        self.type_keys(b"\x15exit\r");
        // The output of a shell is read until its end.
        let mut rest = Vec::new();
        let _ = self.handle.read_to_end(&mut rest);
        self.terminal.wait().unwrap();
    }
}

fn percentile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

/// Time from a key to its echo, in milliseconds; the bare shell and zk take turns.
fn echo(home: &Path, keys: usize, figures: &mut Figures) {
    let mut shells = [Shell::start_at_prompt(home, false), Shell::start_at_prompt(home, true)];
    let mut times = [Vec::new(), Vec::new()];
    for key in 0..keys {
        for (shell, times) in shells.iter_mut().zip(&mut times) {
            if key % 40 == 39 {
                shell.type_keys(b"\r");
                shell.read_until(PROMPT);
            }
            let begun = Instant::now();
            shell.type_keys(b":");
            shell.read_until(b":");
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
    }
    times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    figures.push(&figure_with_maximum(
        "echo over bare, p50, ms",
        percentile(&times[1], 0.5) - percentile(&times[0], 0.5),
        0.3,
    ));
    figures.push(&figure_with_maximum(
        "echo over bare, p99, ms",
        percentile(&times[1], 0.99) - percentile(&times[0], 0.99),
        1.0,
    ));
    shells.into_iter().for_each(Shell::leave);
}

/// Time of a large output, for the bare shell and zk in turns, and peak memory of zk.
fn throughput(home: &Path, megabytes: usize, figures: &mut Figures) {
    let line: String = (0..79).map(|n| char::from(b'!' + n)).chain(['\n']).collect();
    std::fs::write(home.join("large"), line.repeat((8 << 20) / 80)).unwrap();
    let parts = megabytes / 8;
    let mut seconds = [0.0, 0.0];
    let mut peak = 0;
    for _ in 0..2 {
        for with_zk in [false, true] {
            let mut shell = Shell::start_at_prompt(home, with_zk);
            let begun = Instant::now();
            shell.type_keys(
                format!("for x in {{1..{parts}}}; do cat large; done; printf 'en%s' d-of-it\r").as_bytes(),
            );
            shell.read_until(b"end-of-it");
            seconds[usize::from(with_zk)] += begun.elapsed().as_secs_f64();
            if with_zk {
                peak = shell.peak_kb();
            }
            shell.leave();
        }
    }
    figures.push(&Figure {
        name: "throughput of bare",
        measured: seconds[0] / seconds[1],
        bar: 0.9,
        is_least: true,
    });
    figures.push(&figure_with_maximum("memory at its peak, MB", peak as f64 / 1024.0, 20.0));
}

/// Time to the first prompt, in milliseconds; the bare shell and zk take turns.
fn first_prompt(home: &Path, starts: usize, figures: &mut Figures) {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..starts {
        for with_zk in [false, true] {
            let begun = Instant::now();
            let shell = Shell::start_at_prompt(home, with_zk);
            times[usize::from(with_zk)].push(begun.elapsed().as_secs_f64() * 1e3);
            shell.leave();
        }
    }
    times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    figures.push(&figure_with_maximum(
        "first prompt over bare, p50, ms",
        percentile(&times[1], 0.5) - percentile(&times[0], 0.5),
        15.0,
    ));
}

/// Context switches of an idle shell of zk.
fn wake_ups(home: &Path, idle: Duration, figures: &mut Figures) {
    let shell = Shell::start_at_prompt(home, true);
    // Work of the start has ended by then.
    std::thread::sleep(Duration::from_secs(1));
    let count = |shell: &Shell| shell.sum_status("voluntary_ctxt_switches:");
    let before = count(&shell);
    std::thread::sleep(idle);
    figures.push(&figure_with_maximum("wake-ups while idle", (count(&shell) - before) as f64, 0.0));
    shell.leave();
}

/// Command by which the bench measures the context about commands.
const MEASURE: &str = "measure";

/// Adds the command that measures, and a redactor that knows secrets, to a conversation of the bench's shell.
fn provide_measure(bus: &Bus) -> Result<(), BoxError> {
    let scope = bus.scope("measure");
    let redactor = Redactor::new();
    (0..50).for_each(|n| redactor.learn(&format!("secret-of-the-bench-{n}")));
    scope.provide_service(Arc::new(redactor));
    scope.provide::<dyn Command>(MEASURE, Arc::new(Measure))?;
    Ok(())
}

/// Command that prints the time of the text about the commands since the last prompt.
struct Measure;

#[async_trait]
impl Command for Measure {
    fn name(&self) -> &'static str {
        MEASURE
    }

    fn help(&self) -> &'static str {
        "time of the text about new commands"
    }

    async fn run(&self, _: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let producer = cx.item::<dyn ContextProducer>("shell_events").ok_or("there is no shell")?;
        let begun = Instant::now();
        let text = producer.text(cx).await?.unwrap_or_default();
        let took = begun.elapsed().as_secs_f64() * 1e3;
        let is_whole = text.contains(" 900 before them are left out") && text.contains("line 40");
        Ok(CommandOutcome::Show(match is_whole {
            true => format!("delta-took={took:.3} ms"),
            false => format!("delta-took=9999 ms, since the text is not as expected: {text}"),
        }))
    }
}

/// Time of the text about 1,000 new commands, each with 40 lines of output, in milliseconds.
fn context_delta(home: &Path, rounds: usize, figures: &mut Figures) {
    let mut times = Vec::new();
    let mut shell = Shell::start_at_prompt(home, true);
    for _ in 0..rounds {
        for n in 0..1_000 {
            shell.type_keys(format!("printf 'line %s\\n' {{1..40}} # {n}\r").as_bytes());
            shell.read_until(b"line 40\r\n");
            shell.read_until(PROMPT);
        }
        // A key between prompt and line editor is text of the line.
        std::thread::sleep(Duration::from_millis(50));
        shell.type_keys(b"?");
        shell.read_until(b"Ask anything");
        shell.type_keys(format!("/{MEASURE}\r").as_bytes());
        times.push(shell.read_number(b"delta-took="));
        shell.read_until(PROMPT);
    }
    shell.leave();
    times.sort_by(f64::total_cmp);
    figures.push(&figure_with_maximum("context of 1,000 commands, p50, ms", percentile(&times, 0.5), 5.0));
}
