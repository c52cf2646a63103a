use std::fs;
use std::io;

use zk_core::service::{StoreError, make_private_dir};

use crate::sqlite::check::Log;
use crate::sqlite::db::Db;
use crate::sqlite::error::store_error;
use crate::sqlite::lock::SessionLock;
use crate::sqlite::meta::Meta;
use crate::sqlite::open::{Opened, connect_to, identity, io_error, set_up};
use crate::sqlite::row::{self, COLUMNS};
use crate::sqlite::tree::{self, Tree};

/// Restores the removed files of an open session from the open handle, which can still read them. Returns a
/// notice if it did.
///
/// # Errors
/// [`StoreError`] when the files cannot be written, or other files are in their place. The session stores no
/// more entries then.
pub(in crate::sqlite) fn restore_missing(open: &mut Opened) -> Result<Option<String>, StoreError> {
    let path = open.files.db();
    match fs::symlink_metadata(&path) {
        Ok(_) if identity(&path) == open.file => return Ok(None),
        Ok(_) => {
            let why = "another file has taken the place of the open session; move it away and try again";
            return Err(io_error("write", &path, io::Error::other(why)));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(io_error("look at", &path, source)),
    }
    if !open.db.has_tables() {
        return Ok(None);
    }
    let id = open.files.id().clone();
    if open.lock.is_shared() {
        // The worker with the newest lease may have written them already.
        let why = "the files of the session were removed while a leg had it open; open it again";
        return Err(io_error("write", &path, io::Error::other(why)));
    }
    let log = read_all(open).map_err(|error| store_error(&error, "read", &path, &id))?;
    let dir = open.files.dir().to_path_buf();
    make_private_dir(&dir).map_err(|source| io_error("create the folder", &dir, source))?;
    if !open.lock.is_in_place() {
        open.lock = SessionLock::take(&open.files)?;
    }
    super::quarantine(&open.files, &log.unreadable)?;
    open.db.abandon().map_err(|error| store_error(&error, "let go of", &path, &id))?;
    super::write_again(&open.files, &log)?;
    let conn = connect_to(&path, &id)?;
    let meta = Meta::read(&conn).map_err(|error| store_error(&error, "read", &path, &id))?;
    set_up(&conn, false, &path, &id)?;
    let leaf = log.entries.last().map(|entry| entry.id.clone());
    let last = meta.entries;
    let index = Tree::read(&conn, last).and_then(|tree| tree::index_branch(&conn, &tree.moves, last));
    let index = index.map_err(|error| store_error(&error, "read", &path, &id))?;
    open.db = Db::existing(conn, meta, index, leaf);
    open.file = identity(&path);
    open.lock.record_entries(open.db.entries());
    Ok(Some(format!(
        "the files of session `{id}` were removed while it was open; {} written again to {}",
        if log.entries.len() == 1 {
            "its 1 entry was".to_owned()
        } else {
            format!("its {} entries were", log.entries.len())
        },
        path.display()
    )))
}

/// All entries of the open file.
fn read_all(open: &Opened) -> rusqlite::Result<Log> {
    let mut log = Log { meta: open.db.meta().clone(), ..Log::default() };
    let mut select = open.db.connection().prepare(&format!("SELECT {COLUMNS} FROM entries ORDER BY seq"))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        log.add_row(row::read(row)?.1);
    }
    Ok(log)
}
