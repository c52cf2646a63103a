//! Other processes that use a store: this test program itself, started again in the role of a writer.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tokio::runtime::Runtime;
use zk_core::model::SessionId;
use zk_core::service::{NewSession, SessionStore, StoreError};
use zk_session::SqliteStore;

use crate::support::{Add, every, stored, unit, whole_units};

/// Variable that gives a started test program its role: the root of the store and the session.
const PART: &str = "ZK_SESSION_TEST_PART";

/// Process that appends units to the session `id` under `root` as fast as possible, after the existing ones,
/// and prints `unit N` for each acknowledged one. `limit` is the maximum size of its files, in KiB.
pub(crate) fn appender(root: &Path, id: &SessionId, limit: Option<u32>) -> Child {
    let program = std::env::current_exe().unwrap();
    let args = ["--exact", "processes::part_appender", "--nocapture"];
    #[expect(clippy::disallowed_methods, reason = "the process to be killed is this test program")]
    let mut command = match limit {
        None => Command::new(program),
        Some(kib) => {
            let mut shell = Command::new("bash");
            shell.arg("-c").arg(format!("trap '' XFSZ; ulimit -f {kib}; exec \"$0\" \"$@\"")).arg(program);
            shell
        }
    };
    command
        .args(args)
        .env(PART, format!("{id}={}", root.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Reads the lines of the process that concern the tests.
pub(crate) fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map_while(Result::ok).filter(|line| line.starts_with("unit ") || line.starts_with("failed "))
}

/// Role of the appending process. Does nothing without the variable [`PART`].
#[test]
fn part_appender() {
    #[expect(clippy::disallowed_methods, reason = "how the starting test says what to do")]
    let Ok(part) = std::env::var(PART) else { return };
    let (id, root) = part.split_once('=').unwrap();
    let (id, root) = (SessionId::from(id), PathBuf::from(root));
    let mut out = std::io::stdout();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::new(root.clone());
        let session = match store.open(&id).await {
            Ok(session) => session,
            Err(StoreError::NotFound { .. }) => {
                store.create(NewSession { id: Some(id), cwd: root, parent: None }).await.unwrap()
            }
            Err(error) => {
                writeln!(out, "failed {error}").unwrap();
                return;
            }
        };
        let begin = whole_units(&session.entries().await.unwrap());
        for n in begin.. {
            if let Err(error) = session.add(unit(n)).await {
                writeln!(out, "failed {error:?}").unwrap();
                return;
            }
            writeln!(out, "unit {n}").unwrap();
            out.flush().unwrap();
        }
    });
}

#[tokio::test]
async fn a_session_in_use_elsewhere_is_refused_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 1).await;
    let mut child = appender(&dir.path().join("s"), &id, None);
    let mut said = lines(&mut child);
    said.next().unwrap();
    let error = store.open(&id).await.err().unwrap();
    assert!(matches!(error, StoreError::InUse { pid, .. } if pid == child.id()), "{error:?}");
    assert_eq!(
        error.to_string(),
        format!(
            "session `{id}` is in use by process {}; end that one first, or start a new session",
            child.id()
        )
    );
    let listed = store.list(&every()).await.unwrap().remove(0);
    assert_eq!(listed.lock.map(|lock| lock.pid), Some(child.id()));
    assert_eq!(
        (listed.title.as_str(), listed.unreadable),
        ("prompt 0", None),
        "it is listed while it is written"
    );
    assert!(matches!(store.delete(&id).await, Err(StoreError::InUse { .. })));

    let mut second = appender(&dir.path().join("s"), &id, None);
    let said: Vec<String> = lines(&mut second).collect();
    assert!(said.len() == 1 && said[0].contains("in use by process"), "{said:?}");
    second.wait().unwrap();

    child.kill().unwrap();
    child.wait().unwrap();
    let session = store.open(&id).await.unwrap();
    assert!(session.notices().is_empty());
    assert!(whole_units(&session.entries().await.unwrap()) > 1);
}
