//! Shape of the crates: lines, import cycles, folders, structs and comments.

mod graph;
mod module;
#[cfg(test)]
mod tests;

use anyhow::Result;

use crate::tidy::openings::openings;
use crate::workspace::{Package, Text, Workspace};
use graph::Graph;
use module::Module;

/// Shape of one crate, without its tests.
pub(crate) struct CrateShape {
    /// Folder of the crate.
    pub(crate) name: String,
    pub(crate) lines: usize,
    /// Cycles of files that import each other, the largest first.
    pub(crate) circles: Vec<Vec<String>>,
    /// Folders with their number of modules, the fullest first.
    pub(crate) folders: Vec<(String, usize)>,
    /// Files with their number of lines, the longest first.
    pub(crate) files: Vec<(String, usize)>,
    /// Structs as `FILE: NAME` with their number of fields, the largest first.
    pub(crate) structs: Vec<(String, usize)>,
}

/// Shapes of all packages. Files with syntax errors are skipped, since the compiler reports them.
pub(crate) fn shapes(packages: &[Package], texts: &[Text]) -> Vec<CrateShape> {
    packages.iter().map(|package| shape(package, texts)).collect()
}

fn shape(package: &Package, texts: &[Text]) -> CrateShape {
    let src = format!("{}/src/", package.dir);
    let code = texts.iter().filter_map(|text| Some((text, text.path.strip_prefix(&src)?)));
    let modules: Vec<Module> = code
        .filter(|(_, inside)| is_code(inside))
        .filter_map(|(text, inside)| Module::parse(&text.path, inside, &text.text).ok())
        .collect();
    let circles = Graph::new(&modules).circles();
    let circles = circles.into_iter().map(|files| files.into_iter().map(str::to_owned).collect()).collect();
    let mut folders = std::collections::BTreeMap::<String, usize>::new();
    let mut structs = Vec::new();
    for module in &modules {
        if let Some((_, above)) = module.path.split_last() {
            *folders.entry(format!("{src}{}", above.join("/"))).or_default() += 1;
        }
        structs.extend(
            module.structs.iter().map(|(name, fields)| (format!("{}: {name}", module.file), *fields)),
        );
    }
    CrateShape {
        name: package.folder().to_owned(),
        lines: modules.iter().map(|module| module.lines).sum(),
        circles,
        folders: largest_first(folders.into_iter().collect()),
        files: largest_first(modules.iter().map(|module| (module.file.clone(), module.lines)).collect()),
        structs: largest_first(structs),
    }
}

/// Whether a file below `src/` is shipped code.
fn is_code(inside: &str) -> bool {
    let is_test = inside.ends_with("tests.rs") || inside.contains("tests/");
    inside.ends_with(".rs") && !is_test
}

fn largest_first(mut all: Vec<(String, usize)>) -> Vec<(String, usize)> {
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all
}

/// Number of comments that begin with a refused word, and of all comments.
fn weak_openings(texts: &[Text]) -> (usize, usize) {
    let all: Vec<_> = texts.iter().flat_map(openings).collect();
    (all.iter().filter(|(_, weak)| weak.is_some()).count(), all.len())
}

/// Number of lines of the program that no subcommand has for itself.
fn outside_of_commands(shapes: &[CrateShape]) -> usize {
    let program = shapes.iter().filter(|shape| shape.name == "zk-cli").flat_map(|shape| &shape.files);
    program.filter(|(file, _)| !file.contains("/src/commands/")).map(|(_, lines)| lines).sum()
}

/// Prints the figures of all crates.
///
/// # Errors
/// When a file cannot be read.
pub(crate) fn print(workspace: &Workspace) -> Result<()> {
    let texts = workspace.texts()?;
    let shapes = shapes(&workspace.packages()?, &texts);
    println!("{:<15} {:>7} {:>6} {:>7} {:>8}  circles", "crate", "lines", "files", "longest", "a folder");
    for shape in &shapes {
        let circles: Vec<String> = shape.circles.iter().map(|files| files.len().to_string()).collect();
        println!(
            "{:<15} {:>7} {:>6} {:>7} {:>8}  {}",
            shape.name,
            shape.lines,
            shape.files.len(),
            shape.files.first().map_or(0, |file| file.1),
            shape.folders.first().map_or(0, |folder| folder.1),
            circles.join(" "),
        );
    }
    let mut files: Vec<usize> =
        shapes.iter().flat_map(|shape| shape.files.iter().map(|file| file.1)).collect();
    files.sort_unstable();
    let median = files.get(files.len() / 2).copied().unwrap_or_default();
    println!("\n{} files, {} lines, median file {median} lines", files.len(), files.iter().sum::<usize>());
    let (weak, comments) = weak_openings(&texts);
    let share = 100.0 * weak as f64 / comments.max(1) as f64;
    println!("{weak} of {comments} comments begin with a weak word ({share:.1} %)");
    println!("{} lines of zk-cli outside of its commands", outside_of_commands(&shapes));
    let circles = shapes.iter().flat_map(|shape| &shape.circles).filter(|files| files.len() > 3);
    for files in circles {
        println!("\na circle of {} files:\n  {}", files.len(), files.join("\n  "));
    }
    let structs = largest_first(shapes.iter().flat_map(|shape| shape.structs.iter().cloned()).collect());
    println!("\nlargest structs:");
    for (name, fields) in structs.iter().take(5) {
        println!("  {fields} fields  {name}");
    }
    Ok(())
}
