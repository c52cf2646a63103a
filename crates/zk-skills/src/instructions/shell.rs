use std::path::{Component, Path, PathBuf};

/// Directory in which a call runs the line `line`, started in `cwd`. `own` is the model's command: the host
/// may prepend a line without a `cd`.
pub(super) fn directory_of_call(line: &str, own: Option<&str>, cwd: &Path) -> PathBuf {
    let own = own.filter(|own| !own.is_empty());
    match own.and_then(|own| Some((line.strip_suffix(own)?, own))) {
        Some((before, own)) if before.ends_with('\n') => directory(own, &directory(before, cwd)),
        Some(_) | None => directory(line, cwd),
    }
}

/// Directory after the leading `cd` commands of a command line that starts in `cwd`. Stops at a `cd` whose
/// target needs a shell to expand.
pub(super) fn directory(command: &str, cwd: &Path) -> PathBuf {
    let mut at = cwd.to_path_buf();
    let mut rest = command.trim_start();
    while let Some((dir, more)) = leading_cd(rest) {
        for part in Path::new(dir).components() {
            match part {
                Component::ParentDir => _ = at.pop(),
                Component::CurDir => {}
                Component::Prefix(_) | Component::RootDir | Component::Normal(_) => at.push(part),
            }
        }
        rest = more;
    }
    at
}

/// Literal target of a `cd` at the beginning of a command line, and the rest of the line.
fn leading_cd(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix("cd")?;
    let line = line.strip_prefix([' ', '\t'])?.trim_start_matches([' ', '\t']);
    let (name, rest) = match line.chars().next()? {
        quote @ ('\'' | '"') => line.get(1..)?.split_once(quote)?,
        _ => line.split_at(line.find([' ', '\t', ';', '&', '\n']).unwrap_or(line.len())),
    };
    let is_plain = |c: char| c.is_alphanumeric() || "._-/+@, ".contains(c);
    if name.is_empty() || name.starts_with('-') || !name.chars().all(is_plain) {
        return None;
    }
    let rest = rest.trim_start_matches([' ', '\t']);
    let rest = rest.strip_prefix("&&").or_else(|| rest.strip_prefix([';', '\n']))?;
    Some((name, rest.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_host_before_a_command_does_not_hide_where_the_command_works() {
        for (line, own, wanted) in [
            ("source env\ncd sub && ls", Some("cd sub && ls"), "/desk/sub"),
            ("cd top\ncd sub && ls", Some("cd sub && ls"), "/desk/top/sub"),
            ("cd sub && ls", Some("cd sub && ls"), "/desk/sub"),
            ("source env; cd sub && ls", Some("cd sub && ls"), "/desk"),
            ("source env\ncd sub && ls", None, "/desk"),
            ("cd sub && ls", Some(""), "/desk/sub"),
        ] {
            assert_eq!(
                directory_of_call(line, own, Path::new("/desk")),
                Path::new(wanted),
                "{line:?} {own:?}"
            );
        }
    }

    #[test]
    fn leading_cd_commands_set_the_directory_of_a_command_line() {
        for (command, wanted) in [
            ("ls", "/desk"),
            ("cd sub && ls", "/desk/sub"),
            ("  cd sub/inner; make && cd else", "/desk/sub/inner"),
            ("cd 'a b' && cd \"c\"\nls", "/desk/a b/c"),
            ("cd /other && ls", "/other"),
            ("cd .. && cd ./x && ls", "/x"),
            // Not known without a shell, or of no consequence.
            ("cd $HOME && ls", "/desk"),
            ("cd ~/x && ls", "/desk"),
            ("cd sub || ls", "/desk"),
            ("cd sub & ls", "/desk"),
            ("cd - && ls", "/desk"),
            ("cd sub", "/desk"),
            ("cdrecord && ls", "/desk"),
            ("(cd sub && ls)", "/desk"),
        ] {
            assert_eq!(directory(command, Path::new("/desk")), Path::new(wanted), "{command}");
        }
    }
}
