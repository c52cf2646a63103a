use std::path::PathBuf;

use zk_extensions::{Scaffold, ScaffoldLanguage};

use crate::app::Workplace;
use crate::commands::print_words;
use crate::exit::{Exit, Failure, Outcome};

/// Creates the files of a new extension in its own directory.
pub(super) fn create(
    work: &Workplace,
    name: &str,
    language: ScaffoldLanguage,
    dir: Option<PathBuf>,
) -> Outcome<Exit> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(Failure::usage("a name has the characters a-z, 0-9, `-` and `_`"));
    }
    let dir = work.cwd.join(dir.unwrap_or_else(|| PathBuf::from(name)));
    let Scaffold { files, command } = Scaffold::new(name, language);
    let failed = |doing: &str, path: &PathBuf, error: std::io::Error| {
        Failure::failed(format!("cannot {doing} {}: {error}", path.display()))
    };
    std::fs::create_dir_all(&dir).map_err(|error| failed("make", &dir, error))?;
    if let Some((file, _)) = files.iter().find(|(file, _)| dir.join(file).exists()) {
        return Err(Failure::usage(format!("{} exists already", dir.join(file).display())));
    }
    let mut lines = vec![format!("{}:", dir.display())];
    for (file, text) in &files {
        let path = dir.join(file);
        std::fs::write(&path, text).map_err(|error| failed("write", &path, error))?;
        lines.push(format!("  {file}"));
    }
    let [program, script] = command;
    let script = dir.join(script);
    lines.push(format!("`zk ext test -- {program} {}` tries it", script.display()));
    lines.push(format!("`zk ext add {name} -- {program} {}` adds it", script.display()));
    print_words(&work.machine, &lines)
}
