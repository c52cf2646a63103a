use super::flags::{Until, scan};
use super::{Outcome, asks_about_itself};

/// Flags of `ps` with a dash.
pub(super) const PS_FLAGS: &str = "eAafFlwHjTLdNcy opuUC: --forest --no-headers --no-heading --headers --sort= --pid= --ppid= \
    --user= --format= --cols= --columns= --width= --rows= --lines= --cumulative --deselect";

/// Letters of `ps` without a dash. `e` is left out because it shows the variables of processes.
const PS_LETTERS: &str = "aAuxfwljhrTvmsSnc";

/// Outcome for programs that list processes.
pub(super) fn outcome(name: &str, args: &[String]) -> Option<Outcome> {
    if name != "ps" {
        return None;
    }
    Some(if asks_about_itself(args) || lists_processes(args) {
        Outcome::default()
    } else {
        Outcome::asks("`ps` may show the variables of processes")
    })
}

fn lists_processes(args: &[String]) -> bool {
    let Ok(scanned) = scan(PS_FLAGS, args, Until::Dashes) else { return false };
    // If a user or a process does not exist, `ps` takes all flags for letters without a dash, and `e` may be
    // among them.
    let chooses = scanned.has(&["u", "U", "user", "p", "pid", "ppid"]);
    let is_environment = scanned.has(&["e"]) && (chooses || scanned.has(&["C"]));
    let is_name_for_letters = chooses && scanned.values(&["C"]).any(|name| name.contains(['e', 'E']));
    if is_environment || is_name_for_letters {
        return false;
    }
    // A word that is neither a flag nor its value is taken for letters.
    let users_are_plain = scanned.values(&["u", "U", "user"]).all(|user| !user.contains(['e', 'E']));
    let mut formats: Vec<&str> = scanned.values(&["o", "format", "sort"]).collect();
    let mut operands = scanned.operands.iter().copied();
    while let Some(word) = operands.next() {
        if word.bytes().all(|byte| byte.is_ascii_digit() || byte == b',') {
            continue;
        }
        let letters = word.strip_suffix('o');
        if !letters.unwrap_or(word).chars().all(|letter| PS_LETTERS.contains(letter)) {
            return false;
        }
        if letters.is_some() {
            match operands.next() {
                Some(format) => formats.push(format),
                None => return false,
            }
        }
    }
    users_are_plain && formats.iter().all(|format| !format.to_ascii_lowercase().contains("env"))
}
