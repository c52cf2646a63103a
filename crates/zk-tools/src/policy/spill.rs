use std::fs::OpenOptions;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::events::{ResultPatch, ToolTransform};
use zk_core::kernel::{Answer, BoxError, Cx, Handler, HookOptions, Plugin, Reach, Scope, Stage};
use zk_core::model::{Block, ToolContent};
use zk_core::service::make_private_dir;

use crate::OutputDir;
use crate::text::{head, size, tail};

const THRESHOLD: usize = 64 * 1024;
const HEAD: usize = 1_536;
const TAIL: usize = 512;

/// Moves huge results to files: the model gets their beginning, their end and the path. Also provides its
/// directory as [`OutputDir`] to tools that write such files.
///
/// Only the stub joins the history, so it is paid for once and is stable. Results of `read_file` and `recall`
/// are exempt: they have separate limits, and reading a spilled file must not spill again. If the file cannot
/// be written, the result is truncated anyway, with a note.
///
/// The model can read the file only if the file service permits it: allow reading `dir`.
///
/// ```
/// use zk_core::kernel::Bus;
/// use zk_tools::Spill;
///
/// Bus::new().install(&Spill::new("results").threshold(16 * 1024)).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Spill {
    dir: PathBuf,
    threshold: usize,
    except: Vec<String>,
}

impl Spill {
    /// Spills to files in `dir`, which is made when needed.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            threshold: THRESHOLD,
            except: ["read_file", "recall"].map(str::to_owned).to_vec(),
        }
    }

    /// The size in bytes above which a text is moved; 64 KiB unless set.
    #[must_use]
    pub fn threshold(mut self, bytes: usize) -> Self {
        self.threshold = bytes.max(HEAD + TAIL);
        self
    }

    /// Leaves the results of this tool alone too.
    #[must_use]
    pub fn except(mut self, tool: impl Into<String>) -> Self {
        self.except.push(tool.into());
        self
    }

    fn spill_text(&self, tool: &str, text: &str) -> String {
        let place = match save(&self.dir, tool, text.as_bytes()) {
            Ok(path) => {
                format!("the whole of it is in {}, read it in parts{}", path.display(), handle_of(&path))
            }
            Err(error) => format!("the whole of it is lost, it could not be written to a file: {error}"),
        };
        format!(
            "[{tool} gave {}; {place}]\n{}\n[…]\n{}",
            size(text.len() as u64),
            head(text, HEAD),
            tail(text, TAIL)
        )
    }
}

impl Plugin for Spill {
    fn name(&self) -> &'static str {
        "spill"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.provide_service(Arc::new(OutputDir(self.dir.clone())));
        let at = HookOptions { stage: Stage::Framework, reach: Some(Reach::Descendants), time_limit: None };
        scope.handle_at::<ToolTransform, _>(at, Arc::new(self.clone()));
        Ok(())
    }
}

impl Handler<ToolTransform> for Spill {
    async fn call(&self, event: &ToolTransform, _: &Cx) -> Answer<ToolTransform> {
        let tool = event.call.name.clone();
        let huge = |text: &str| text.len() > self.threshold;
        if self.except.contains(&tool) || !texts_of(&event.content).any(huge) {
            return Ok(None);
        }
        let (this, content) = (self.clone(), event.content.clone());
        let content = tokio::task::spawn_blocking(move || this.spill_content(&tool, content)).await?;
        Ok(Some(ResultPatch { content: Some(content), ..ResultPatch::default() }))
    }
}

impl Spill {
    fn spill_content(&self, tool: &str, content: ToolContent) -> ToolContent {
        match content {
            ToolContent::Text(text) => ToolContent::Text(self.spill_text(tool, &text)),
            ToolContent::Blocks(mut blocks) => {
                for block in &mut blocks {
                    if let Block::Text(text) = block
                        && text.text.len() > self.threshold
                    {
                        text.text = self.spill_text(tool, &text.text);
                    }
                }
                ToolContent::Blocks(blocks)
            }
        }
    }
}

fn texts_of(content: &ToolContent) -> impl Iterator<Item = &str> {
    let (one, many) = match content {
        ToolContent::Text(text) => (Some(text.as_str()), &[][..]),
        ToolContent::Blocks(blocks) => (None, blocks.as_slice()),
    };
    one.into_iter().chain(many.iter().filter_map(Block::as_text))
}

/// Handle of an output file for the arguments of tools.
pub(crate) fn handle_of(path: &Path) -> String {
    let name = path.file_name().and_then(|name| name.to_str());
    name.map_or_else(String::new, |name| {
        format!("; `{}{name}` stands for it in any argument", super::handles::PREFIX)
    })
}

/// Writes a result under a name made of its content, readable by this user only.
pub(super) fn save(dir: &Path, tool: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    make_private_dir(dir)?;
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    let tool: String =
        tool.chars().filter(|char| char.is_ascii_alphanumeric() || *char == '_').take(40).collect();
    let path = dir.canonicalize()?.join(format!("{tool}-{:016x}-{}.txt", hasher.finish(), bytes.len()));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    match file {
        Ok(mut file) => {
            let written = file.write_all(bytes);
            if written.is_err() {
                let _ = std::fs::remove_file(&path);
            }
            written.map(|()| path)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(path),
        Err(error) => Err(error),
    }
}
