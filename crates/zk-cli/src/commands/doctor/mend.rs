use std::io::IsTerminal;

use zk_core::service::visible_line;
use zk_exec::{StateFlaw, state_flaws};
use zk_settings::{FormerKey, dotted, renamed_key};
use zk_tui::term::print_stderr;

use super::findings::{Finding, warning};
use crate::app::{AppContext, Machine};
use crate::commands::config::SettingsFile;
use crate::commands::print_words as print;
use crate::exit::{Exit, Failure, Outcome};

/// Most flaws that are listed one by one.
const MAX_SHOWN: usize = 20;

/// Returns the flaws of zk's own files, such as wrong modes and leftovers. Copies of plugins and outputs of commands
/// are not checked.
fn flaws(machine: &Machine) -> Vec<StateFlaw> {
    let opaque: Vec<_> = machine.dirs.plugins().into_iter().chain(machine.dirs.outputs()).collect();
    match &machine.dirs.state {
        Some(state) => state_flaws(state, &machine.dirs.private(), &opaque),
        None => Vec::new(),
    }
}

/// Returns findings about zk's own files. A missing directory is not reported, since zk creates it when it is needed.
pub(super) fn state_findings(machine: &Machine) -> Vec<Finding> {
    let flaws: Vec<StateFlaw> = flaws(machine).into_iter().filter(|flaw| !flaw.is_absent()).collect();
    let mut told: Vec<Finding> =
        flaw_lines(&flaws).into_iter().map(|line| warning(format!("own files: {line}"))).collect();
    let mendable = flaws.iter().filter(|flaw| flaw.is_mendable()).count();
    if mendable > 0 {
        told.push(warning(format!(
            "own files: `zk doctor --fix` mends {mendable} of these, and asks before"
        )));
    }
    told
}

fn flaw_lines(flaws: &[StateFlaw]) -> Vec<String> {
    some_lines(flaws.iter().map(|flaw| visible_line(&flaw.to_string())))
}

/// The first lines of all, and how many more there are.
fn some_lines(all: impl ExactSizeIterator<Item = String>) -> Vec<String> {
    let more = all.len().saturating_sub(MAX_SHOWN);
    let rest = (more > 0).then(|| format!("and {more} more"));
    all.take(MAX_SHOWN).chain(rest).collect()
}

/// Returns findings about keys that files of settings set by former names.
pub(super) fn former_key_findings(former: &[FormerKey]) -> Vec<Finding> {
    let lines = former.iter().map(|key| {
        let (former, present) = (dotted(&key.former), dotted(&key.present));
        warning(format!("settings: {}: `{former}` is called `{present}` now", visible_line(&key.place)))
    });
    lines.collect()
}

/// Something that has one right state and is in another.
enum Mend {
    State(StateFlaw),
    /// A key of the person's settings with a former name.
    Rename(FormerKey),
}

impl Mend {
    fn line(&self) -> String {
        match self {
            Self::State(flaw) => visible_line(&flaw.to_string()),
            Self::Rename(key) => {
                let (former, present) = (dotted(&key.former), dotted(&key.present));
                visible_line(&format!("{}: rename `{former}` to `{present}`", key.place))
            }
        }
    }

    /// Mends it; the error names the file.
    fn apply(&self, settings: Option<&SettingsFile>) -> Result<(), String> {
        match self {
            Self::State(flaw) => flaw.mend().map_err(|error| format!("{}: {error}", flaw.path.display())),
            Self::Rename(key) => {
                settings.map_or(Ok(()), |file| rename(file, key).map_err(|failure| failure.message))
            }
        }
    }
}

/// Renames a key in a settings file; the value, its place and all comments stay.
fn rename(file: &SettingsFile, key: &FormerKey) -> Outcome<()> {
    let former: Vec<&str> = key.former.iter().map(String::as_str).collect();
    let present: Vec<&str> = key.present.iter().map(String::as_str).collect();
    file.change(|text| {
        renamed_key(text, &former, &present)
            .map_err(|error| Failure::failed(format!("{}: {error}", file.path().display())))
    })
}

/// Shows what can be mended, and mends it once the person agrees.
///
/// # Errors
/// If nobody can be asked and `--yes` is not there, or if something could not be mended.
pub(super) fn mend(app: &AppContext, is_agreed: bool) -> Outcome<()> {
    let machine = &app.work.machine;
    let (mendable, others): (Vec<_>, Vec<_>) = flaws(machine).into_iter().partition(StateFlaw::is_mendable);
    let settings = SettingsFile::of_person(machine).ok();
    let own = settings.as_ref().map(|file| file.path().display().to_string()).unwrap_or_default();
    let renames = app.settings.former_keys().iter().filter(|key| key.place == own).cloned();
    let mends: Vec<Mend> = mendable.into_iter().map(Mend::State).chain(renames.map(Mend::Rename)).collect();
    let mut lines = flaw_lines(&others);
    if mends.is_empty() {
        lines.push("There is nothing to mend.".to_owned());
        return print(machine, &lines).map(|_| ());
    }
    lines.extend(some_lines(mends.iter().map(Mend::line)));
    print(machine, &lines)?;
    if !is_agreed && !ask_to_mend(mends.len())? {
        return print(machine, &["Nothing was changed.".to_owned()]).map(|_| ());
    }
    let total = mends.len();
    let failed: Vec<String> = mends.iter().filter_map(|mend| mend.apply(settings.as_ref()).err()).collect();
    print(machine, &[format!("Mended {} of {total}.", total - failed.len())])?;
    match failed.first() {
        None => Ok(()),
        Some(first) => Err(Failure::new(Exit::Failed, format!("not mended: {}", visible_line(first)))),
    }
}

fn ask_to_mend(total: usize) -> Outcome<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::usage(
            "nobody can be asked here, so nothing was changed: `zk doctor --fix --yes` does what is shown",
        ));
    }
    print_stderr(&match total {
        1 => "Do this? [y/N]".to_owned(),
        all => format!("Do all {all} of these? [y/N]"),
    });
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(Failure::failed)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_former_key_is_told_and_renamed_in_its_file_and_nothing_else_changes() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("settings.toml");
        std::fs::write(&path, "# mine\n\n[tools]\n# long\nold = 9 # end\n").unwrap();
        let file = SettingsFile::for_test(&path, &temp.path().join("state"));
        let key = FormerKey {
            former: ["tools", "old"].map(str::to_owned).to_vec(),
            present: ["tools", "new"].map(str::to_owned).to_vec(),
            place: path.display().to_string(),
        };
        let told = former_key_findings(std::slice::from_ref(&key));
        assert!(told[0].text.contains("`tools.old` is called `tools.new` now"), "{}", told[0].text);
        let mend = Mend::Rename(key);
        assert!(mend.line().contains("rename `tools.old` to `tools.new`"), "{}", mend.line());
        mend.apply(Some(&file)).unwrap();
        let text = || std::fs::read_to_string(&path).unwrap();
        assert_eq!(text(), "# mine\n\n[tools]\n# long\nnew = 9 # end\n");
        mend.apply(Some(&file)).unwrap();
        assert_eq!(text(), "# mine\n\n[tools]\n# long\nnew = 9 # end\n");
        assert_eq!(temp.path().read_dir().unwrap().count(), 2, "the file and the directory of the lock");
    }
}
