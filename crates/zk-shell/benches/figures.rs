//! Figures of the shell beside the bare one, in one run: echo, throughput and memory, idle wake-ups, first prompt.
//!
//! `cargo bench -p zk-shell --bench figures`, on a quiet machine. It prints a table and fails where a bar is missed;
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
use std::time::{Duration, Instant};

use zk_exec::{PersonCommand, PersonTerminal};

#[path = "../examples/scripted_shell.rs"]
mod scripted_shell;

/// Variable by which the bench starts itself as the shell.
const CHILD_VARIABLE: &str = "ZK_SHELL_BENCH_CHILD";

const PROMPT: &[u8] = b"ready> ";

fn main() -> ExitCode {
    if std::env::var_os(CHILD_VARIABLE).is_some() {
        return scripted_shell::main();
    }
    // `cargo test --benches` only builds and starts it.
    if !std::env::args().any(|arg| arg == "--bench") {
        return ExitCode::SUCCESS;
    }
    let is_short = std::env::var("ZK_SHELL_BENCH").is_ok_and(|kind| kind == "short");
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(".bashrc"), "PS1='ready> '\nHISTFILE=\n").unwrap();
    let (keys, gigabyte_parts, idle, starts) =
        if is_short { (200, 1, Duration::from_secs(2), 3) } else { (3_000, 16, Duration::from_secs(60), 25) };
    let mut figures = Vec::new();
    echo(home.path(), keys, &mut figures);
    throughput(home.path(), gigabyte_parts, &mut figures);
    first_prompt(home.path(), starts, &mut figures);
    wake_ups(home.path(), idle, &mut figures);
    println!("{:<34}{:>12}{:>12}", "figure", "measured", "bar");
    let mut is_missed = false;
    for Figure { name, measured, bar, is_least } in figures {
        let is_met = if is_least { measured >= bar } else { measured <= bar };
        is_missed |= !is_met;
        println!("{name:<34}{measured:>12.3}{bar:>12.3}{}", if is_met { "" } else { "  missed" });
    }
    if is_missed && !is_short { ExitCode::FAILURE } else { ExitCode::SUCCESS }
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

    /// Reads until the output has this text.
    fn read_until(&mut self, text: &[u8]) {
        let mut buffer = [0; 65_536];
        while !self.seen.windows(text.len()).any(|part| part == text) {
            let read = self.handle.read(&mut buffer).unwrap();
            // Only the end of the output may hold the beginning of the text.
            let keep = self.seen.len().saturating_sub(text.len());
            self.seen.drain(..keep);
            self.seen.extend_from_slice(&buffer[..read]);
        }
        self.seen.clear();
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
        self.type_keys(b"exit\r");
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
fn echo(home: &Path, keys: usize, figures: &mut Vec<Figure>) {
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
    figures.push(figure_with_maximum(
        "echo over bare, p50, ms",
        percentile(&times[1], 0.5) - percentile(&times[0], 0.5),
        0.3,
    ));
    figures.push(figure_with_maximum(
        "echo over bare, p99, ms",
        percentile(&times[1], 0.99) - percentile(&times[0], 0.99),
        1.0,
    ));
    shells.into_iter().for_each(Shell::leave);
}

/// Time of a large output, for the bare shell and zk in turns, and peak memory of zk.
fn throughput(home: &Path, parts: usize, figures: &mut Vec<Figure>) {
    let line: String = (0..79).map(|n| char::from(b'!' + n)).chain(['\n']).collect();
    std::fs::write(home.join("large"), line.repeat((64 << 20) / 80)).unwrap();
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
    figures.push(Figure {
        name: "throughput of bare",
        measured: seconds[0] / seconds[1],
        bar: 0.9,
        is_least: true,
    });
    figures.push(figure_with_maximum("memory at its peak, MB", peak as f64 / 1024.0, 20.0));
}

/// Time to the first prompt, in milliseconds; the bare shell and zk take turns.
fn first_prompt(home: &Path, starts: usize, figures: &mut Vec<Figure>) {
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
    figures.push(figure_with_maximum(
        "first prompt over bare, p50, ms",
        percentile(&times[1], 0.5) - percentile(&times[0], 0.5),
        15.0,
    ));
}

/// Context switches of an idle shell of zk.
fn wake_ups(home: &Path, idle: Duration, figures: &mut Vec<Figure>) {
    let shell = Shell::start_at_prompt(home, true);
    // Work of the start has ended by then.
    std::thread::sleep(Duration::from_secs(1));
    let count = |shell: &Shell| shell.sum_status("voluntary_ctxt_switches:");
    let before = count(&shell);
    std::thread::sleep(idle);
    figures.push(figure_with_maximum("wake-ups while idle", (count(&shell) - before) as f64, 0.0));
    shell.leave();
}
