//! zk at work: a scripted model repairs a small project with the real loop, tools, files and test runs.
//!
//! `zk demo` shows the same in the whole program; this is the part of it that builds in a fraction of the time.

#![expect(clippy::print_stdout, reason = "a front-end shows what happens")]
#![expect(clippy::disallowed_methods, reason = "a program reads its environment")]

use std::error::Error;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_agent::Agent;
use zk_core::kernel::Bus;
use zk_core::service::{Exec, ExecRequest, Exit, OutputStream};
use zk_exec::{Environment, LocalPlugin, WorkspaceFiles};
use zk_testkit::ScriptedProvider;
use zk_testkit::demo::{PROMPT, Project, TEST, repair};
use zk_tools::{ToolsOptions, ToolsPlugin};
use zk_view::{Call, CallState, Content, DiffLine, DiffReader, Form, Patch, ViewDriver};

/// Lines that are shown of an output.
const LINES: usize = 6;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let is_terminal = std::io::stdout().is_terminal();
    let paint = Paint(is_terminal && std::env::var_os("NO_COLOR").is_none());
    let project = Project::unpack(false)?;
    paint.line(BOLD, "zk demo · scripted model: no LLM is asked");
    paint.line(
        DIM,
        "What the model says is scripted. The agent, the tools, the files and the test runs are real.",
    );

    let bus = Bus::new();
    let environment = Environment::filtered(std::env::vars_os());
    bus.install(&LocalPlugin::new(environment, WorkspaceFiles::new([project.dir()])?))?;
    bus.install(&ToolsPlugin::new(ToolsOptions::default()))?;
    let view = ViewDriver::new();
    bus.install(&view)?;
    let pace = is_terminal.then_some(Duration::from_millis(20));
    let agent = Agent::builder(Arc::new(ScriptedProvider::new(repair(pace))))
        .bus(bus.clone())
        .model_id("scripted")
        .cwd(project.dir())
        // The project is a copy in a directory of its own: nothing needs to be asked.
        .unguarded()
        .build()?;

    let screen = tokio::spawn(show(view, paint));
    let run = agent.run(PROMPT)?;
    let handle = run.handle();
    let mut ended = std::pin::pin!(run.wait());
    let outcome = tokio::select! {
        outcome = &mut ended => outcome,
        pressed = tokio::signal::ctrl_c() => {
            pressed?;
            handle.abort();
            ended.await
        }
    };
    let passes = tests_pass(&bus, &project).await;
    agent.close().await;
    bus.close().await;
    screen.await?;
    outcome.result?;
    Ok(if passes {
        paint.line(GREEN, "checked again without the agent: the project's tests pass");
        println!("\nNext: `cargo install --path crates/zk-cli`, then `zk` in a project of yours.");
        ExitCode::SUCCESS
    } else {
        paint.line(RED, "the project's tests do not pass: the demo failed");
        ExitCode::FAILURE
    })
}

/// Whether the project's tests pass, asked of the tests and not of the model.
async fn tests_pass(bus: &Bus, project: &Project) -> bool {
    let Some(exec) = bus.service::<dyn Exec>() else { return false };
    let mut ignored = |_: OutputStream, _: &[u8]| ();
    let request = ExecRequest::shell(TEST, project.dir());
    let ended = exec.run(request, &mut ignored, &CancellationToken::new()).await;
    ended.is_ok_and(|outcome| outcome.exit == Exit::Code(0))
}

/// Shows each part of the conversation once it is complete, until the bus is closed.
async fn show(view: ViewDriver, paint: Paint) {
    let mut reader = view.reader();
    while let Some(patches) = reader.next().await {
        for patch in patches {
            let (Patch::Open { block } | Patch::Close { block }) = patch else { continue };
            match &block.content {
                Content::User { text, .. } => paint.line(BOLD, &format!("› {text}")),
                Content::Answer { text, .. } if block.closed => println!("{text}"),
                Content::Call(call) if block.closed => paint.call(call),
                Content::End(end) => paint.line(DIM, &format!("{} turns", end.turns)),
                _ => {}
            }
        }
    }
}

const BOLD: u8 = 1;
const DIM: u8 = 2;
const RED: u8 = 31;
const GREEN: u8 = 32;

/// Prints lines, coloured where somebody sees colours.
#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn line(self, style: u8, text: &str) {
        if self.0 {
            println!("\x1b[{style}m{text}\x1b[0m");
        } else {
            println!("{text}");
        }
    }

    /// A tool call: what it does, how it ended, and what of its result says most.
    fn call(self, call: &Call) {
        println!("● {}", call.headline());
        let (mark, style) = if call.state == CallState::Done { ("✓", GREEN) } else { ("✗", RED) };
        let Some(body) = &call.body else { return self.line(style, &format!("  {mark}")) };
        match &body.form {
            Form::Line => body.lines.iter().for_each(|line| self.line(style, &format!("  {mark} {line}"))),
            Form::Diff { added, removed, .. } => {
                self.line(style, &format!("  {mark} +{added} -{removed}"));
                let mut reader = DiffReader::default();
                for line in &body.lines {
                    match reader.line(line.as_str()) {
                        DiffLine::Added { number, text } => {
                            self.line(GREEN, &format!("  {number:>4} +{text}"))
                        }
                        DiffLine::Removed { number, text } => {
                            self.line(RED, &format!("  {number:>4} -{text}"))
                        }
                        DiffLine::Hunk(_) | DiffLine::Header(_) | DiffLine::Kept { .. } => {}
                    }
                }
            }
            form => {
                self.line(style, &format!("  {mark} {} lines", body.total_lines));
                let shown = if matches!(form, Form::Command { .. }) { LINES } else { 0 };
                let skipped = body.lines.len().saturating_sub(shown);
                body.lines.iter().skip(skipped).for_each(|line| self.line(DIM, &format!("    {line}")));
            }
        }
    }
}
