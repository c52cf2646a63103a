use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use zk_core::service::open_regular;

use crate::ImportError;

/// Maximum length of a line in bytes; a longer line is skipped.
pub(super) const MAX_LINE_BYTES: usize = 48 << 20;

/// Reader of JSON lines that never holds more than one line.
pub(super) struct JsonLines {
    path: PathBuf,
    reader: BufReader<File>,
    line: Vec<u8>,
    number: u64,
    /// Number of lines that are not JSON objects of the expected form.
    pub(super) unreadable: u64,
    /// Number of lines that exceed [`MAX_LINE_BYTES`].
    pub(super) too_long: u64,
}

/// Line of a file.
pub(super) enum Line<T> {
    /// Line of the expected form.
    Read(T),
    /// Line that cannot be read, with the reason.
    Unreadable(String),
}

impl JsonLines {
    pub(super) fn open(path: &Path) -> Result<Self, ImportError> {
        let read = |source| ImportError::Read { path: path.to_path_buf(), source };
        let file = open_regular(OpenOptions::new().read(true), path).map_err(read)?;
        Ok(Self {
            path: path.to_path_buf(),
            reader: BufReader::with_capacity(256 << 10, file),
            line: Vec::new(),
            number: 0,
            unreadable: 0,
            too_long: 0,
        })
    }

    /// Number of the last line, from 1.
    pub(super) fn line_number(&self) -> u64 {
        self.number
    }

    /// Next line that is not empty; `None` at the end.
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> Result<Option<Line<T>>, ImportError> {
        loop {
            let Some(is_whole) = self.read_line()? else { return Ok(None) };
            if !is_whole {
                self.too_long += 1;
                let reason = format!("it has more than {} MB", MAX_LINE_BYTES >> 20);
                return Ok(Some(Line::Unreadable(reason)));
            }
            let line = self.line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let parsed = match std::str::from_utf8(line) {
                Ok(line) => serde_json::from_str(line),
                Err(_) => serde_json::from_str(&String::from_utf8_lossy(line)),
            };
            return Ok(Some(match parsed {
                Ok(value) => Line::Read(value),
                Err(error) => {
                    self.unreadable += 1;
                    Line::Unreadable(error.to_string())
                }
            }));
        }
    }

    /// Next readable line; unreadable ones are counted.
    pub(super) fn next_readable<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ImportError> {
        while let Some(line) = self.next()? {
            if let Line::Read(value) = line {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Reads a line; returns whether it was read as a whole, and `None` at the end of the file.
    fn read_line(&mut self) -> Result<Option<bool>, ImportError> {
        self.line.clear();
        let (mut is_whole, mut has_bytes) = (true, false);
        loop {
            let read = |source| ImportError::Read { path: self.path.clone(), source };
            let available = self.reader.fill_buf().map_err(read)?;
            if available.is_empty() {
                break;
            }
            has_bytes = true;
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            if self.line.len() + taken > MAX_LINE_BYTES {
                is_whole = false;
                self.line = Vec::new();
            }
            if is_whole {
                self.line.extend_from_slice(available.get(..taken).unwrap_or_default());
            }
            self.reader.consume(taken);
            if end.is_some() {
                break;
            }
        }
        self.number += u64::from(has_bytes);
        Ok(has_bytes.then_some(is_whole))
    }

    /// Messages for the person about skipped lines.
    pub(super) fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        if self.unreadable > 0 {
            notices.push(format!("{} unreadable lines were left out", self.unreadable));
        }
        if self.too_long > 0 {
            notices.push(format!(
                "{} lines of more than {} MB were left out",
                self.too_long,
                MAX_LINE_BYTES >> 20
            ));
        }
        notices
    }
}
