/// Programs without configuration files, plugins and child processes, sorted. Some are builtins of shells.
const PLAIN_PROGRAMS: &[&str] = &[
    ":",
    "[",
    "awk",
    "base64",
    "basename",
    "cat",
    "cd",
    "cksum",
    "cmp",
    "comm",
    "cut",
    "date",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "expand",
    "expr",
    "false",
    "fgrep",
    "find",
    "fmt",
    "fold",
    "gawk",
    "grep",
    "head",
    "id",
    "join",
    "ls",
    "mawk",
    "md5sum",
    "nl",
    "od",
    "paste",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "sed",
    "seq",
    "sha1sum",
    "sha256sum",
    "sort",
    "stat",
    "tac",
    "tail",
    "test",
    "tr",
    "true",
    "type",
    "uname",
    "uniq",
    "wc",
    "whoami",
];

/// Whether a program runs no code that a file outside of its arguments names.
pub(crate) fn starts_nothing_by_itself(program: &str) -> bool {
    let name = program.strip_prefix("/usr/bin/").or_else(|| program.strip_prefix("/bin/")).unwrap_or(program);
    PLAIN_PROGRAMS.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_without_configuration_are_found_by_name_and_those_with_it_are_not() {
        assert!(PLAIN_PROGRAMS.is_sorted());
        for program in ["cat", "/usr/bin/grep", "[", ":", "whoami"] {
            assert!(starts_nothing_by_itself(program), "{program}");
        }
        for program in ["git", "rg", "node", "python3", "./cat", "/home/me/bin/cat", "env", "xargs"] {
            assert!(!starts_nothing_by_itself(program), "{program}");
        }
    }
}
