//! Notices about files of the person and the project that are not used.

use std::sync::{Mutex, PoisonError};

use zk_core::kernel::{Bus, Cx};
use zk_core::service::visible_line;
use zk_skills::{CommandFilesFound, InstructionsLoaded, SkillsResolved};
use zk_tui::plain::Notices;

/// Shows notices about unreadable instructions and unusable commands.
pub fn tell_skipped_files(notices: &Notices, bus: &Bus) {
    let of_commands = notices.clone();
    bus.scope("command-notices").on_sync(move |found: &CommandFilesFound, _: &Cx| {
        for conflict in &found.conflicts {
            of_commands.show(&format!("warning: {}", visible_line(conflict)));
        }
    });
    let notices = notices.clone();
    bus.scope("instruction-notices").on_sync(move |loaded: &InstructionsLoaded, _: &Cx| {
        for skipped in &loaded.skipped {
            notices.show(&format!("warning: instructions are not read: {}", visible_line(skipped)));
        }
        if let Some(path) = &loaded.cut {
            let limit = zk_skills::limit();
            notices.show(&format!(
                "warning: the end of {} is not read: instructions may have {limit} together",
                path.display()
            ));
        }
    });
}

/// Shows notices about skills that are not used.
pub fn tell_unused_skills(notices: &Notices, bus: &Bus) {
    let notices = notices.clone();
    let told: Mutex<Vec<String>> = Mutex::default();
    bus.scope("skill-notices").on_sync(move |found: &SkillsResolved, _: &Cx| {
        for broken in &found.broken {
            notices.show(&format!("warning: skill {}", visible_line(broken)));
        }
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        if !found.shadowed.is_empty() && *told != found.shadowed {
            let shadowed = visible_line(&found.shadowed.join("; "));
            notices.show(&format!("warning: skills are not used because others have their names: {shadowed}"));
        }
        told.clone_from(&found.shadowed);
        if !found.untrusted.is_empty() {
            let names = visible_line(&found.untrusted.join(", "));
            notices.show(&format!(
                "warning: skills of this project are not trusted, so they are not used: {names}. Read them, then run `zk trust add`"
            ));
        }
    });
}
