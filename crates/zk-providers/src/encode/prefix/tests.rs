use std::cell::RefCell;
use std::sync::Arc;

use zk_core::model::{Message, Model, WireReady, WireRules};
use zk_core::service::Request;

use super::{Encode, PrefixCache, PrefixKey};

/// Encoder that writes the text of each message, a `*` after a marked one, and counts its writes.
#[derive(Default)]
struct Plain {
    marks: bool,
    wrote: RefCell<Vec<String>>,
}

impl Encode for Plain {
    fn head(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        self.wrote.borrow_mut().push("head".into());
        out.extend_from_slice(b"head[");
        Ok(())
    }

    fn message(
        &self,
        message: &Message,
        _: &[Arc<Message>],
        marked: bool,
        out: &mut Vec<u8>,
    ) -> serde_json::Result<()> {
        self.wrote.borrow_mut().push(message.text());
        out.extend_from_slice(message.text().as_bytes());
        if marked {
            out.push(b'*');
        }
        Ok(())
    }

    fn tail(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        out.extend_from_slice(b"]tail");
        Ok(())
    }

    fn is_marked(&self, at: usize, history: &[Arc<Message>]) -> bool {
        let is_named = history.get(at).is_some_and(|message| message.text().starts_with('!'));
        is_named || (self.marks && at + 1 == history.len())
    }
}

fn head(model: &str, system: &str) -> PrefixKey {
    let model = Model::unknown("p", model);
    let history = WireReady::normalise(&[], &WireRules::tolerant(model.reference()));
    PrefixKey::of(&Request { system: system.into(), ..Request::new(model, history) })
}

fn history(texts: &[&str]) -> Vec<Arc<Message>> {
    texts.iter().map(|text| Message::user_text(*text).shared()).collect()
}

fn write(
    prefixes: &PrefixCache,
    head: PrefixKey,
    history: &[Arc<Message>],
    marks: bool,
) -> (String, Vec<String>) {
    let encode = Plain { marks, ..Plain::default() };
    let body = prefixes.body(head, history, &encode).unwrap();
    (String::from_utf8(body.to_vec()).unwrap(), encode.wrote.into_inner())
}

#[test]
fn only_what_is_new_is_written() {
    let prefixes = PrefixCache::default();
    let all = history(&["a", "b", "c", "d"]);
    assert_eq!(write(&prefixes, head("m", "s"), &all[..2], false).0, "head[a,b]tail");
    let (body, wrote) = write(&prefixes, head("m", "s"), &all, false);
    assert_eq!((body.as_str(), wrote), ("head[a,b,c,d]tail", vec!["c".to_owned(), "d".to_owned()]));
}

#[test]
fn an_unshared_body_is_extended_in_place() {
    let prefixes = PrefixCache::default();
    let all = history(&["a", "b", "c"]);
    let write = |count: usize| prefixes.body(head("m", "s"), &all[..count], &Plain::default()).unwrap();
    let first = write(2);
    let second = write(3);
    assert_eq!((&first[..], &second[..]), (&b"head[a,b]tail"[..], &b"head[a,b,c]tail"[..]));
    let address = second.as_ptr();
    drop(second);
    let third = write(3);
    assert_eq!((&third[..], third.as_ptr()), (&b"head[a,b,c]tail"[..], address));
}

#[test]
fn a_mark_moves_on_and_leaves_nothing_behind() {
    let prefixes = PrefixCache::default();
    let all = history(&["a", "b", "c"]);
    assert_eq!(write(&prefixes, head("m", "s"), &all[..2], true).0, "head[a,b*]tail");
    let (body, wrote) = write(&prefixes, head("m", "s"), &all, true);
    assert_eq!((body.as_str(), wrote), ("head[a,b,c*]tail", vec!["b".to_owned(), "c".to_owned()]));
}

#[test]
fn text_after_a_removed_cache_mark_is_written_again() {
    let prefixes = PrefixCache::default();
    write(&prefixes, head("m", "s"), &history(&["a", "b", "c"]), true);
    let (body, wrote) = write(&prefixes, head("m", "s"), &history(&["a", "!", "c", "d"]), true);
    assert_eq!((body.as_str(), wrote.join("")), ("head[a,!*,c,d*]tail", "!cd".to_owned()));
    let (body, wrote) = write(&prefixes, head("m", "s"), &history(&["a", "!", "c", "d", "e"]), false);
    assert_eq!((body.as_str(), wrote.join("")), ("head[a,!*,c,d,e]tail", "!cde".to_owned()));
}

#[test]
fn equal_messages_are_as_good_as_the_same_ones() {
    let prefixes = PrefixCache::default();
    write(&prefixes, head("m", "s"), &history(&["a", "b"]), false);
    assert_eq!(write(&prefixes, head("m", "s"), &history(&["a", "b"]), false).1, Vec::<String>::new());
}

#[test]
fn a_changed_message_is_written_with_all_that_follow() {
    let prefixes = PrefixCache::default();
    write(&prefixes, head("m", "s"), &history(&["a", "b", "c"]), false);
    let (body, wrote) = write(&prefixes, head("m", "s"), &history(&["a", "x", "c"]), false);
    assert_eq!((body.as_str(), wrote), ("head[a,x,c]tail", vec!["x".to_owned(), "c".to_owned()]));
}

#[test]
fn a_new_head_keeps_the_messages_and_a_new_model_does_not() {
    let prefixes = PrefixCache::default();
    let all = history(&["a", "b"]);
    write(&prefixes, head("m", "s"), &all, false);
    assert_eq!(write(&prefixes, head("m", "other"), &all, false).1, ["head"]);
    assert_eq!(write(&prefixes, head("n", "s"), &all, false).1, ["head", "a", "b"]);
}

#[test]
fn conversations_that_take_turns_do_not_disturb_each_other() {
    let prefixes = PrefixCache::default();
    let names = ["w", "x", "y", "z"];
    let talks: Vec<_> = names.iter().map(|name| history(&[name, "2", "3", "4"])).collect();
    for length in 1..=4 {
        for talk in &talks {
            let (_, wrote) = write(&prefixes, head("m", "s"), &talk[..length], false);
            let expected = if length == 1 { 2 } else { 1 };
            assert!(wrote.len() <= expected, "{length}: {wrote:?}");
        }
    }
}
