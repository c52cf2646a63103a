//! Prints the reference pages of the program as one JSON object: the path of each, and its text.

fn main() {
    let pages = zk_cli::reference_pages();
    println!("{}", serde_json::json!(pages));
}
