use zk_core::service::{OutputSink, OutputStream, Progress};

use super::classify::only_reads;
use super::tail::Tail;

#[test]
fn plain_reading_commands_may_run_side_by_side() {
    for command in [
        "ls",
        "ls -la",
        "ls -l src/main.rs",
        "cat a.txt b.txt",
        "head -n 20 src/lib.rs",
        "head -20 file",
        "tail -n 5 log",
        "wc -l file",
        "pwd",
        "echo hello",
        "stat -c %s file",
        "file a.bin",
        "du -sh .",
        "df -h",
        "which bash",
        "true",
        "false",
        "uname -a",
        "basename a/b",
        "dirname a/b",
        "realpath .",
        "readlink -f a",
        "grep -rn main src",
        "grep -n -A2 fn src/lib.rs",
        "diff -u a b",
        "cmp a b",
        "cut -f1 file",
        "nl file",
        "seq 1 5",
        "sha256sum file",
        "git rev-parse --show-toplevel",
        "git ls-files -m",
        "git blame -L 1,5 a.rs",
        "od -c file",
        "strings -n 8 file",
        "ls -- dir",
    ] {
        assert!(only_reads(command), "{command}");
    }
}

#[test]
fn everything_else_runs_alone() {
    for command in [
        "",
        " ",
        "rm a",
        "ls; rm a",
        "ls && rm a",
        "ls || rm a",
        "ls | sh",
        "ls > a",
        "ls >> a",
        "ls < a",
        "ls &",
        "ls $(rm a)",
        "ls `rm a`",
        "cat <(rm a)",
        "echo $HOME",
        "echo ${x:=1}",
        "ls \"a\"",
        "ls 'a'",
        "ls \\a",
        "ls\nrm a",
        "ls *",
        "ls a?",
        "ls [a]",
        "ls {a,b}",
        "ls ~/x",
        "ls !x",
        "ls #x",
        "(ls)",
        "{ ls }",
        "PATH=. ls",
        "LD_PRELOAD=x ls",
        "export PATH=.",
        "typeset -x A",
        "alias ls=rm",
        "env ls",
        "sudo ls",
        "xargs rm",
        "exec ls",
        "eval ls",
        "command ls",
        "builtin cd",
        "cd x",
        "source a",
        ". a",
        "bash -c ls",
        "sh a",
        "./ls",
        "/tmp/ls",
        "bin/cat a",
        "time ls",
        "nohup ls",
        "timeout 5 ls",
        "nice ls",
        "find . -delete",
        "find . -exec rm a +",
        "find . -fprintf a b",
        "find . -name a",
        "rg --pre sh x",
        "rg x",
        "sort --compress-program=sh a",
        "sort -o a b",
        "sort a",
        "uniq a b",
        "tee a",
        "dd if=a of=b",
        "cp a b",
        "mv a b",
        "ln -s a b",
        "touch a",
        "mkdir a",
        "rmdir a",
        "chmod +x a",
        "chown a b",
        "truncate -s 0 a",
        "tar --to-command=sh -xf a",
        "tar xf a",
        "man -P sh ls",
        "man ls",
        "less a",
        "more a",
        "vi a",
        "awk 1 a",
        "sed -i s/a/b/ c",
        "sed -n 1p a",
        "perl -e 1",
        "python a.py",
        "node a.js",
        "make",
        "cargo test",
        "npm test",
        "go build",
        "git status",
        "git log",
        "git diff",
        "git show",
        "git diff --ext-diff",
        "git show --textconv",
        "git -c core.pager=sh log",
        "git --exec-path=. log",
        "git commit -m a",
        "git push",
        "git checkout .",
        "git clean -fd",
        "git branch -D a",
        "git rev-parse --git-path x",
        "git ls-files --with-tree=a",
        "git blame --contents a b",
        "git",
        "tail -f log",
        "tail -F log",
        "tail --follow log",
        "tail --pid=1 -n 1 a",
        "tail -n5f log",
        "date",
        "date -s 0",
        "file -C -m a",
        "file -m a b",
        "file --compile a",
        "cat --unknown a",
        "ls --hyperlink",
        "diff --to-file=a b",
        "grep -f a b",
        "grep -rP x",
        "head --zero-terminated a",
        "wc --files0-from=a",
        "du --files0-from=a",
        "stat --printf=a b",
        "nl --output a",
        "curl a",
        "wget a",
        "ssh a",
        "nc a 1",
        "kill 1",
        "ps",
        "top",
        "yes",
        "sleep 1",
        "watch ls",
        "crontab -r",
        "ls \0",
        "l\u{17f}",
    ] {
        assert!(!only_reads(command), "{command}");
    }
}

#[test]
fn the_tail_is_kept_and_says_what_is_gone() {
    let mut tail = Tail::new(10, None, Progress::default());
    for piece in ["0123456789", "abc", "defghijklmnop", "q"] {
        tail.write(OutputStream::Stdout, piece.as_bytes());
    }
    assert_eq!(tail.finish().text, "…(17 bytes truncated from head)…\nhijklmnopq");
}

#[test]
fn a_cut_never_splits_a_character() {
    for max in 1..40 {
        let mut tail = Tail::new(max, None, Progress::default());
        for byte in "aé€😀".repeat(7).bytes() {
            tail.write(OutputStream::Stdout, &[byte]);
        }
        let text = tail.finish().text;
        assert!(!text.contains('\u{fffd}'), "{max}: {text}");
    }
}

#[test]
fn nothing_is_cut_that_fits() {
    for max in [0, 5] {
        let mut tail = Tail::new(max, None, Progress::default());
        tail.write(OutputStream::Stdout, b"12345");
        assert_eq!(tail.finish().text, "12345");
    }
}

#[test]
fn errors_begin_on_a_line_of_their_own() {
    let mut tail = Tail::new(0, None, Progress::default());
    tail.write(OutputStream::Stdout, b"out");
    tail.write(OutputStream::Stderr, b"err\n");
    tail.write(OutputStream::Stdout, b"more");
    assert_eq!(tail.finish().text, "out\nerr\nmore");
}

#[test]
fn a_watcher_gets_whole_characters_and_no_flood() {
    use std::sync::{Arc, Mutex};
    let seen = Arc::new(Mutex::new(String::new()));
    let sink = seen.clone();
    let mut tail = Tail::new(10, None, Progress::new(move |text| sink.lock().unwrap().push_str(text)));
    for byte in "a€😀b".bytes() {
        tail.write(OutputStream::Stdout, &[byte]);
    }
    assert_eq!(*seen.lock().unwrap(), "a€😀b");
    for _ in 0..3_000 {
        tail.write(OutputStream::Stdout, &[b'x'; 1024]);
    }
    assert!(seen.lock().unwrap().len() < 1_100_000);
}

#[test]
fn lines_are_counted_as_they_were_printed_not_as_they_were_kept() {
    for (pieces, total, kept) in [
        (&[""][..], 0, &[][..]),
        (&["a\nb\n"], 2, &["a", "b"]),
        (&["a\nb"], 2, &["a", "b"]),
        (&["one\n", "two\n", "three\n", "four\n"], 4, &["three", "four"]),
    ] {
        let mut tail = Tail::new(11, None, Progress::default());
        pieces.iter().for_each(|piece| tail.write(OutputStream::Stdout, piece.as_bytes()));
        let printed = tail.finish();
        assert_eq!(
            (printed.total_lines, &printed.lines[..]),
            (total, &kept.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()[..])
        );
    }
}
