/// Whether SQLite's write-ahead log contains transactions that SQLite would silently skip.
///
/// SQLite replays a log up to the first frame with a wrong checksum. That is right for a log whose last write
/// was cut, and wrong for one with a changed byte, after which whole transactions follow. So this walks the
/// frames as SQLite does, and then searches for a complete transaction of the same generation after the
/// break.
pub(super) fn hides_transactions(log: &[u8]) -> bool {
    let Some(header) = Header::read(log) else {
        // Without a valid header SQLite ignores the whole log. A log that has a frame once had a header.
        return log.len() > HEADER_BYTES + FRAME_HEADER_BYTES + 512;
    };
    let size = FRAME_HEADER_BYTES + header.page;
    let mut sum = header.sum;
    let mut sound = true;
    for frame in log.get(HEADER_BYTES..).unwrap_or_default().chunks_exact(size) {
        let Some((head, page)) = frame.split_at_checked(FRAME_HEADER_BYTES) else { return false };
        let Some([_, commit, salt1, salt2, sum1, sum2]) = read_words::<6>(head, true) else { return false };
        let current = [salt1, salt2] == header.salt;
        if sound {
            sum = checksum(head.get(..8).unwrap_or_default(), sum, header.is_big_endian);
            sum = checksum(page, sum, header.is_big_endian);
            sound = current && [sum1, sum2] == sum;
        }
        if !sound && current && commit != 0 {
            return true;
        }
    }
    false
}

/// Whether the log ends within a page. SQLite writes each page with one call, so a killed process does not
/// cut one.
pub(super) fn ends_within_a_page(log: &[u8]) -> bool {
    let Some(header) = Header::read(log) else { return (1..HEADER_BYTES).contains(&log.len()) };
    let rest = (log.len() - HEADER_BYTES) % (FRAME_HEADER_BYTES + header.page);
    rest != 0 && rest != FRAME_HEADER_BYTES
}

/// Rebuilds the database as of the last complete transaction in the log. Pages that are not in the log are
/// zero. `None` without a complete transaction.
pub(super) fn rebuild_database(log: &[u8]) -> Option<Vec<u8>> {
    let header = Header::read(log)?;
    let mut sum = header.sum;
    let mut frames: Vec<(usize, &[u8])> = Vec::new();
    let mut committed = None;
    for frame in log.get(HEADER_BYTES..)?.chunks_exact(FRAME_HEADER_BYTES + header.page) {
        let (head, page) = frame.split_at_checked(FRAME_HEADER_BYTES)?;
        let [number, commit, salt1, salt2, sum1, sum2] = read_words::<6>(head, true)?;
        sum = checksum(head.get(..8)?, sum, header.is_big_endian);
        sum = checksum(page, sum, header.is_big_endian);
        if [salt1, salt2] != header.salt || [sum1, sum2] != sum {
            break;
        }
        frames.push(((number as usize).checked_sub(1)?, page));
        if commit != 0 {
            committed = Some((commit as usize, frames.len()));
        }
    }
    let (pages, whole) = committed?;
    let bytes = pages.checked_mul(header.page).filter(|bytes| *bytes <= MAX_LOG_BYTES)?;
    let mut database = vec![0; bytes];
    for (place, page) in frames.into_iter().take(whole) {
        // A later transaction may have shrunk the database.
        if let Some(target) = database.chunks_exact_mut(header.page).nth(place) {
            target.copy_from_slice(page);
        }
    }
    // Switches the header to a mode without a write-ahead log.
    if let Some(versions) = database.get_mut(18..20) {
        versions.fill(1);
    }
    Some(database)
}

/// Largest log, in bytes, from which a database is rebuilt.
const MAX_LOG_BYTES: usize = 1 << 30;

/// Size of the header of a write-ahead log, in bytes.
const HEADER_BYTES: usize = 32;
/// Size of the header of each frame, in bytes.
const FRAME_HEADER_BYTES: usize = 24;
/// First word of a write-ahead log, without its last bit.
const MAGIC: u32 = 0x377f_0682;

struct Header {
    page: usize,
    salt: [u32; 2],
    sum: [u32; 2],
    /// Whether checksums use big-endian words.
    is_big_endian: bool,
}

impl Header {
    fn read(log: &[u8]) -> Option<Self> {
        let bytes = log.get(..HEADER_BYTES)?;
        let [magic, _, page, _, salt1, salt2, sum1, sum2] = read_words::<8>(bytes, true)?;
        let is_big_endian = magic & 1 == 1;
        let sum = checksum(bytes.get(..24)?, [0, 0], is_big_endian);
        let fits = magic & !1 == MAGIC && sum == [sum1, sum2] && (512..=65_536).contains(&page);
        fits.then_some(Self { page: page as usize, salt: [salt1, salt2], sum, is_big_endian })
    }
}

/// Running checksum of SQLite over an even number of words.
fn checksum(bytes: &[u8], [mut a, mut b]: [u32; 2], is_big_endian: bool) -> [u32; 2] {
    for pair in bytes.chunks_exact(8) {
        if let Some([x, y]) = read_words::<2>(pair, is_big_endian) {
            a = a.wrapping_add(x).wrapping_add(b);
            b = b.wrapping_add(y).wrapping_add(a);
        }
    }
    [a, b]
}

fn read_words<const N: usize>(bytes: &[u8], is_big_endian: bool) -> Option<[u32; N]> {
    let mut words = [0; N];
    let (chunks, _) = bytes.as_chunks::<4>();
    for (index, word) in words.iter_mut().enumerate() {
        let chunk = *chunks.get(index)?;
        *word = if is_big_endian { u32::from_be_bytes(chunk) } else { u32::from_le_bytes(chunk) };
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// A log of several transactions, as a killed process leaves it.
    fn log() -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.db");
        let conn = Connection::open(&path).unwrap();
        conn.query_row("PRAGMA journal_mode=WAL", [], |_| Ok(())).unwrap();
        conn.execute_batch("CREATE TABLE t(x)").unwrap();
        for n in 0..5 {
            conn.execute("INSERT INTO t VALUES(?1)", [n]).unwrap();
        }
        std::fs::read(dir.path().join("x.db-wal")).unwrap()
    }

    #[test]
    fn a_log_cut_anywhere_hides_nothing() {
        let log = log();
        for end in (0..log.len()).step_by(97) {
            assert!(!hides_transactions(&log[..end]), "cut at {end}");
        }
        assert!(!hides_transactions(&log));
        assert!(!hides_transactions(&[]));
    }

    #[test]
    fn a_changed_byte_before_the_last_transaction_is_noticed() {
        let log = log();
        let frames = (log.len() - HEADER_BYTES) / (FRAME_HEADER_BYTES + 4096);
        let last = HEADER_BYTES + (frames - 1) * (FRAME_HEADER_BYTES + 4096);
        for at in (0..last).step_by(61) {
            let mut changed = log.clone();
            changed[at] ^= 0x20;
            assert!(hides_transactions(&changed), "byte {at}");
        }
    }

    #[test]
    fn a_database_is_put_together_from_its_log_alone() {
        let log = log();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("y.db");
        for (lost, left) in [(0, 5), (1, 4)] {
            let end = log.len() - lost * (FRAME_HEADER_BYTES + 4096);
            std::fs::write(&path, rebuild_database(&log[..end]).unwrap()).unwrap();
            let conn = Connection::open(&path).unwrap();
            assert_eq!(
                conn.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap(),
                left
            );
        }
        assert_eq!(rebuild_database(&log[..HEADER_BYTES]), None);
        assert_eq!(rebuild_database(&[]), None);
    }

    #[test]
    fn a_log_that_was_cut_within_a_page_is_told_from_one_that_was_not_finished() {
        let log = log();
        assert!(!ends_within_a_page(&log) && !ends_within_a_page(&[]));
        assert!(!ends_within_a_page(&log[..log.len() - 4096]), "the page had not been written yet");
        assert!(ends_within_a_page(&log[..log.len() - 1]) && ends_within_a_page(&log[..10]));
    }

    #[test]
    fn frames_of_an_older_generation_are_no_damage() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.db");
        let conn = Connection::open(&path).unwrap();
        conn.query_row("PRAGMA journal_mode=WAL", [], |_| Ok(())).unwrap();
        conn.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES(1); INSERT INTO t VALUES(2);").unwrap();
        conn.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
        conn.execute_batch("INSERT INTO t VALUES(3);").unwrap();
        let log = std::fs::read(dir.path().join("x.db-wal")).unwrap();
        assert!(log.len() > HEADER_BYTES + 3 * (FRAME_HEADER_BYTES + 4096));
        assert!(!hides_transactions(&log));
    }
}
