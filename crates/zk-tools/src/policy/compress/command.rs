//! Programs that a command line runs, as far as they tell which output is noise. A guess is enough: rules drop
//! only lines that are theirs without doubt.

/// Programs that run another program, which is named after them.
const WRAPPERS: [&str; 12] =
    ["env", "time", "nice", "nohup", "sudo", "command", "exec", "npx", "timeout", "stdbuf", "xvfb-run", "uv"];

/// Programs at the end of a pipe that pass the output on unchanged or cut.
const PASSING: [&str; 4] = ["cat", "tee", "head", "tail"];

/// Program and its first argument that is no option: `cargo test`, `git log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) program: String,
    pub(super) verb: String,
}

impl Run {
    pub(super) fn is(&self, program: &str, verbs: &[&str]) -> bool {
        self.program == program && (verbs.is_empty() || verbs.contains(&self.verb.as_str()))
    }
}

/// The programs whose output a command line prints; none where the model piped it through a filter itself.
pub(super) fn runs(command: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    for part in split(command, &["&&", "||", ";", "\n"]) {
        let mut stages = split(&part, &["|"]).into_iter();
        let Some(first) = stages.next() else { continue };
        let passes = stages
            .all(|stage| run_of_stage(&stage).is_some_and(|run| PASSING.contains(&run.program.as_str())));
        if !passes {
            return Vec::new();
        }
        runs.extend(run_of_stage(&first));
    }
    runs
}

/// Splits at separators that no quotes surround.
fn split(text: &str, separators: &[&str]) -> Vec<String> {
    let (mut parts, mut part, mut quote) = (Vec::new(), String::new(), None);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        match quote {
            None => {
                if let Some(separator) = separators.iter().find(|separator| rest.starts_with(**separator)) {
                    parts.push(std::mem::take(&mut part));
                    rest = rest.get(separator.len()..).unwrap_or_default();
                    continue;
                }
                if c == '\'' || c == '"' {
                    quote = Some(c);
                }
            }
            Some(open) if open == c => quote = None,
            Some(_) => {}
        }
        part.push(c);
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    parts.push(part);
    parts
}

fn run_of_stage(stage: &str) -> Option<Run> {
    let is_assignment = |word: &str| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    let mut words = stage.split_whitespace().skip_while(|word| is_assignment(word)).peekable();
    let mut program = words.next()?;
    while WRAPPERS.contains(&base(program)) {
        let is_word_of_it = |word: &&str| {
            word.starts_with('-')
                || is_assignment(word)
                || *word == "run"
                || word.starts_with(|c: char| c.is_ascii_digit())
        };
        while words.next_if(is_word_of_it).is_some() {}
        program = words.next()?;
    }
    let mut program = base(program).to_owned();
    // `python -m pytest` is pytest.
    if program.starts_with("python") && words.next_if_eq(&"-m").is_some() {
        program = words.next()?.to_owned();
    }
    let verb = words.find(|word| !word.starts_with(['-', '+']) && !word.starts_with('/')).unwrap_or_default();
    (program != "cd" && program != "export").then(|| Run { program, verb: verb.to_owned() })
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_behind_directories_variables_wrappers_and_harmless_pipes() {
        let told = |command: &str| {
            let runs = runs(command);
            runs.iter().map(|run| format!("{} {}", run.program, run.verb)).collect::<Vec<_>>().join(", ")
        };
        for (command, expected) in [
            ("cargo test -p x", "cargo test"),
            ("cd a && RUST_LOG=1 cargo --quiet test 2>&1 | tail -50", "cargo test"),
            ("timeout 60 env A=1 /usr/bin/make -j8 all; git status", "make all, git status"),
            ("python3 -m pytest -q tests", "pytest tests"),
            ("uv run pytest", "pytest "),
            ("npx jest --ci", "jest "),
            ("echo 'a | b && c'", "echo 'a"),
            ("cargo test | grep FAILED", ""),
            ("", ""),
        ] {
            assert_eq!(told(command), expected, "{command}");
        }
    }
}
