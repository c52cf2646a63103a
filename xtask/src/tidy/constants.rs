use super::{Findings, size};
use crate::workspace::Text;

/// Words, mostly superlatives, that name neither subject nor unit if they are a constant's whole name.
const BARE: [&str; 29] = [
    "BEST", "BIGGEST", "DEAREST", "DEEPEST", "EARLIEST", "FARTHEST", "FASTEST", "FEWEST", "FIRST",
    "FURTHEST", "GREATEST", "HIGHEST", "LARGEST", "LAST", "LATEST", "LEAST", "LONGEST", "LOWEST", "MAX",
    "MIN", "MOST", "NEAREST", "NEWEST", "OLDEST", "SHORTEST", "SHOWN", "SLOWEST", "SMALLEST", "WIDEST",
];

/// Refuses constants with such a name, since bytes, characters, seconds and ratios look alike where a constant
/// is used.
pub(super) fn check(file: &Text, findings: &mut Findings) {
    if !file.path.ends_with(".rs") || size::is_test(&file.path) {
        return;
    }
    for (number, line) in file.text.lines().enumerate() {
        if let Some(name) = constant_of(line).filter(|name| BARE.contains(name)) {
            let advice = "give its subject and unit, as `MAX_KEY_BYTES` and `KILL_WAIT` do";
            let message = format_args!("the constant `{name}` does not say of what: {advice}");
            findings.error(format_args!("{}:{}", file.path, number + 1), message);
        }
    }
}

/// Name of the constant or static that a line defines.
fn constant_of(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub") || word.ends_with(')'));
    words.next().filter(|word| matches!(*word, "const" | "static"))?;
    words.find(|word| *word != "mut")?.strip_suffix(':')
}
