use std::str::FromStr;

const PYTHON_SDK: &str = include_str!("../sdk/python/zk_extension.py");
const TYPESCRIPT_SDK: &str = include_str!("../sdk/typescript/zk-extension.mjs");
const TYPESCRIPT_TYPES: &str = include_str!("../sdk/typescript/zk-extension.d.mts");
const PYTHON_FIRST: &str = include_str!("../sdk/first/extension.py");
const TYPESCRIPT_FIRST: &str = include_str!("../sdk/first/extension.ts");

/// Language of a new extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaffoldLanguage {
    /// Python.
    Python,
    /// TypeScript for Node.
    TypeScript,
}

/// Unknown language.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no language of `zk ext new`: python and ts are; an extension in any other follows docs/extensions.md"
)]
pub struct UnknownLanguage(String);

impl FromStr for ScaffoldLanguage {
    type Err = UnknownLanguage;

    fn from_str(name: &str) -> Result<Self, UnknownLanguage> {
        match name {
            "python" | "py" => Ok(Self::Python),
            "ts" | "typescript" => Ok(Self::TypeScript),
            other => Err(UnknownLanguage(other.to_owned())),
        }
    }
}

/// Files of a new extension.
///
/// ```
/// use zk_extensions::{Scaffold, ScaffoldLanguage};
///
/// let scaffold = Scaffold::new("notes", ScaffoldLanguage::Python);
/// assert_eq!(scaffold.command, ["python3", "extension.py"]);
/// assert!(scaffold.files[0].1.contains("Extension(\"notes\""));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaffold {
    /// Names of the files with their contents; the first one is the extension itself.
    pub files: Vec<(&'static str, String)>,
    /// Command that starts it in its directory.
    pub command: [&'static str; 2],
}

impl Scaffold {
    /// Writes an extension with a tool, a gate and a command, and its SDK beside it.
    #[must_use]
    pub fn new(name: &str, language: ScaffoldLanguage) -> Self {
        match language {
            ScaffoldLanguage::Python => Self {
                files: vec![
                    ("extension.py", PYTHON_FIRST.replace("NAME", name)),
                    ("zk_extension.py", PYTHON_SDK.to_owned()),
                ],
                command: ["python3", "extension.py"],
            },
            ScaffoldLanguage::TypeScript => Self {
                files: vec![
                    ("extension.ts", TYPESCRIPT_FIRST.replace("NAME", name)),
                    ("zk-extension.mjs", TYPESCRIPT_SDK.to_owned()),
                    ("zk-extension.d.mts", TYPESCRIPT_TYPES.to_owned()),
                    ("package.json", "{ \"type\": \"module\", \"private\": true }\n".to_owned()),
                ],
                command: ["node", "extension.ts"],
            },
        }
    }
}
