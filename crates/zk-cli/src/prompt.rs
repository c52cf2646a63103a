use std::fmt::Write;
use std::path::Path;

use zk_skills::Instructions;

use crate::settings::Settings;

/// What zk tells a model about its work. It stays the same for a whole session, so that providers can cache
/// it: no date, no listing of files, nothing random.
const GUIDE: &str = "\
You are zk, an agent that works in a person's directory with the tools you are given.
Look before you act: find and read what matters, then make the smallest change that does the job, in the style \
that is there. Prefer the file tools over shell commands for reading and editing. Use several tools at once when \
they do not depend on each other. When you changed something, check that it works: run the tests or the program.
A refused or failed call tells you why: change your approach instead of repeating it. Ask when the goal is \
unclear, not for permission. Never print, store or send secrets.
Answer briefly and plainly, and say what you did not do or could not check.";

/// The system prompt: the person's own or zk's guide, then the directory, the project's instructions and what
/// is to be added.
pub(crate) fn system(settings: &Settings, cwd: &Path, instructions: &Instructions) -> String {
    let mut text = settings.text("system").unwrap_or(GUIDE).to_owned();
    let add = |text: &mut String, what: std::fmt::Arguments<'_>| {
        // Writing into a string cannot fail.
        let _ = text.write_fmt(what);
    };
    add(&mut text, format_args!("\n\nWorking directory: {}", cwd.display()));
    for file in &instructions.files {
        let cut = if file.cut { "\n(The rest is left out: it is too long.)" } else { "" };
        add(
            &mut text,
            format_args!(
                "\n\nInstructions of the project, from {}:\n{}{cut}",
                file.path.display(),
                file.text
            ),
        );
    }
    if let Some(more) = settings.text("append_system") {
        add(&mut text, format_args!("\n\n{more}"));
    }
    text
}
