use super::SSH_PORT;

/// Single-letter flags of curl and wget with a separate value that is no host.
const FLAGS_WITH_VALUE: &str = "odHXuAebcTFmwrCDEPQtyYzUKx";

/// Single-letter flags of ssh with a separate value.
const SSH_FLAGS_WITH_VALUE: &str = "BbcDEeFIiJLlmOopQRSWw";

/// Hosts of the addresses in these words, flag values included. A word without a scheme counts only if no
/// word with a scheme names a host.
pub(super) fn of_words(words: &[String]) -> Vec<String> {
    let named: Vec<String> = words.iter().filter_map(|word| of_url(word)).collect();
    if !named.is_empty() {
        return named;
    }
    let mut found = Vec::new();
    let mut before = "";
    for word in words {
        let is_value = before.len() == 2
            && before.starts_with('-')
            && before.ends_with(|letter| FLAGS_WITH_VALUE.contains(letter));
        if !word.starts_with('-') && !is_value && !before.starts_with("--") {
            found.extend(of_authority(word.split(['/', '?', '#']).next().unwrap_or_default(), None));
        }
        before = word;
    }
    found
}

/// Host of an address in a word.
pub(super) fn of_url(word: &str) -> Option<String> {
    let (before, rest) = word.split_once("://")?;
    let scheme = before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '+').next()?;
    let port = match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" | "ws" | "wss" | "git+https" | "git+http" | "sparse+https" | "sparse+http" => None,
        "ssh" | "git+ssh" | "sftp" => Some(SSH_PORT),
        "git" => Some(9418),
        "ftp" => Some(21),
        // Files, and addresses that name a program.
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#', '"', '\'', ',']).next()?;
    of_authority(authority.rsplit('@').next()?, port)
}

/// Host of an ssh command, its first operand, with the port of its flags.
pub(super) fn of_ssh(args: &[String]) -> Option<String> {
    let mut is_value = false;
    let host = args.iter().find(|word| {
        let is_operand = !is_value && !word.starts_with('-');
        is_value = !is_value
            && word.len() == 2
            && word.starts_with('-')
            && word.ends_with(|letter| SSH_FLAGS_WITH_VALUE.contains(letter));
        is_operand
    });
    Some(at_port(of_remote_place(host?, true)?, ssh_port(args, 'p')))
}

/// Hosts of an scp or sftp command.
pub(super) fn of_copies(args: &[String]) -> Vec<String> {
    let port = ssh_port(args, 'P');
    args.iter().filter_map(|word| of_remote_place(word, false)).map(|host| at_port(host, port)).collect()
}

/// Port in a flag or option of ssh.
fn ssh_port(args: &[String], letter: char) -> Option<u16> {
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix('-') else { continue };
        if let Some(rest) = flag.strip_prefix(letter) {
            return if rest.is_empty() { words.next()?.parse().ok() } else { rest.parse().ok() };
        }
        if let Some(rest) = flag.strip_prefix('o') {
            let option = if rest.is_empty() { words.next()? } else { rest };
            let (name, value) = option.split_once(['=', ' '])?;
            if name.trim().eq_ignore_ascii_case("port") {
                return value.trim().parse().ok();
            }
        }
    }
    None
}

/// Host rule for ssh, with the port if it is not the usual one.
fn at_port(host: String, port: Option<u16>) -> String {
    match (host.strip_suffix(&format!(":{SSH_PORT}")), port) {
        (Some(name), Some(port)) => format!("{name}:{port}"),
        _ => host,
    }
}

/// Host of `user@host`, `host:path` or `ssh://host`, with the ssh port.
pub(super) fn of_remote_place(word: &str, is_host: bool) -> Option<String> {
    if word.starts_with('-') {
        return None;
    }
    if word.contains("://") {
        return of_url(word);
    }
    let host = match word.split_once(':') {
        // A local path may contain a colon as well.
        Some((before, _)) if !before.contains('/') => before,
        Some(_) => return None,
        None if is_host || word.contains('@') => word,
        None => return None,
    };
    of_authority(host.rsplit('@').next()?, Some(SSH_PORT))
}

/// Converts `host` or `host:port` to a host rule.
fn of_authority(text: &str, usual_port: Option<u16>) -> Option<String> {
    let end_of_name = text.find(']').map_or(0, |at| at + 1);
    let (host, port) = match text.get(end_of_name..)?.find(':').map(|at| at + end_of_name) {
        Some(at) => (text.get(..at)?, text.get(at + 1..).filter(|port| !port.is_empty())),
        None => (text, None),
    };
    let host = host.to_ascii_lowercase();
    let is_name = |name: &str| {
        name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && (name == "localhost" || name.contains('.') || usual_port.is_some() || port.is_some())
    };
    let is_address = host.starts_with('[') && host.ends_with(']');
    if !is_address && !is_name(&host) {
        return None;
    }
    match (port.map(str::parse::<u16>), usual_port) {
        (Some(Ok(port)), _) if port > 0 => Some(format!("{host}:{port}")),
        (Some(_), _) => None,
        (None, Some(port)) => Some(format!("{host}:{port}")),
        (None, None) => Some(host),
    }
}
