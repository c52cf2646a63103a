//! Measures the program from outside against a scripted server on this machine: `cargo bench -p zk-harness-cli --bench
//! figures`. Prints each figure beside its bar; asserts nothing. With `ZK_BESIDE=/path/to/another/zk` both programs
//! take turns, five times each, and the ratio of their medians is printed too. `ZK_PROGRAM=/path/to/zk` measures that
//! program instead of the one that was built. Words after `--` name the figures to measure, such as `stream`.

#![expect(clippy::print_stdout, reason = "its output is the result")]

mod child;
mod report;
mod server;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use child::{Child, Home};
use report::{Bar, Report, median, ms};
use server::{Reply, Server};

type Figure = fn(&mut Report) -> Result<()>;

/// Rounds of each figure when two programs are compared.
const ROUNDS: usize = 5;

fn main() -> Result<()> {
    let mut report = Report::default();
    let program = named_by("ZK_PROGRAM").unwrap_or_else(|| PathBuf::from(child::PROGRAM));
    let beside = named_by("ZK_BESIDE");
    let rounds = if beside.is_some() { ROUNDS } else { 1 };
    let named: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let figures: [(&str, Figure); 9] = [
        ("version", version),
        ("size", size),
        ("start", start),
        ("one_answer", one_answer),
        ("many_turns", many_turns),
        ("stream", stream),
        ("parallel_reads", parallel_reads),
        ("many_calls", many_calls),
        ("large_results", large_results),
    ];
    for (_, figure) in
        figures.into_iter().filter(|(name, _)| named.is_empty() || named.iter().any(|word| word == name))
    {
        for _ in 0..rounds {
            child::measure(program.clone());
            figure(&mut report)?;
            if let Some(other) = &beside {
                child::measure(other.clone());
                report.beside(figure)?;
            }
        }
    }
    print!("{report}");
    Ok(())
}

/// The program that a variable names.
#[expect(clippy::disallowed_methods, reason = "a benchmark is told by the environment what to measure")]
fn named_by(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}

fn version(report: &mut Report) -> Result<()> {
    let home = Home::new()?;
    let mut times = Vec::new();
    for _ in 0..40 {
        let begun = Instant::now();
        let ended = Child::start(&home, &["--version"])?.wait()?;
        times.push(begun.elapsed());
        ensure!(ended.success, "`zk --version` failed");
    }
    report.add("`zk --version`", Bar::at_most(5.0), "ms", ms(median(&mut times)));
    Ok(())
}

fn size(report: &mut Report) -> Result<()> {
    let bytes = std::fs::metadata(child::measured()).context("the program")?.len();
    report.add("stripped binary", Bar::at_most(20.0), "MB", bytes as f64 / 1e6);
    Ok(())
}

fn start(report: &mut Report) -> Result<()> {
    let mut times = Vec::new();
    for _ in 0..20 {
        let home = Home::new()?;
        let server = Server::start(vec![Reply::text("done")])?;
        let begun = Instant::now();
        let ended = Child::ask(&home, &server, &[])?.wait()?;
        ensure!(ended.success, "a run failed: {}", ended.stderr);
        let requests = server.requests();
        let first = requests.first().context("no request arrived")?;
        times.push(first.arrived - begun);
    }
    report.add(
        "process start → first request, session store on",
        Bar::at_most(12.0),
        "ms",
        ms(median(&mut times)),
    );
    Ok(())
}

fn one_answer(report: &mut Report) -> Result<()> {
    let home = Home::new()?;
    let server = Server::start(vec![Reply::text("done").held(Duration::from_millis(100))])?;
    let ended = Child::ask(&home, &server, &[])?.wait()?;
    ensure!(ended.success, "a run failed: {}", ended.stderr);
    report.add("peak memory for a one-answer run", Bar::at_most(16.0), "MB", ended.peak_mb);
    let requests = server.requests();
    let first = requests.first().context("no request arrived")?.prefix()?;
    report.add("system prompt and tool schemas", Bar::at_most(6.0), "KB", first.len() as f64 / 1024.0);
    Ok(())
}

fn many_turns(report: &mut Report) -> Result<()> {
    const TURNS: usize = 200;
    let home = Home::new()?;
    let mut replies: Vec<Reply> =
        (0..TURNS).map(|turn| Reply::call(turn, "shell", &serde_json::json!({"command": "true"}))).collect();
    replies.push(Reply::text("done"));
    let server = Server::start(replies)?;
    let ended = Child::ask(&home, &server, &[])?.wait()?;
    ensure!(ended.success, "a run failed: {}", ended.stderr);
    let mut gaps = server.gaps();
    ensure!(gaps.len() == TURNS, "{} of {TURNS} turns", gaps.len());
    let mut early: Vec<Duration> = gaps.iter().take(50).copied().collect();
    let mut late: Vec<Duration> = gaps.iter().rev().take(50).copied().collect();
    report.add("one more turn with one `true` shell call", Bar::at_most(4.0), "ms", ms(median(&mut gaps)));
    let drift = ms(median(&mut late)) - ms(median(&mut early));
    report.add("… the last 50 of 200 turns against the first 50", Bar::at_most(0.5), "ms more", drift);
    let requests = server.requests();
    let first = requests.first().context("no request arrived")?.prefix()?;
    let same = requests.iter().all(|request| request.prefix().is_ok_and(|prefix| prefix == first));
    report.add(
        "… requests with another system prompt or other tools",
        Bar::at_most(0.0),
        "",
        f64::from(u8::from(!same)),
    );
    Ok(())
}

fn stream(report: &mut Report) -> Result<()> {
    const DELTAS: usize = 100_000;
    let home = Home::new()?;
    let server = Server::start(vec![Reply::deltas(DELTAS, "twenty bytes of text")])?;
    let ended = Child::ask(&home, &server, &["--output-format", "stream-json"])?.wait()?;
    ensure!(ended.success, "a run failed: {}", ended.stderr);
    ensure!(ended.lines > DELTAS, "{} lines", ended.lines);
    let first = server.requests().first().context("no request arrived")?.arrived;
    let seconds = (ended.at - first).as_secs_f64();
    report.add(
        "a 2 MB answer in 100,000 deltas",
        Bar::at_least(400_000.0),
        "events/s",
        DELTAS as f64 / seconds,
    );
    Ok(())
}

fn parallel_reads(report: &mut Report) -> Result<()> {
    let mut times = Vec::new();
    for _ in 0..20 {
        let home = Home::new()?;
        let calls: Vec<_> = (0..20)
            .map(|number| {
                let path = format!("file-{number}.txt");
                home.write(&path, "a few\nsmall lines\n")?;
                Ok(("read_file", serde_json::json!({ "path": path })))
            })
            .collect::<Result<_>>()?;
        let server = Server::start(vec![Reply::calls(0, &calls), Reply::text("done")])?;
        let ended = Child::ask(&home, &server, &[])?.wait()?;
        ensure!(ended.success, "a run failed: {}", ended.stderr);
        times.extend(server.gaps());
    }
    report.add(
        "one step with 20 parallel small reads → next request",
        Bar::at_most(5.0),
        "ms",
        ms(median(&mut times)),
    );
    Ok(())
}

fn many_calls(report: &mut Report) -> Result<()> {
    const FEW: usize = 1000;
    const MANY: usize = 10_000;
    let time = |count: usize| -> Result<f64> {
        let home = Home::new()?;
        home.write("file.txt", "a line\n")?;
        let call = ("read_file", serde_json::json!({ "path": "file.txt" }));
        let server = Server::start(vec![Reply::calls(0, &vec![call; count]), Reply::text("done")])?;
        let ended = Child::ask(&home, &server, &[])?.wait()?;
        ensure!(ended.success, "a run failed: {}", ended.stderr);
        let mut gaps = server.gaps();
        ensure!(gaps.len() == 1, "{} steps", gaps.len());
        Ok(ms(median(&mut gaps)) / count as f64)
    };
    let (few, many) = (time(FEW)?, time(MANY)?);
    report.add("one of 10,000 calls in an answer", Bar::at_most(0.5), "ms", many);
    report.add("… against one of 1,000", Bar::at_most(1.5), "×", many / few);
    Ok(())
}

fn large_results(report: &mut Report) -> Result<()> {
    const STEPS: usize = 100;
    let home = Home::new()?;
    // The window holds all of it, so that nothing is counted exactly or left out.
    home.settings("[models.\"anthropic/claude-sonnet-4-5\"]\nwindow = 1000000\n")?;
    let mut replies = Vec::new();
    for step in 0..STEPS {
        let path = format!("large-{step}.txt");
        home.write(&path, &format!("{step}: {}\n", "x".repeat(76)).repeat(250))?;
        replies.push(Reply::call(step, "read_file", &serde_json::json!({ "path": path })));
    }
    replies.push(Reply::text("done"));
    let server = Server::start(replies)?;
    let ended = Child::ask(&home, &server, &[])?.wait()?;
    ensure!(ended.success, "a run failed: {}", ended.stderr);
    report.add("100 steps of 20 KB output each, peak memory", Bar::at_most(30.0), "MB", ended.peak_mb);
    let slope = report::slope(&server.gaps()) * STEPS as f64 * 1e3;
    report.add("… slope of the time for a turn", Bar::at_most(3.0), "ms per 100 turns", slope);
    Ok(())
}
