//! Test of the guide for vendors: follows it in a copy of the checkout to add an unknown vendor.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::models;
use crate::run::Run;
use crate::workspace::{Workspace, names};

const GUIDE: &str = "docs/guide-provider.md";
/// Heading of the part that is followed.
const PART: &str = "## A vendor: one row and one proof";

/// Edit from the guide: rows to insert before the first line `end` after the line `after`; at the end of the
/// file if `end` is empty.
struct Edit {
    file: &'static str,
    after: &'static str,
    end: &'static str,
    rows: &'static str,
}

const EDITS: [Edit; 5] = [
    Edit {
        file: "crates/zk-providers/src/catalogue/profiles/table.rs",
        after: "pub const PROFILES",
        end: "];",
        rows: "    CompatProfile {
        name: Cow::Borrowed(\"brandnew\"),
        catalogue: Some(Cow::Borrowed(\"brandnew\")),
        max_tokens_field: Cow::Borrowed(\"max_completion_tokens\"),
        echo: REASONING_CONTENT,
        ..TOLERANT
    },
",
    },
    Edit {
        file: "crates/zk-providers/src/catalogue/vendors/table.rs",
        after: "pub const VENDORS",
        end: "];",
        rows: "    service(\"brandnew\", \"https://api.brandnew.example/v1\", &[\"BRANDNEW_API_KEY\"], VendorDialect::Chat(\"brandnew\"))
        .with_default_model(\"brandnew-large\"),
",
    },
    Edit {
        file: "crates/zk-providers/tests/it/vendors.rs",
        after: "fn rows()",
        end: "    ]",
        rows: "        row(
            \"brandnew\",
            \"brandnew-large\",
            Synthetic(thinks_in(\"reasoning_content\")),
            json!({\"max_completion_tokens\": 4096}),
            json!({\"reasoning_content\": \"…\"}),
        ),
",
    },
    Edit { file: models::PROVIDERS_FILE, after: "# ", end: "", rows: "brandnew\tbrandnew\n" },
    Edit {
        file: models::CORRECTIONS,
        after: "const CORRECTIONS",
        end: "];",
        rows: "    Correction {
        provider: \"brandnew\",
        id: \"brandnew-large\",
        change: Change::Add(NewModel {
            window: 200_000,
            max_output: 32_000,
            price: [\"1\", \"4\", \"0.1\", \"0\"],
            vision: false,
            thinking: \"none\",
            efforts: \"-\",
        }),
        why: \"the catalogue does not have it\",
    },
",
    },
];

/// Row that `Change::Add` generates, for a checkout without a catalogue beside it.
const MODEL: &str = "brandnew\tbrandnew-large\t200000\t32000\t1\t4\t0.1\t0\t-\tno\tnone\t-\t-\n";

/// Lines that the guide has a stranger write.
pub(crate) fn lines() -> usize {
    EDITS.iter().map(|edit| edit.rows.lines().count()).sum()
}

/// Adds the vendor to a copy, and runs the guide's commands there.
///
/// # Errors
/// When the guide does not name an edited file or show its rows, or when a command fails.
pub(crate) fn follow(workspace: &Workspace) -> Result<()> {
    let (copy, target) =
        (workspace.root().join("target/vendor-guide"), workspace.root().join("target/scaffold/target"));
    let texts = workspace.texts()?;
    let guide = texts.iter().find(|text| text.path == GUIDE).context("the guide is not there")?;
    let part = guide.text.split(PART).nth(1).with_context(|| format!("{GUIDE} has no part `{PART}`"))?;
    let part = part.split("\n## ").next().unwrap_or_default();
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    for text in &texts {
        let path = copy.join(&text.path);
        fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
        fs::write(path, &text.text)?;
    }
    for edit in EDITS {
        ensure!(
            part.contains(&format!("](../{})", edit.file)),
            "{GUIDE}: `{PART}` does not name {}",
            edit.file
        );
        let is_shown = without_blanks(part).contains(&without_blanks(edit.rows));
        ensure!(is_shown, "{GUIDE}: `{PART}` does not show the rows for {}:\n{}", edit.file, edit.rows);
        let path = copy.join(edit.file);
        fs::write(&path, insert(&fs::read_to_string(&path)?, &edit)?)?;
    }
    let cargo = |args: &[&str]| Run::cargo(args, &copy).env("CARGO_TARGET_DIR", &target.to_string_lossy());
    cargo(&["fmt", "--all"]).wait()?;
    let catalogue = workspace.root().join(models::SOURCE);
    if catalogue.is_file() {
        let from = catalogue.to_string_lossy();
        cargo(&["run", "--quiet", "-p", "xtask", "--", "models", "--from", &from]).wait()?;
    } else {
        add_model(&copy.join(models::TABLE))?;
    }
    let table = fs::read_to_string(copy.join(models::TABLE))?;
    ensure!(table.contains(MODEL), "{} has no row of the model that was added", models::TABLE);
    cargo(&["run", "--quiet", "-p", "xtask", "--", "tidy"]).wait()?;
    let providers = names::package("zk-providers");
    cargo(&["test", "--quiet", "-p", &providers, "--test", "it", "vendor"]).wait()?;
    cargo(&["test", "--quiet", "-p", &providers, "--lib", "catalogue::"]).wait()?;
    fs::remove_dir_all(&copy)?;
    Ok(())
}

/// Text without the differences that a formatter makes.
fn without_blanks(text: &str) -> String {
    text.chars().filter(|char| !char.is_whitespace()).collect()
}

fn insert(text: &str, edit: &Edit) -> Result<String> {
    let after = text.find(edit.after).with_context(|| format!("{} has no `{}`", edit.file, edit.after))?;
    if edit.end.is_empty() {
        return Ok([text, edit.rows].concat());
    }
    let (head, tail) = text.split_at(after);
    let end = format!("\n{}\n", edit.end);
    let at = tail.find(&end).with_context(|| format!("{}: `{}` does not end", edit.file, edit.after))?;
    let (inside, rest) = tail.split_at(at + 1);
    Ok([head, inside, edit.rows, rest].concat())
}

/// Inserts the model into the table, which is sorted by provider and id.
fn add_model(path: &Path) -> Result<()> {
    let text = fs::read_to_string(path)?;
    let is_before = |line: &&str| line.starts_with('#') || *line < MODEL;
    let before: String = text.split_inclusive('\n').take_while(is_before).collect();
    let after = text.split_at(before.len()).1;
    fs::write(path, [&before, MODEL, after].concat())?;
    Ok(())
}
