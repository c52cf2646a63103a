use super::flags::{Scanned, Until, scan};
use super::{Hazard, Inner, Outcome, base_name, expressions};
use crate::shell::Assignment;
use crate::shell::parser::is_name;

/// Program that a wrapper starts; `None` for other programs, an outcome if the inner program cannot be
/// determined.
pub(super) fn inner(name: &str, argv: &[String], in_shell: bool) -> Option<Result<Inner, Outcome>> {
    let args = argv.get(1..).unwrap_or_default();
    // Index 0 of the arguments is index 1 of the command.
    let found = match name {
        "env" => env(args),
        "nice" => plain_wrapper(name, args, "# n: --adjustment=", 0),
        "ionice" => plain_wrapper(name, args, "t cn: --class= --classdata= --ignore", 0),
        "chrt" => plain_wrapper(name, args, "bfior", 1),
        "taskset" => plain_wrapper(name, args, "c --cpu-list", 1),
        "nohup" => plain_wrapper(name, args, "", 0),
        "timeout" => plain_wrapper(
            name,
            args,
            "fpv ks: --foreground --preserve-status --verbose --kill-after= --signal=",
            1,
        ),
        "stdbuf" => plain_wrapper(name, args, "ioe: --input= --output= --error=", 0),
        "setsid" => plain_wrapper(name, args, "w --wait", 0),
        "time" => plain_wrapper(name, args, "p", 0),
        "command" if in_shell => command(args)?,
        "builtin" | "exec" if in_shell => plain_wrapper(name, args, "", 0),
        "sudo" => privileged_wrapper(
            name,
            args,
            "nEHkS ugp: --non-interactive --preserve-env --set-home --user= --group=",
        ),
        "doas" => privileged_wrapper(name, args, "n u:"),
        "xargs" => xargs(args),
        "bash" | "sh" | "dash" => shell(args)?,
        "busybox" => busybox_applet(args),
        "find" => return expressions::find(args),
        _ => return None,
    };
    Some(found)
}

type Found = Result<Inner, Outcome>;

fn program_at(at: usize) -> Inner {
    Inner::Program { at, assignments: Vec::new(), has_unknown_tail: false, note: None, hazard: None }
}

/// Index of the program after the flags and `skipped` operands.
fn index_after_flags<'a>(
    name: &str,
    args: &'a [String],
    spec: &str,
    skipped: usize,
) -> Result<(usize, Scanned<'a>), Outcome> {
    let scanned =
        scan(spec, args, Until::Operand).map_err(|why| Outcome::opaque(format!("`{name}`: {why}")))?;
    let first = scanned.first_operand.map(|at| at + skipped).filter(|at| *at < args.len());
    match first {
        Some(at) => Ok((at + 1, scanned)),
        None => Err(Outcome::opaque(format!("`{name}` without a program"))),
    }
}

fn plain_wrapper(name: &str, args: &[String], spec: &str, skipped: usize) -> Found {
    let (at, _) = index_after_flags(name, args, spec, skipped)?;
    match name {
        // `nohup` writes `nohup.out` if the output is a terminal.
        "nohup" | "setsid" | "exec" => Ok(Inner::Program {
            at,
            assignments: Vec::new(),
            has_unknown_tail: false,
            note: Some(format!("`{name}` lets a program outlive or replace the shell")),
            hazard: None,
        }),
        _ => Ok(program_at(at)),
    }
}

fn env(args: &[String]) -> Found {
    let (first, _) = index_after_flags("env", args, "i0 u: --ignore-environment --unset= --null", 0)?;
    if args.get(first - 1).is_some_and(|word| word == "-") {
        return Err(Outcome::opaque("`env -` is not followed"));
    }
    let mut assignments = Vec::new();
    let mut at = first;
    while let Some((name, value)) = args.get(at - 1).and_then(|word| word.split_once('=')) {
        if !is_name(name) {
            return Err(Outcome::opaque("`env` sets something that is no variable"));
        }
        assignments.push(Assignment { name: name.to_owned(), value: value.to_owned() });
        at += 1;
    }
    if at > args.len() {
        return Err(Outcome::opaque("`env` without a program prints the environment"));
    }
    Ok(Inner::Program { at, assignments, has_unknown_tail: false, note: None, hazard: None })
}

/// `command -v NAME` looks a program up; without `-v` it runs the rest.
fn command(args: &[String]) -> Option<Found> {
    match args.first().map(String::as_str) {
        Some("-v" | "-V") => None,
        Some(_) => Some(plain_wrapper("command", args, "", 0)),
        None => None,
    }
}

fn privileged_wrapper(name: &str, args: &[String], spec: &str) -> Found {
    let (at, _) = index_after_flags(name, args, spec, 0)?;
    if args.get(at - 1).is_some_and(|word| word.contains('=')) {
        return Err(Outcome {
            hazard: Some(Hazard::Privilege),
            ..Outcome::opaque(format!("`{name}` sets variables"))
        });
    }
    let note = Some(format!("`{name}` runs it as another user"));
    let hazard = Some(Hazard::Privilege);
    Ok(Inner::Program { at, assignments: Vec::new(), has_unknown_tail: false, note, hazard })
}

const XARGS_FLAGS: &str = "0rtx nPsLdEI: --null --no-run-if-empty --verbose --exit --max-args= --max-procs= --max-chars= \
    --max-lines= --delimiter= --replace=";

/// Whether `xargs` separates names by NUL and not by white space; `None` for another separator or another
/// program.
pub(super) fn reads_names_until_nul(argv: &[String]) -> Option<bool> {
    let (word, args) = argv.split_first()?;
    let scanned = scan(XARGS_FLAGS, args, Until::Operand).ok().filter(|_| base_name(word) == "xargs")?;
    (!scanned.has(&["d", "delimiter", "E"])).then(|| scanned.has(&["0", "null"]))
}

fn xargs(args: &[String]) -> Found {
    let (at, scanned) = index_after_flags("xargs", args, XARGS_FLAGS, 0)?;
    let inner = args.get(at - 1..).unwrap_or_default();
    let mark = scanned.values(&["I", "replace"]).last();
    let note = "`xargs` runs it with what it reads".to_owned();
    let Some(mark) = mark else {
        let note = Some(note);
        return Ok(Inner::Program {
            at,
            assignments: Vec::new(),
            has_unknown_tail: true,
            note,
            hazard: None,
        });
    };
    // Any text can replace the mark, also the name of a program.
    if inner.iter().any(|word| word.contains(mark)) {
        return Err(Outcome::opaque(note));
    }
    Ok(Inner::Program {
        at,
        assignments: Vec::new(),
        has_unknown_tail: false,
        note: Some(note),
        hazard: None,
    })
}

/// `sh -c TEXT`; other uses of a shell are not supported.
fn shell(args: &[String]) -> Option<Found> {
    match args {
        [flag, _] if flag == "-c" => Some(Ok(Inner::Script { at: 2 })),
        _ => None,
    }
}

fn busybox_applet(args: &[String]) -> Found {
    match args.first() {
        // Applets have other flags than the programs of the same name.
        Some(word) if !word.starts_with('-') => Ok(Inner::Program {
            at: 1,
            assignments: Vec::new(),
            has_unknown_tail: false,
            note: Some("`busybox` has programs of its own".to_owned()),
            hazard: None,
        }),
        Some(_) | None => Err(Outcome::opaque("`busybox` can start any program")),
    }
}
