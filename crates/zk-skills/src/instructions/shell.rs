use std::path::{Component, Path, PathBuf};

/// Returns the directory in which a call works that runs `line` in `cwd`. `own` is the command as the model
/// gave it: the host may run a line of its own before that, which need not begin with a `cd`.
pub(super) fn directory_of_call(line: &str, own: Option<&str>, cwd: &Path) -> PathBuf {
    let own = own.filter(|own| !own.is_empty());
    match own.and_then(|own| Some((line.strip_suffix(own)?, own))) {
        Some((before, own)) if before.ends_with('\n') => directory(own, &directory(before, cwd)),
        Some(_) | None => directory(line, cwd),
    }
}

/// Returns the directory in which a command line works that begins in `cwd`: the one that the `cd`s at its
/// beginning lead to. A directory that only a shell knows the name of ends the matter.
pub(super) fn directory(command: &str, cwd: &Path) -> PathBuf {
    let mut at = cwd.to_path_buf();
    let mut rest = command.trim_start();
    while let Some((dir, more)) = change(rest) {
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

/// The plain name that a `cd` leads to, with which a command line begins, and what follows it.
fn change(line: &str) -> Option<(&str, &str)> {
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
    fn a_command_line_works_where_the_changes_at_its_beginning_lead() {
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
