use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

use super::{Decision, Layer, Rule, Rules, Subject};
use crate::shell::{Script, quote_all};

/// The largest manifest that is compared, in bytes.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// Maximum number of parent directories searched for manifests.
const MAX_LEVELS: usize = 16;

/// Options that only change a command's verbosity.
const LOUDNESS: [&str; 4] = ["-q", "-v", "--quiet", "--verbose"];

/// Programs that run tests with any arguments.
const TEST_RUNNERS: [&str; 3] = ["pytest", "tox", "nox"];

/// Commands that run code of the project and are allowed without a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectCode {
    /// Program and first arguments; all arguments of a command that is bound to files.
    pub words: Vec<String>,
    /// Directory and manifests that an approval outside of a sandbox is bound to; `None` for an approval in the
    /// sandbox of commands.
    pub bound: Option<Bound>,
}

/// Directory and manifests that have to be as they were at the approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Directory in which the command runs.
    pub directory: PathBuf,
    /// Files that determine the executed code.
    pub manifests: Vec<Manifest>,
}

/// File that determines the executed code, in its approved state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The file, absolute.
    pub path: PathBuf,
    /// SHA-256 of its bytes, in hexadecimal; `None` if it was missing.
    pub hash: Option<String>,
}

/// Kinds of programs that run the code of a project.
struct Runner {
    programs: &'static [&'static str],
    /// Leading arguments that run project code, as lists of words; `*` is any name.
    forms: &'static [&'static [&'static str]],
    manifests: &'static [&'static str],
}

const NODE: &[&str] = &["package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", "bunfig.toml"];
const PYTHON: &[&str] =
    &["pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "pytest.ini", "conftest.py", "noxfile.py"];

const RUNNERS: &[Runner] = &[
    Runner {
        programs: &["npm", "pnpm", "yarn", "bun"],
        forms: &[&["run", "*"], &["run-script", "*"], &["test"], &["start"], &["build"], &["lint"]],
        manifests: NODE,
    },
    Runner {
        programs: &["cargo"],
        forms: &[
            &["test"],
            &["build"],
            &["check"],
            &["run"],
            &["clippy"],
            &["bench"],
            &["doc"],
            &["xtask"],
            &["nextest", "run"],
        ],
        manifests: &[
            "Cargo.toml",
            "build.rs",
            ".cargo/config.toml",
            ".cargo/config",
            "rust-toolchain.toml",
            "rust-toolchain",
        ],
    },
    Runner {
        programs: &["make", "gmake"],
        forms: &[&["*"], &[]],
        manifests: &["GNUmakefile", "makefile", "Makefile"],
    },
    Runner { programs: &["just"], forms: &[&["*"], &[]], manifests: &["justfile", "Justfile", ".justfile"] },
    Runner {
        programs: &["python", "python3"],
        forms: &[&["-m", "unittest"], &["-m", "pytest"], &["-m", "tox"], &["-m", "nox"]],
        manifests: PYTHON,
    },
    Runner { programs: &["pytest", "tox", "nox"], forms: &[&[]], manifests: PYTHON },
    Runner {
        programs: &["go"],
        forms: &[&["test"], &["build"], &["run"], &["vet"], &["generate"]],
        manifests: &["go.mod", "go.work"],
    },
    Runner {
        programs: &["gradle"],
        forms: &[&["*"]],
        manifests: &[
            "build.gradle",
            "build.gradle.kts",
            "settings.gradle",
            "settings.gradle.kts",
            "gradle.properties",
        ],
    },
    Runner { programs: &["mvn"], forms: &[&["*"]], manifests: &["pom.xml"] },
    Runner {
        programs: &["deno"],
        forms: &[&["task", "*"], &["test"]],
        manifests: &["deno.json", "deno.jsonc"],
    },
    Runner {
        programs: &["dotnet"],
        forms: &[&["test"], &["build"], &["run"]],
        manifests: &["Directory.Build.props", "Directory.Build.targets", "global.json"],
    },
    Runner { programs: &["rake"], forms: &[&["*"], &[]], manifests: &["Rakefile", "rakefile"] },
    Runner { programs: &["mix"], forms: &[&["test"], &["compile"]], manifests: &["mix.exs"] },
];

/// Whether a program runs project code.
pub(crate) fn is_runner(name: &str) -> bool {
    RUNNERS.iter().any(|runner| runner.programs.contains(&name))
}

/// Number of the command's first words that run the project's code, and the names of the manifests that
/// determine that code.
fn runner_form(argv: &[String]) -> Option<(usize, &'static [&'static str])> {
    let (name, args) = argv.split_first()?;
    let runner = RUNNERS.iter().find(|runner| runner.programs.contains(&name.as_str()))?;
    let is_name = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphanumeric())
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_:.".contains(&b))
    };
    let fits = |form: &&&[&str]| {
        args.len() >= form.len()
            && (!form.is_empty() || args.is_empty() || TEST_RUNNERS.contains(&name.as_str()))
            && form
                .iter()
                .zip(args)
                .all(|(form, word)| if *form == "*" { is_name(word) } else { form == word })
    };
    let form = runner.forms.iter().find(fits)?;
    Some((1 + form.len(), runner.manifests))
}

impl ProjectCode {
    /// Approval of commands with the same first words, as long as they run in the sandbox.
    pub(crate) fn in_sandbox(argv: &[String]) -> Option<Self> {
        let (count, _) = runner_form(argv)?;
        Some(Self { words: argv.get(..count)?.to_vec(), bound: None })
    }

    /// Approval, outside of the sandbox, of exactly this command, as long as the manifests are unchanged.
    pub(crate) fn bound(argv: &[String], directory: &Path, project: &Path) -> Option<Self> {
        let (count, names) = runner_form(argv)?;
        // Another option may lead to files without a binding, such as `--prefix` and `-C`.
        let is_known = |word: &String| !word.starts_with('-') || LOUDNESS.contains(&word.as_str());
        if !argv.get(count..)?.iter().take_while(|word| *word != "--").all(is_known) {
            return None;
        }
        if !directory.starts_with(project) {
            return None;
        }
        let places = directory.ancestors().take(MAX_LEVELS).take_while(|place| place.starts_with(project));
        let mut manifests = Vec::new();
        for place in places {
            for name in names {
                let path = place.join(name);
                manifests.push(Manifest { hash: hash_of(&path).ok()?, path });
            }
        }
        let is_any = manifests.iter().any(|manifest| manifest.hash.is_some());
        let bound = Bound { directory: directory.to_owned(), manifests };
        is_any.then_some(Self { words: argv.to_vec(), bound: Some(bound) })
    }

    /// Whether the manifests that the commands are bound to are unchanged.
    #[must_use]
    pub fn is_current(&self) -> bool {
        let is_same = |manifest: &Manifest| hash_of(&manifest.path).is_ok_and(|hash| hash == manifest.hash);
        self.bound.as_ref().is_none_or(|bound| bound.manifests.iter().all(is_same))
    }

    /// Whether the approval covers a command that runs in `directory`.
    pub(crate) fn matches(&self, argv: &[String], directory: &Path) -> bool {
        match &self.bound {
            Some(bound) => argv == self.words && directory == bound.directory,
            // A program alone, such as `make`, is not a prefix of its other uses.
            None if self.words.len() == 1 && !TEST_RUNNERS.contains(&self.command().as_str()) => {
                argv == self.words
            }
            None => argv.starts_with(&self.words),
        }
    }

    /// Names of the bound manifests that existed at the approval.
    #[must_use]
    pub fn manifest_names(&self) -> Vec<String> {
        let Some(bound) = &self.bound else { return Vec::new() };
        let there = bound.manifests.iter().filter(|manifest| manifest.hash.is_some());
        let name = |manifest: &Manifest| {
            let path = manifest.path.strip_prefix(&bound.directory).unwrap_or(&manifest.path);
            path.display().to_string()
        };
        there.map(name).collect()
    }

    /// The commands, as a person would type them.
    #[must_use]
    pub fn command(&self) -> String {
        quote_all(&self.words)
    }
}

impl Rule {
    /// A rule that allows commands which run the code of the project.
    #[must_use]
    pub fn project_code(layer: Layer, code: &ProjectCode) -> Self {
        let command = code.command();
        let text = match &code.bound {
            None => format!("{command} … (in the sandbox)"),
            Some(bound) => format!("{command} (in {}, as its files are now)", bound.directory.display()),
        };
        let subject = Subject::Code(code.clone());
        Self { layer, decision: Decision::Allow, text, subject, is_held: false }
    }

    /// Creates a rule that allows every call of these tools, or of all tools of `server` if given.
    #[must_use]
    pub fn tools(layer: Layer, server: Option<&str>, names: &[String]) -> Self {
        let text = match server {
            Some(server) => format!("tools of the MCP server {server} ({})", names.join(", ")),
            None => format!("tool({})", names.join(", ")),
        };
        let subject = Subject::Tools(names.to_vec());
        Self { layer, decision: Decision::Allow, text, subject, is_held: false }
    }

    /// The commands that run the project's code, of a rule that allows them.
    pub(crate) fn code(&self) -> Option<&ProjectCode> {
        if let Subject::Code(code) = &self.subject { Some(code) } else { None }
    }
}

impl Rules {
    /// Whether rules are bound to files, which have to be read to tell whether they still hold.
    pub(crate) fn has_file_bound_rules(&self) -> bool {
        self.rules.iter().any(|rule| rule.code().is_some())
    }

    /// Removes approvals bound to files that have changed.
    pub(crate) fn drop_outdated(&mut self) {
        self.rules.retain(|rule| rule.code().is_none_or(ProjectCode::is_current));
    }
}

/// Words of a text that is a single program with arguments: no other command, redirection or variable.
pub(crate) fn plain_command(text: &str) -> Option<Vec<String>> {
    let script = Script::parse(text).ok()?;
    let [command] = script.commands.as_slice() else { return None };
    let is_plain = command.redirects.is_empty() && command.assignments.is_empty();
    is_plain.then(|| command.words.clone())
}

/// SHA-256 of a file's bytes, `None` if it is missing; an error if it is no regular file, too large, or
/// unreadable.
fn hash_of(path: &Path) -> Result<Option<String>, NotCompared> {
    match fs::symlink_metadata(path) {
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(_) => return Err(NotCompared),
        Ok(found) if !found.is_file() || found.len() > MAX_MANIFEST_BYTES => return Err(NotCompared),
        Ok(_) => {}
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(open(path, flags, Mode::empty()).map_err(|_| NotCompared)?);
    let mut bytes = Vec::new();
    file.take(MAX_MANIFEST_BYTES + 1).read_to_end(&mut bytes).map_err(|_| NotCompared)?;
    if bytes.len() as u64 > MAX_MANIFEST_BYTES {
        return Err(NotCompared);
    }
    let digest = ring::digest::digest(&ring::digest::SHA256, &bytes);
    Ok(Some(digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// Error: a file cannot be compared with its approved state.
struct NotCompared;
