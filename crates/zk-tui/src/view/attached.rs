use zk_core::events::UserBash;
use zk_core::kernel::Event;
use zk_core::model::{MENTIONED_BY, TYPED_DURING_RUN};
use zk_core::service::has_skill_text;
use zk_view::Text;

use super::counted;

/// Whether an injected text is a notice of zk or a plugin, and not a message of the person.
pub(crate) fn is_notice(by: &Text) -> bool {
    !TYPED_DURING_RUN.contains(&by.as_str())
}

/// Row in place of an injected text that the person knows: a file that they named, the text of a skill, or output of a
/// command of theirs. `None` for other texts.
pub(crate) fn folded_row(by: &Text, text: &Text) -> Option<String> {
    let by = by.as_str();
    if by.starts_with(MENTIONED_BY) {
        return Some(format!("  {by}"));
    }
    if by == UserBash::NAME {
        let command = text.as_str().lines().find_map(|line| line.strip_prefix("$ "))?;
        return Some(format!("  with the output of !{command}"));
    }
    let name = by.strip_prefix("skill:").filter(|_| has_skill_text(text.as_str()))?;
    Some(format!("  skill {name} · {}", counted(text.as_str().lines().count() as u64, "line")))
}

/// Row about the attachments of a prompt; `None` if the text has a mark for each.
pub(crate) fn attachment_row(text: &Text, count: u32) -> Option<String> {
    let marks = u32::try_from(text.as_str().matches("[image ").count()).unwrap_or(u32::MAX);
    let unnamed = count.saturating_sub(marks);
    (unnamed > 0).then(|| format!("  ({})", counted(u64::from(unnamed), "attachment")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_named_and_a_skill_are_a_row_each_and_other_texts_stand_whole() {
        let folded = |by: &str, text: &str| folded_row(&Text::line(by), &Text::from(text.to_owned()));
        assert_eq!(folded("@cart.py · 2 lines", "1\ta\n2\tb").as_deref(), Some("  @cart.py · 2 lines"));
        let skill = "<skill_content name=\"release\">\nDo it.\n</skill_content>";
        assert_eq!(folded("skill:release", skill).as_deref(), Some("  skill release · 3 lines"));
        assert_eq!(folded("skill:release", "The user asked for the skill, which cannot be used"), None);
        let ran = "The user ran a command.\n$ make\nall done\n(exit code 0)";
        assert_eq!(folded("user:bash", ran).as_deref(), Some("  with the output of !make"));
        assert_eq!(folded("budget", "two turns are left"), None);
    }

    #[test]
    fn a_message_that_was_typed_during_a_run_is_no_notice() {
        let notices = ["steer", "follow-up", "jobs", "budget"].map(|by| is_notice(&Text::line(by)));
        assert_eq!(notices, [false, false, true, true]);
    }

    #[test]
    fn an_image_with_a_mark_in_the_text_is_not_shown_twice() {
        let said = |text: &str, count| attachment_row(&Text::from(text.to_owned()), count);
        assert_eq!(said("see [image 1: shot.png]", 1), None);
        assert_eq!(said("see", 1).as_deref(), Some("  (1 attachment)"));
        assert_eq!(said("see [image 1: 640×480]", 3).as_deref(), Some("  (2 attachments)"));
    }
}
