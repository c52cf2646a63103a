//! Harmless settings of a repository: those that start no program.

/// Harmless keys of each section, in lower case. The judge's list is shorter, since git may also write or
/// read elsewhere with some of these.
const HARMLESS: [(&str, &str); 18] = [
    (
        "core",
        "abbrev autocrlf bare compression eol filemode ignorecase logallrefupdates longpaths precomposeunicode quotepath \
         repositoryformatversion safecrlf sharedrepository sparsecheckout sparsecheckoutcone symlinks worktree",
    ),
    ("extensions", "noop objectformat partialclone preciousobjects refstorage worktreeconfig"),
    ("remote", "fetch gh-resolved mirror partialclonefilter promisor prune pushurl tagopt url"),
    ("branch", "autosetupmerge description merge pushremote rebase remote vscode-merge-base"),
    ("submodule", "active branch fetchrecursesubmodules ignore recurse url"),
    ("user", "email name"),
    ("pull", "ff rebase"),
    ("push", "autosetupremote default followtags"),
    ("fetch", "parallel prune prunetags"),
    ("merge", "conflictstyle ff log renames"),
    ("rebase", "autosquash autostash"),
    ("init", "defaultbranch"),
    ("index", "sparse version"),
    ("gc", "auto"),
    ("advice", "detachedhead"),
    ("color", "ui"),
    ("commit", "verbose"),
    ("maintenance", "auto"),
];

/// Settings of a file, split into harmless and other ones.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SplitSettings {
    /// Text of a file with the harmless settings.
    pub(super) kept: String,
    /// Names of the other settings, as `section.key`, or lines that cannot be parsed.
    pub(super) others: Vec<String>,
}

/// Splits the settings of a git configuration file. A line in a form that git itself would not write is not
/// harmless.
pub(super) fn split_settings(text: &str) -> SplitSettings {
    let mut sorted = SplitSettings::default();
    let mut section: Option<Section<'_>> = None;
    let mut goes_on = false;
    for line in text.lines() {
        let (bare, is_rest) = (line.trim(), goes_on);
        goes_on = line.ends_with('\\');
        if is_rest || goes_on {
            sorted.others.push(shorten(bare));
            continue;
        }
        if bare.is_empty() || bare.starts_with(['#', ';']) {
            continue;
        }
        if bare.starts_with('[') {
            section = Section::of(bare);
            match &section {
                // The section header is written with its first harmless key.
                Some(_) => {}
                None => sorted.others.push(shorten(bare)),
            }
            continue;
        }
        match section.as_mut() {
            Some(section) => section.sort_key(bare, &mut sorted),
            None => sorted.others.push(shorten(bare)),
        }
    }
    sorted
}

/// Section whose header has the plain form.
struct Section<'a> {
    header: &'a str,
    name: String,
    is_written: bool,
}

impl<'a> Section<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let inner = line.strip_prefix('[')?.strip_suffix(']')?;
        let (name, sub) = inner.split_once(' ').map_or((inner, None), |(name, sub)| (name, Some(sub)));
        let is_name =
            !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '-');
        let is_sub = sub.is_none_or(|sub| {
            let quoted = sub.trim_start().strip_prefix('"').and_then(|sub| sub.strip_suffix('"'));
            quoted.is_some_and(|sub| !sub.contains(['"', '\\']) && !sub.chars().any(char::is_control))
        });
        let name = name.to_ascii_lowercase();
        (is_name && is_sub).then_some(Self { header: line, name, is_written: false })
    }

    fn sort_key(&mut self, line: &str, into: &mut SplitSettings) {
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let key = key.trim().to_ascii_lowercase();
        let known = HARMLESS.iter().find(|(name, _)| *name == self.name);
        let is_known = known.is_some_and(|(_, keys)| keys.split_whitespace().any(|known| known == key));
        // `ext::` and similar addresses name a program, also in the quoted form `ext":":`.
        let is_plain = !value.contains("::") && !value.contains(['"', '\\']);
        if !is_known || !is_plain || value.chars().any(|char| char.is_control() && char != '\t') {
            into.others.push(shorten(&format!("{}.{key}", self.name)));
            return;
        }
        if !self.is_written {
            into.kept.push_str(self.header);
            into.kept.push('\n');
            self.is_written = true;
        }
        into.kept.push('\t');
        into.kept.push_str(line);
        into.kept.push('\n');
    }
}

/// Shortens a name for a message to a person.
fn shorten(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    text.chars().filter(|char| !char.is_control()).take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote \"origin\"]\n\turl = https://example.org/a\n";

    #[test]
    fn settings_that_start_programs_are_told_from_the_rest() {
        assert_eq!(split_settings(PLAIN), SplitSettings { kept: PLAIN.to_owned(), others: Vec::new() });
        for (more, name) in [
            ("[core]\n\tfsmonitor = sh x\n", "core.fsmonitor"),
            ("[core]\n\thooksPath = x\n", "core.hookspath"),
            ("[CORE]\n\tSSHCommand = sh\n", "core.sshcommand"),
            ("[core] fsmonitor = sh x\n", "[core] fsmonitor = sh x"),
            ("[core]\n\tfile\\\nmode = x\n", "file\\"),
            ("[core]\n\tfilemode\n\tpager = x\n", "core.pager"),
            ("[diff]\n\texternal = sh\n", "diff.external"),
            ("[diff \"x\"]\n\ttextconv = sh\n", "diff.textconv"),
            ("[diff.x]\n\ttextconv = sh\n", "[diff.x]"),
            ("[filter \"x\"]\n\tclean = sh\n", "filter.clean"),
            ("[merge \"x\"]\n\tdriver = sh\n", "merge.driver"),
            ("[alias]\n\tx = !sh\n", "alias.x"),
            ("[include]\n\tpath = x\n", "include.path"),
            ("[includeIf \"gitdir:x\"]\n\tpath = x\n", "includeif.path"),
            ("[gpg]\n\tprogram = sh\n", "gpg.program"),
            ("[credential]\n\thelper = sh\n", "credential.helper"),
            ("[submodule \"x\"]\n\tupdate = !sh\n", "submodule.update"),
            ("[remote \"x\"]\n\turl = ext::sh\n", "remote.url"),
            ("[remote \"x\"]\n\turl = ext\":\":sh -c x\n", "remote.url"),
            ("[user]\n\tname = a\\tb\n", "user.name"),
            ("[remote \"x\"]\n\tuploadpack = sh\n", "remote.uploadpack"),
            ("[remote \"]\n[core\"]\n\tfsmonitor = x\n", "[remote \"]"),
            ("stray\n", "remote.stray"),
            ("\u{feff}[core]\n\tfilemode = x\n", "remote.\u{feff}[core]"),
        ] {
            let sorted = split_settings(&format!("{PLAIN}{more}"));
            assert!(sorted.others.iter().any(|other| other == name), "{more}: {sorted:?}");
            assert!(
                split_settings(&sorted.kept).others.is_empty() && sorted.kept.starts_with(PLAIN),
                "{more}: {sorted:?}"
            );
        }
    }
}
