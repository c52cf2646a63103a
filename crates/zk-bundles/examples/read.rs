//! Prints what the plugin in a directory brings, or what one of its own does. Nothing of it runs.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::path::PathBuf;

use zk_bundles::{Bundle, Tree};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let own = tempfile::tempdir()?;
    let dir = std::env::args_os().nth(1).map_or_else(|| own.path().join("greeter"), PathBuf::from);
    if dir.starts_with(own.path()) {
        std::fs::create_dir_all(dir.join("commands"))?;
        std::fs::write(dir.join("commands/greet.md"), "Say hello to $ARGUMENTS.\n")?;
    }
    let tree = Tree::read_dir(&dir, &zk_exec::LocalHostFiles::new())?;
    let bundle = Bundle::read(&tree, &dir.file_name().unwrap_or_default().to_string_lossy())?;
    println!("{} ({})", bundle.name(), bundle.digest);
    bundle.commands.iter().for_each(|command| println!("command /{}", command.name));
    bundle.servers.iter().for_each(|server| println!("server {}", server.name));
    bundle.unserved.iter().for_each(|part| println!("not served: {part}"));
    Ok(())
}
