use std::fmt::Write as _;

use anyhow::{Context, Result};

use crate::models::TABLE;
use crate::workspace::Text;

/// Page of the models that zk's own table knows, by provider.
pub(super) fn page(texts: &[Text]) -> Result<(String, String)> {
    let table =
        texts.iter().find(|text| text.path == TABLE).with_context(|| format!("{TABLE} is missing"))?;
    let mut page = format!(
        "# Models\n\n{}\n",
        "Models that zk's own table knows. Servers list more, and settings say what is wrong here: [the program](../program.md#providers).\n\
         Prices are US dollars for a million tokens, in its lowest tier where the length counts; windows are tokens. Generated from the\n\
         table by `cargo xtask docs`; do not edit."
    );
    let mut provider = "";
    for line in table.text.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.split('\t').collect();
        let [of, id, window, output, price_in, price_out, cache, _, _, vision, thinking, efforts, end] =
            cells.as_slice()
        else {
            anyhow::bail!("{TABLE}: a row without thirteen cells: {line}");
        };
        if *of != provider {
            provider = of;
            write!(
                page,
                "\n## {of}\n\n| model | window | output | in | out | cached | images | thinking | until |\n|---|---|---|---|---|---|---|---|---|\n"
            )?;
        }
        let thinking = if *efforts == "-" {
            (*thinking).to_owned()
        } else {
            format!("{thinking}: {}", efforts.replace(',', " "))
        };
        writeln!(
            page,
            "| `{id}` | {window} | {output} | {price_in} | {price_out} | {cache} | {vision} | {thinking} | {end} |"
        )?;
    }
    Ok(("docs/reference/models.md".to_owned(), page))
}
