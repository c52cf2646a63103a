//! Prints the commands of the program, and the task of a command line: `cargo run -p zk-harness-args --example grammar`.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use clap::Parser;
use zk_args::cli::Cli;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for command in zk_args::help::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        println!("{:16} {about}", command.get_name());
    }
    let request = Cli::try_parse_from(["zk", "-p", "--model", "haiku", "hello"])?.into_request()?;
    println!("{request:#?}");
    Ok(())
}
