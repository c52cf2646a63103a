//! Prints the project instructions that hold in the current directory.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

fn main() -> std::io::Result<()> {
    let cwd = std::env::current_dir()?;
    let files = zk_exec::LocalHostFiles::new();
    let found = zk_skills::instructions(&cwd, &zk_skills::project(&cwd, &files).root, &files);
    for file in &found.files {
        println!("{}\n{}\n", file.path.display(), file.text);
    }
    for skipped in &found.skipped {
        println!("not read: {}: {}", skipped.path.display(), skipped.why);
    }
    Ok(())
}
