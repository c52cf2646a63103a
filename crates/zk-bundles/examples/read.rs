//! Prints what the plugin in a directory brings. Nothing of it runs.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;
use std::path::PathBuf;

use zk_bundles::{Bundle, Tree};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    let tree = Tree::read_dir(&dir, &zk_exec::LocalHostFiles::new())?;
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let bundle = match Bundle::read(&tree, &name) {
        Ok(bundle) => bundle,
        Err(error) => {
            println!("{}: {error}", dir.display());
            return Ok(());
        }
    };
    println!("{} ({})", bundle.name(), bundle.digest);
    for command in &bundle.commands {
        println!("command /{}", command.name);
    }
    for server in &bundle.servers {
        println!("server {}", server.name);
    }
    for part in &bundle.unserved {
        println!("not served: {part}");
    }
    Ok(())
}
