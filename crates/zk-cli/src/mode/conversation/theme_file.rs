//! `themes/NAME.toml`: colours of the person's own.

use zk_core::service::{HostFiles, HostRead};
use zk_tui::Palette;

use crate::app::Machine;

/// Maximum size of the file in bytes.
const MAX_THEME_FILE_BYTES: usize = 64 * 1024;

/// Returns the colours of the theme `name`; `None` with a notice if its file cannot be used.
pub(super) fn read(machine: &Machine, name: &str) -> Option<Palette> {
    let path = machine.dirs.config.as_ref()?.join("themes").join(format!("{name}.toml"));
    let read = machine.host_files.read(&path, &HostRead::whole(MAX_THEME_FILE_BYTES).own_only());
    let why = match read {
        Ok(file) => match Palette::parse(&String::from_utf8_lossy(&file.bytes)) {
            Ok(palette) => return Some(palette),
            Err(error) => format!("{}: {error}", path.display()),
        },
        Err(error) if error.is_missing() => {
            format!("there is no theme `{name}`: neither a built-in one nor {}", path.display())
        }
        Err(error) => format!("cannot read {}: {error}", path.display()),
    };
    machine.notices.show(&format!("warning: {why}; the usual colours are used"));
    None
}
