use anyhow::{Result, bail};

use super::git::Git;

/// File that gathers what changed, and the folder with a file for each change until then.
pub(super) const CHANGELOG: &str = "CHANGELOG.md";
pub(super) const CHANGES: &str = "changes";
/// File of that folder that says what the others are.
const ABOUT: &str = "changes/README.md";
/// Rest of a heading whose changes are in no release.
const UNRELEASED: &str = ", not released yet";

/// Files of changes in a commit.
pub(super) fn files(git: &Git<'_>, commit: &str) -> Result<Vec<String>> {
    let mut files = git.files(commit, CHANGES)?;
    files.retain(|path| path != ABOUT);
    Ok(files)
}

/// List of changes of the commit, with one section more. Reads the commit alone, so that it can be done again.
pub(super) fn gathered(git: &Git<'_>, commit: &str, version: &str, day: &str) -> Result<String> {
    let Some(list) = git.file(commit, CHANGELOG)? else { bail!("there is no {CHANGELOG}") };
    let mut new = Vec::new();
    for path in files(git, commit)? {
        let text = git.file(commit, &path)?.unwrap_or_default();
        new.push(text.trim_end().to_owned());
    }
    with_section(&list, &new, version, day)
}

/// List with the changes under the heading of the version: those that stand there as not released, then the new ones.
fn with_section(list: &str, new: &[String], version: &str, day: &str) -> Result<String> {
    if let Some(broken) = new.iter().find(|text| !text.starts_with("* ")) {
        bail!(
            "a file in {CHANGES}/ begins with `{}`: write `* **Subject**: change`",
            broken.lines().next().unwrap_or_default()
        );
    }
    let heading = format!("## {version}, {day}");
    let lines: Vec<&str> = list.lines().collect();
    let first = lines.iter().position(|line| line.starts_with("## ")).unwrap_or(lines.len());
    let (before, after) = lines.split_at(first);
    let mut out: Vec<&str> = before.to_vec();
    let waiting = after.first().is_some_and(|line| line.ends_with(UNRELEASED));
    if !waiting && new.is_empty() {
        bail!("nothing has changed since the last release: {CHANGES}/ is empty");
    }
    let rest = if waiting { after.get(1..).unwrap_or_default() } else { after };
    let next = rest.iter().position(|line| line.starts_with("## ")).unwrap_or(rest.len());
    let (own, older) = if waiting { rest.split_at(next) } else { rest.split_at(0) };
    out.extend([heading.as_str(), ""]);
    out.extend(own.iter().copied().skip_while(|line| line.is_empty()));
    while out.len() > first + 2 && out.last().is_some_and(|line| line.is_empty()) {
        out.pop();
    }
    out.extend(new.iter().map(String::as_str));
    if !older.is_empty() {
        out.push("");
        out.extend(older);
    }
    Ok(out.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_gathered_under_the_version() {
        let new = ["* **B**: two".to_owned()];
        for (list, new, expected) in [
            (
                "# C\n\n## 0.1.0, 2026-01-01\n\n* one\n",
                &new[..],
                "# C\n\n## 0.2.0, D\n\n* **B**: two\n\n## 0.1.0, 2026-01-01\n\n* one\n",
            ),
            (
                "# C\n\n## 0.1.0, not released yet\n\n* one\n",
                &new,
                "# C\n\n## 0.2.0, D\n\n* one\n* **B**: two\n",
            ),
            (
                "# C\n\n## 0.2.0, not released yet\n\n* one\n\n## 0.1.0, E\n\n* old\n",
                &[],
                "# C\n\n## 0.2.0, D\n\n* one\n\n## 0.1.0, E\n\n* old\n",
            ),
            ("# C\n", &new, "# C\n\n## 0.2.0, D\n\n* **B**: two\n"),
        ] {
            let list = if list.ends_with("C\n") { format!("{list}\n") } else { list.to_owned() };
            assert_eq!(with_section(&list, new, "0.2.0", "D").unwrap(), expected);
        }
        assert!(with_section("## 0.1.0, E\n\n* old\n", &[], "0.2.0", "D").is_err());
        assert!(with_section("", &["words".to_owned()], "0.2.0", "D").is_err());
    }
}
