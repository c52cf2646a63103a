//! Messages of two programs as lines, bounded in both directions.
#![expect(clippy::print_stdout, reason = "an example shows its messages")]

use zk_serve::{LineReader, LineWriter};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (ours, theirs) = tokio::io::duplex(64);
    let writer = LineWriter::new(ours);
    writer.send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#);
    writer.send(&"x".repeat(100));
    writer.send(r#"{"jsonrpc":"2.0","id":2,"method":"session/list"}"#);
    let mut lines = LineReader::new(theirs).limited_to(80);
    for _ in 0..3 {
        match lines.next().await {
            Ok(line) => println!("{}", line.unwrap_or_default()),
            Err(error) => println!("left out: {error}"),
        }
    }
    writer.close().await;
}
