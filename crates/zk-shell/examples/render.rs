//! Renders output as a terminal shows it.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

fn main() {
    let output = b"building\r\n 10 %\r 55 %\r100 %\r\n\x1b[32mdone\x1b[0m\r\n";
    let lines = zk_shell::render_output(output, (80, 24));
    lines.iter().for_each(|line| println!("{line}"));
    assert_eq!(lines, ["building", "100 %", "done"]);
}
