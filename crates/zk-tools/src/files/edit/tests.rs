use std::ops::ControlFlow;

use fastrand::Rng;
use unicode_normalization::UnicodeNormalization;

use super::change::{self, Failure, Lines, Replacement};
use super::matching::{How, find, without_numbers};
use crate::tool_names::ToolNames;

fn edit(old: &str, new: &str) -> Replacement {
    Replacement { old: old.into(), new: new.into(), all: false }
}

fn at(lines: &[usize]) -> Lines {
    Lines { count: lines.len(), first: lines.to_vec() }
}

#[derive(Debug)]
struct Changed {
    content: Vec<u8>,
    how: How,
}

fn apply(content: &[u8], edit: &Replacement) -> Result<Changed, Failure> {
    let planned = change::plan(content, edit)?;
    let made = planned.apply(content.to_vec());
    assert_eq!(planned.changes(content), made != content, "{content:?} {edit:?}");
    Ok(Changed { content: made, how: planned.how() })
}

fn changed(content: &[u8], old: &str, new: &str) -> Vec<u8> {
    apply(content, &edit(old, new)).unwrap().content
}

#[test]
fn an_exact_match_replaces_just_that() {
    assert_eq!(changed(b"a b c", "b", "x"), b"a x c");
    assert_eq!(changed(b"\xff\x00b\xfe", "b", "x"), b"\xff\x00x\xfe");
    assert_eq!(changed(b"\xef\xbb\xbffn a", "fn a", "fn b"), b"\xef\xbb\xbffn b");
    assert_eq!(changed(b"one\ntwo\n", "two\n", ""), b"one\n");
}

#[test]
fn line_numbers_copied_from_a_read_do_not_matter() {
    let content = b"fn a() {\n    1\n}\n";
    assert_eq!(changed(content, "1\tfn a() {\n2\t    1", "1\tfn a() {\n2\t    2"), b"fn a() {\n    2\n}\n");
    assert_eq!(changed(content, "  2\t    1\n", "    3\n"), b"fn a() {\n    3\n}\n");
    assert_eq!(without_numbers("1\ta\n\n3\tb").as_deref(), Some("a\n\nb"));
    assert_eq!(without_numbers("1\ta\nb"), None);
}

#[test]
fn inserted_text_takes_the_line_ends_of_the_place() {
    assert_eq!(changed(b"a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb"), b"a\r\nx\r\nb\r\nc\r\n");
    assert_eq!(changed(b"a\r\nb\r\n", "b", "x\ny"), b"a\r\nx\r\ny\r\n");
    assert_eq!(changed(b"a\nb\r\nc\r\nd\n", "b\nc", "x\ny"), b"a\nx\r\ny\r\nd\n");
    assert_eq!(changed(b"a\nb\r\nc\n", "c", "x\ny"), b"a\nb\r\nx\ny\n");
    assert_eq!(changed(b"a\nb\n", "a", "x\r\ny"), b"x\ny\nb\n");
    assert_eq!(changed(b"alone", "alone", "a\nb"), b"a\nb");
    assert_eq!(changed(b"a\r\nb", "b", "x\ny"), b"a\r\nx\r\ny");
}

#[test]
fn a_line_feed_is_not_torn_from_its_carriage_return() {
    assert_eq!(changed(b"x\r\nfoo\r\ny", "\nfoo", ""), b"x\r\ny");
    assert_eq!(changed(b"x\r\nfoo\r\ny", "\nfoo", "\nbar"), b"x\r\nbar\r\ny");
}

#[test]
fn an_edit_that_changes_line_ends_keeps_its_own() {
    assert_eq!(changed(b"a\r\nb\r\n", "a\r\nb", "a\nb"), b"a\nb\r\n");
}

#[test]
fn white_space_at_line_ends_does_not_matter() {
    assert_eq!(changed(b"foo();  \nbar();\n", "foo();\nbar();", "foo();\nbaz();"), b"foo();  \nbaz();\n");
    assert_eq!(changed(b"foo();\nbar();\n", "foo();  \nbar();  ", "foo();\nqux();"), b"foo();\nqux();\n");
    let failure = apply(b"foobar", &edit("foo ", "x")).unwrap_err();
    assert!(matches!(failure, Failure::Missing(_)), "`foo ` is not the beginning of `foobar`: {failure:?}");
}

#[test]
fn typographic_characters_match_plain_ones_and_stay_where_nothing_changes() {
    let content = "say(\u{201c}it\u{2019}s\u{201d}, 1); // \u{2014}\u{a0}ok\n".as_bytes();
    let found = changed(content, "say(\"it's\", 1); // - ok", "say(\"it's\", 2); // - ok");
    assert_eq!(found, "say(\u{201c}it\u{2019}s\u{201d}, 2); // \u{2014}\u{a0}ok\n".as_bytes());
}

#[test]
fn what_unicode_writes_in_several_ways_matches_and_stays_where_nothing_changes() {
    for (content, old, new, expected) in [
        // Separate combining accent, in the file or in the call.
        ("let cafe\u{301} = 1;\n", "let caf\u{e9} = 1;", "let caf\u{e9} = 2;", "let cafe\u{301} = 2;\n"),
        ("let caf\u{e9} = 1;\n", "let cafe\u{301} = 1;", "let cafe\u{301} = 2;", "let caf\u{e9} = 2;\n"),
        // A ligature is one character: it stays whole, or goes whole.
        ("of\u{fb01}ce hours\n", "office hours", "office days", "of\u{fb01}ce days\n"),
        ("a \u{fb01}x\n", "a fix", "a fox", "a fox\n"),
        ("\u{ff21}\u{ff22}\u{ff23}(1)", "ABC(1)", "ABC(2)", "\u{ff21}\u{ff22}\u{ff23}(2)"),
        ("wait\u{2026} 5\u{a0}\u{33a1}", "wait... 5 m2", "wait... 6 m2", "wait\u{2026} 6\u{a0}\u{33a1}"),
        ("\u{1112}\u{1161}\u{11ab} a", "\u{d55c} a", "\u{d55c} b", "\u{1112}\u{1161}\u{11ab} b"),
        // An accent that changes takes the letter with it.
        ("e\u{301}t\u{e9}", "\u{e9}t\u{e9}", "\u{e8}t\u{e9}", "\u{e8}t\u{e9}"),
        ("cafe\u{301} \u{fb01}", "cafe\u{301} fi", "cafe\u{300} fi", "cafe\u{300} \u{fb01}"),
    ] {
        let made = changed(content.as_bytes(), old, new);
        assert_eq!(String::from_utf8(made).unwrap(), expected, "{content:?} {old:?} {new:?}");
    }
    // Half of a character does not match, and a text that occurs twice is ambiguous.
    assert!(matches!(apply("\u{fb01}".as_bytes(), &edit("i", "x")), Err(Failure::Missing(_))));
    assert!(matches!(apply("cafe\u{301}".as_bytes(), &edit("caf\u{e9}s", "x")), Err(Failure::Missing(_))));
    let twice = "\u{ff21} \n\u{ff21}\n".as_bytes();
    assert_eq!(apply(twice, &edit("A", "b")).unwrap_err(), Failure::Ambiguous(at(&[1, 2])));
}

#[test]
fn an_addition_keeps_what_it_is_added_to() {
    let content = b"one  \r\ntwo\t\r\nthree\r\n";
    assert_eq!(changed(content, "one\ntwo", "one\ntwo\nmore"), b"one  \r\ntwo\r\nmore\t\r\nthree\r\n");
    assert_eq!(changed(content, "two\nthree", "new\ntwo\nthree"), b"one  \r\nnew\r\ntwo\t\r\nthree\r\n");
}

#[test]
fn an_ambiguous_text_is_refused_with_its_lines() {
    assert_eq!(apply(b"a\nb\na\n\na", &edit("a", "x")).unwrap_err(), Failure::Ambiguous(at(&[1, 3, 5])));
    assert_eq!(apply(b"aaa", &edit("aa", "x")).unwrap_err(), Failure::Ambiguous(at(&[1, 1])));
    let error = apply(b"a\nb\na\n", &edit("a", "x")).unwrap_err().explain(
        "f.rs",
        "",
        &ToolNames::of(&zk_core::kernel::Bus::new().cx()),
    );
    assert_eq!(
        error.message,
        "old_string stands 2 times in `f.rs`, at lines 1, 3; add surrounding lines to make it unique, or set \
         replace_all"
    );
}

#[test]
fn replace_all_replaces_every_occurrence_once() {
    let all = |content: &[u8], old: &str, new: &str| {
        apply(content, &Replacement { all: true, ..edit(old, new) }).unwrap().content
    };
    assert_eq!(all(b"a b a b a", "a", "aa"), b"aa b aa b aa");
    assert_eq!(all(b"aaaaa", "aa", "b"), b"bba");
    assert_eq!(all(b"x\r\ny\nx\r\ny\n", "x\ny", "x\nz"), b"x\r\nz\nx\r\nz\n");
}

#[test]
fn a_text_that_is_not_there_shows_what_is_most_like_it() {
    let content = "fn alpha() {}\nfn beta(count: usize) -> usize {\n    count + 1\n}\nfn gamma() {}\n";
    let failure =
        apply(content.as_bytes(), &edit("fn beta(n: usize) -> usize {\n    n + 1", "x")).unwrap_err();
    let message = failure.explain("f.rs", "", &ToolNames::of(&zk_core::kernel::Bus::new().cx())).message;
    assert_eq!(
        message,
        "old_string is not in `f.rs`. Most like it:\n2\tfn beta(count: usize) -> usize {\n3\t    count + 1\nCopy the \
         text exactly."
    );
    let failure = apply(content.as_bytes(), &edit("zzzzzzzzzzzzzzzzzz", "x")).unwrap_err();
    assert_eq!(failure, Failure::Missing(None));
}

#[test]
fn an_edit_that_says_nothing_is_refused() {
    assert_eq!(apply(b"a", &edit("", "x")).unwrap_err(), Failure::Empty);
    assert_eq!(apply(b"a", &edit("a", "a")).unwrap_err(), Failure::Same);
    assert!(matches!(apply(b"a \n", &edit(" \n ", "x")).unwrap_err(), Failure::Missing(_)));
}

#[test]
fn a_big_file_is_searched_for_likeness_in_bounded_time() {
    let content: String = (0..60_000).map(|n| format!("let value_{n} = compute({n});\n")).collect();
    let failure = apply(content.as_bytes(), &edit("let valu_777 = compute(777)", "x")).unwrap_err();
    assert!(matches!(failure, Failure::Missing(Some(text)) if text.contains("value_777")));
}

/// Pieces files are made of: ordinary ones, and every kind that has been damaged by an editor before.
const PIECES: [&[u8]; 27] = [
    b"a",
    b"b",
    b"ab",
    b"a b",
    b"\n",
    b"\n",
    b"\r\n",
    b"\r\n",
    b"\r",
    b"  ",
    b"\t",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xe2\x80",
    "\u{201c}".as_bytes(),
    "\u{2019}é".as_bytes(),
    "\u{a0}".as_bytes(),
    b"1\t",
    b"\xc3",
    "\u{301}".as_bytes(),
    "e\u{301}".as_bytes(),
    "\u{fb01}".as_bytes(),
    "\u{2026}".as_bytes(),
    "\u{1112}\u{1161}\u{11ab}".as_bytes(),
    "\u{ff8a}\u{ff9f}".as_bytes(),
    "\u{b4}".as_bytes(),
];

fn bytes(rng: &mut Rng, most: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..rng.usize(0..=most) {
        match rng.choice(PIECES.iter()) {
            Some(piece) if rng.u8(..) < 240 => out.extend_from_slice(piece),
            _ => out.push(rng.u8(..)),
        }
    }
    out
}

fn string(rng: &mut Rng, most: usize) -> String {
    String::from_utf8_lossy(&bytes(rng, most)).into_owned()
}

/// Checks that an edit leaves all bytes outside of its matches unchanged.
fn outside_is_untouched(content: &[u8], old: &str, new: &str, all: bool) {
    let Ok(done) = apply(content, &Replacement { old: old.into(), new: new.into(), all }) else { return };
    let found = [Some(old.to_owned()), without_numbers(old)]
        .into_iter()
        .flatten()
        .find_map(|old| find(content, &old, new))
        .unwrap();
    let mut places = Vec::new();
    found.each_place(content, new, &mut |place| {
        places.push(place);
        ControlFlow::Continue(())
    });
    assert_eq!((places.len(), &places[..found.first.len()]), (found.count, &*found.first));
    let (first, last) = (places.first().unwrap(), places.last().unwrap());
    let (head, tail) = (&content[..first.matched.start], &content[last.matched.end..]);
    assert!(done.content.starts_with(head), "before: {content:?} {old:?} {new:?} -> {:?}", done.content);
    assert!(done.content.ends_with(tail), "after: {content:?} {old:?} {new:?} -> {:?}", done.content);
    for place in &places {
        assert!(place.matched.start <= place.replaced.start && place.replaced.end <= place.matched.end);
    }
    if !all {
        let replaced = places[0].replaced.clone();
        assert!(done.content.starts_with(&content[..replaced.start]));
        assert!(done.content.ends_with(&content[replaced.end..]));
    }
}

#[test]
fn an_edit_changes_nothing_outside_its_match() {
    for seed in 0..100_000 {
        let mut rng = Rng::with_seed(seed);
        let (old, new) = (string(&mut rng, 4), string(&mut rng, 4));
        let content = [&bytes(&mut rng, 6), old.as_bytes(), &bytes(&mut rng, 6)].concat();
        outside_is_untouched(&content, &old, &new, rng.bool());
    }
}

#[test]
fn a_tolerant_edit_changes_nothing_outside_its_match() {
    for seed in 0..100_000 {
        let mut rng = Rng::with_seed(seed);
        let (old, new) = (string(&mut rng, 5), string(&mut rng, 4));
        // The file has the text in another form than the model remembers.
        let (old, dressed) = match rng.u8(0..6) {
            0 => (old.clone(), old.replace("\r\n", "\n").replace('\n', "\r\n")),
            1 => (old.clone(), old.replace('\n', "  \t\n")),
            2 => (old.nfkc().collect(), old.clone()),
            3 => (old.clone(), old.nfkd().collect()),
            4 => (old.replace('\u{2019}', "'"), old.replace('\u{201c}', "\"")),
            _ => (old.clone(), old.replace("\r\n", "\n")),
        };
        let content = [&bytes(&mut rng, 5), dressed.as_bytes(), &bytes(&mut rng, 5)].concat();
        outside_is_untouched(&content, &old, &new, false);
    }
}

/// An edited file in any form has its old normalised content with the new text in place of the old one.
#[test]
fn an_edit_of_a_text_in_another_form_is_that_edit() {
    const LETTERS: [&str; 10] =
        ["a", "e", "fi", "\u{e9}", "e\u{301}", "\u{fb01}", "\u{1e9b}\u{323}", "\u{ff9f}", "\u{d55c}", "1"];
    let mut made = 0;
    for seed in 0..20_000 {
        let mut rng = Rng::with_seed(seed);
        let word =
            |rng: &mut Rng| (0..rng.usize(1..6)).map(|_| LETTERS[rng.usize(..LETTERS.len())]).collect();
        let (old, new): (String, String) = (word(&mut rng), word(&mut rng));
        let dressed: String = match rng.u8(0..3) {
            0 => old.nfd().collect(),
            1 => old.nfkd().collect(),
            _ => old.nfc().collect(),
        };
        let content = format!("x {dressed}.");
        let Ok(done) = apply(content.as_bytes(), &edit(&old, &new)) else { continue };
        let said: String = String::from_utf8(done.content).unwrap().nfkc().collect();
        let expected: String = format!("x {}.", new).nfkc().collect();
        assert_eq!(said, expected, "{content:?} {old:?} {new:?}");
        made += usize::from(done.how == How::Tolerant);
    }
    assert!(made > 3_000, "{made}");
}

/// The converse: the match is replaced by exactly the new text, with the file's line ends.
#[test]
fn a_unique_exact_edit_is_a_plain_replacement() {
    let mut made = 0;
    for seed in 0..100_000 {
        let mut rng = Rng::with_seed(seed);
        let (old, new) = (string(&mut rng, 3), string(&mut rng, 3).replace(['\r', '\n'], ""));
        let (before, after) = (bytes(&mut rng, 4), bytes(&mut rng, 4));
        let content = [&before, old.as_bytes(), &after].concat();
        let Ok(done) = apply(&content, &edit(&old, &new)) else { continue };
        if done.how == How::Exact && !old.starts_with('\n') && without_numbers(&old).is_none() {
            assert_eq!(
                done.content,
                [&before, new.as_bytes(), &after].concat(),
                "{content:?} {old:?} {new:?}"
            );
            made += 1;
        }
    }
    assert!(made > 10_000, "{made}");
}
