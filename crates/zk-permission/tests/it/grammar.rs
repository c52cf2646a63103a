use std::fmt::Write as _;

use zk_permission::{Connector, NotUnderstood, Obstacle, Redirect, Script, quote};

use crate::support::bash;

fn words(text: &str) -> Vec<Vec<String>> {
    let script = Script::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
    script.commands.into_iter().map(|command| command.words).collect()
}

fn refused(text: &str) -> (usize, Obstacle) {
    let NotUnderstood { at, what } = Script::parse(text).expect_err(text);
    (at, what)
}

#[test]
fn quotes_and_escapes_are_taken_away() {
    assert_eq!(words(r#"a 'b c' "d \"e\" \n" f\ g'h'"i""#), [["a", "b c", r#"d "e" \n"#, "f ghi"]]);
    assert_eq!(words("a '' \"\""), [["a", "", ""]]);
    assert_eq!(words("a 'b\nc'"), [["a", "b\nc"]]);
    assert_eq!(words("a x#y #z"), [["a", "x#y"]]);
    assert_eq!(words("a 'é 日'"), [["a", "é 日"]]);
}

#[test]
fn operators_connect_commands() {
    let script = Script::parse("a && b || c; d | e\nf").unwrap();
    let connectors: Vec<_> = script.commands.iter().map(|command| command.connector).collect();
    assert_eq!(
        connectors,
        [Connector::First, Connector::And, Connector::Or, Connector::Then, Connector::Pipe, Connector::Then]
    );
    assert_eq!(script.commands.iter().map(|command| command.at).collect::<Vec<_>>(), [0, 5, 10, 13, 17, 19]);
}

#[test]
fn redirections_name_their_files() {
    let script = Script::parse("a <in >out 2>>err 2>&1 b").unwrap();
    assert_eq!(script.commands[0].words, ["a", "b"]);
    assert_eq!(
        script.commands[0].redirects,
        [
            Redirect::Read { path: "in".into() },
            Redirect::Write { path: "out".into(), appends: false },
            Redirect::Write { path: "err".into(), appends: true },
            Redirect::Duplicate,
        ]
    );
}

#[test]
fn one_simple_command_needs_no_shell() {
    let argv = |text| Script::parse(text).unwrap().argv().map(<[String]>::to_vec);
    assert_eq!(argv("cargo test 'a b'"), Some(vec!["cargo".into(), "test".into(), "a b".into()]));
    for text in ["ls | wc", "ls; ls", "ls > a", "A=b ls", "cd a", "echo a", "time ls"] {
        assert_eq!(argv(text), None, "{text}");
    }
}

#[test]
fn what_is_not_understood_says_where_and_what() {
    for (text, at, what) in [
        ("ls $HOME", 3, Obstacle::Expansion('$')),
        ("ls \"a`b`\"", 5, Obstacle::Expansion('`')),
        ("ls *", 3, Obstacle::Glob('*')),
        ("ls a[b]", 4, Obstacle::Glob('[')),
        ("ls {a,b}", 3, Obstacle::Brace('{')),
        ("ls ~", 3, Obstacle::Tilde),
        ("ls a=~/x", 5, Obstacle::Tilde),
        ("(ls)", 0, Obstacle::Parenthesis('(')),
        ("ls &", 3, Obstacle::Background),
        ("ls &> a", 3, Obstacle::Operator),
        ("ls |& a", 3, Obstacle::Operator),
        ("ls ;; a", 3, Obstacle::Operator),
        ("ls <<E", 3, Obstacle::HereDocument),
        ("ls <<< a", 3, Obstacle::HereDocument),
        ("ls 3> a", 4, Obstacle::Redirection),
        ("ls >&3", 3, Obstacle::Redirection),
        ("ls > ''", 3, Obstacle::Redirection),
        ("ls >/dev/tcp/a/1", 3, Obstacle::NetworkFile),
        ("if a", 0, Obstacle::Reserved),
        ("A=b", 0, Obstacle::Assignment),
        ("'A'=b c", 0, Obstacle::Assignment),
        ("> a", 0, Obstacle::NoCommand),
        ("ls &&", 3, Obstacle::Unfinished),
        ("; ls", 0, Obstacle::Unfinished),
        ("ls 'a", 3, Obstacle::OpenQuote('\'')),
        ("ls \"a", 3, Obstacle::OpenQuote('"')),
        ("ls \\\na", 3, Obstacle::Backslash),
        ("ls \\", 3, Obstacle::Backslash),
        ("ls \"\\\n\"", 4, Obstacle::Backslash),
        ("ls \"é\\\"\"", 6, Obstacle::Backslash),
        ("ls é", 3, Obstacle::NotAscii('é')),
        ("ls\r", 2, Obstacle::Control('\r')),
        ("ls '\0'", 4, Obstacle::Control('\0')),
        ("ls '\u{85}'", 4, Obstacle::Control('\u{85}')),
        ("ls\u{a0}a", 2, Obstacle::Invisible('\u{a0}')),
        ("ls '\u{202e}'", 4, Obstacle::Invisible('\u{202e}')),
        ("ls '\u{200b}'", 4, Obstacle::Invisible('\u{200b}')),
        ("ls '\u{e0041}'", 4, Obstacle::Invisible('\u{e0041}')),
        ("", 0, Obstacle::Empty),
        (" \n # a", 0, Obstacle::Empty),
    ] {
        assert_eq!(refused(text), (at, what), "{text:?}");
    }
}

#[test]
fn texts_beyond_the_limits_are_not_understood() {
    assert!(Script::parse(&format!("ls {}", "a".repeat(4_093))).is_ok());
    assert_eq!(refused(&format!("ls {}", "a".repeat(4_094))), (4_096, Obstacle::TooLong));
    assert!(Script::parse(&["a"; 50].join(";")).is_ok());
    assert_eq!(refused(&["a"; 51].join(";")), (100, Obstacle::TooManyCommands));
}

/// Words as models and attackers write them, put together at random.
const PIECES: [&str; 46] = [
    "a", "B", "1", "-x", "--y=z", "'", "\"", "\\", "'b c'", "\"d e\"", "\\ ", "\\'", "\\\"", "\\$", "\\`",
    "\\\\", "$", "`", "*", "?", "[", "]", "{", "}", "{}", "~", "=", ":", "#", "!", "%", "^", "@", "+", ",",
    ".", "/", "é", "\t", " ", " ", " ", "(", "'$x'", "\"\\n\"", "\n",
];

/// Bash prints the words of many texts in one run, without starting programs.
#[test]
fn bash_reads_the_same_words() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut script = String::new();
    let mut wanted = String::new();
    let mut understood = 0;
    for _ in 0..40_000 {
        let text: String = (0..random.usize(1..9)).map(|_| PIECES[random.usize(..PIECES.len())]).collect();
        let text = format!("printf '%s\\037' {text}");
        let Ok(parsed) = Script::parse(&text) else { continue };
        // A second command would be another program.
        let [command] = parsed.commands.as_slice() else { continue };
        if command.words.len() < 3 {
            continue;
        }
        understood += 1;
        writeln!(script, "{text}\necho").unwrap();
        for word in &command.words[2..] {
            write!(wanted, "{word}\u{1f}").unwrap();
        }
        wanted.push('\n');
    }
    assert!(understood > 3_000, "{understood}");
    let dir = tempfile::tempdir().unwrap();
    let got = bash(&script, dir.path(), "");
    assert_eq!(got.stderr, "");
    assert!(got.stdout == wanted, "the words of bash differ");
}

#[test]
fn what_is_quoted_is_read_back() {
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..5_000 {
        let word: String = (0..random.usize(..12)).map(|_| random.char('\t'..'\u{2ff}')).collect();
        let text = format!("a {}", quote(&word));
        match Script::parse(&text) {
            Ok(script) => assert_eq!(script.commands[0].words, ["a", &word]),
            Err(why) => {
                assert!(matches!(why.what, Obstacle::Control(_) | Obstacle::Invisible(_)), "{word:?}: {why}")
            }
        }
    }
}
