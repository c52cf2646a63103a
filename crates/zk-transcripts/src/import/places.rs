use std::path::{Path, PathBuf};

use super::detect::{collect_files, list_transcripts};
use super::format::TranscriptFormat;

/// Root directories of the programs' transcripts, as the environment names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceRoots {
    /// Home directory of the person.
    pub home: Option<PathBuf>,
    /// Directory of Claude Code, if it is not `~/.claude`.
    pub claude: Option<PathBuf>,
    /// Directory of codex, if it is not `~/.codex`.
    pub codex: Option<PathBuf>,
    /// Directory of pi's agent, if it is not `~/.pi/agent`.
    pub pi: Option<PathBuf>,
    /// Data directory, if it is not `~/.local/share`.
    pub data: Option<PathBuf>,
}

/// Place where transcripts were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPlace {
    /// Program that wrote them.
    pub format: TranscriptFormat,
    /// Directory or database.
    pub path: PathBuf,
    /// Number of transcripts.
    pub transcripts: usize,
}

/// Finds the usual places that have transcripts. Only names are read, and of a database its list of sessions.
///
/// ```
/// use zk_transcripts::{PlaceRoots, find_places};
///
/// assert!(find_places(&PlaceRoots::default()).is_empty());
/// ```
#[must_use]
pub fn find_places(roots: &PlaceRoots) -> Vec<FoundPlace> {
    let home = |path: &str| roots.home.as_ref().map(|home| home.join(path));
    let root = |own: &Option<PathBuf>, path: &str| own.clone().or_else(|| home(path));
    let mut found = Vec::new();
    for (format, dir) in [
        (TranscriptFormat::Claude, root(&roots.claude, ".claude").map(|dir| dir.join("projects"))),
        (TranscriptFormat::Codex, root(&roots.codex, ".codex").map(|dir| dir.join("sessions"))),
        (TranscriptFormat::Pi, root(&roots.pi, ".pi/agent").map(|dir| dir.join("sessions"))),
    ] {
        let Some(dir) = dir else { continue };
        let transcripts = count_files(&dir);
        if transcripts > 0 {
            found.push(FoundPlace { format, path: dir, transcripts });
        }
    }
    let database = root(&roots.data, ".local/share").map(|dir| dir.join("opencode/opencode.db"));
    if let Some(path) = database.filter(|path| path.is_file()) {
        let transcripts =
            list_transcripts(&path, Some(TranscriptFormat::Opencode)).map_or(0, |all| all.len());
        if transcripts > 0 {
            found.push(FoundPlace { format: TranscriptFormat::Opencode, path, transcripts });
        }
    }
    found
}

fn count_files(dir: &Path) -> usize {
    let mut files = Vec::new();
    // A missing directory has no files.
    let _ = collect_files(dir, 0, &mut files);
    files.len()
}
