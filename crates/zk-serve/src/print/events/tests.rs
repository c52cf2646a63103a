use serde::Serialize;
use serde_json::{Value, json};
use zk_core::events::{StreamText, SystemBefore};
use zk_core::kernel::{Bus, Event, Notify};

use super::*;

fn line<E: Event>(event: &E, cx: &Cx) -> String {
    redacted_line(event, cx, &Redactor::new())
}

fn redacted_line<E: Event>(event: &E, cx: &Cx, redactor: &Redactor) -> String {
    let mut out = Vec::new();
    write_event(event, cx, redactor, &mut out);
    String::from_utf8(out).unwrap()
}

#[derive(Serialize)]
struct Empty {}
impl Event for Empty {
    const NAME: &'static str = "test:empty";
    type Reply = ();
    type Mode = Notify;
}

#[derive(Serialize)]
struct List(Vec<u32>);
impl Event for List {
    const NAME: &'static str = "test:list";
    type Reply = ();
    type Mode = Notify;
}

struct Unserialisable;
impl Serialize for Unserialisable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("no"))
    }
}
impl Event for Unserialisable {
    const NAME: &'static str = "test:broken";
    type Reply = ();
    type Mode = Notify;
}

#[test]
fn a_line_is_the_type_and_the_data_beside_it() {
    let event = StreamText { turn_id: "t".into(), delta: "a\n\"b\"".into() };
    let line = line(&event, &Bus::new().cx());
    assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
    let value: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value, json!({"type": "stream:text", "turn_id": "t", "delta": "a\n\"b\""}));
}

#[test]
fn events_without_fields_and_events_that_are_no_objects_stay_valid() {
    let cx = Bus::new().cx();
    assert_eq!(line(&Empty {}, &cx), "{\"type\":\"test:empty\"}\n");
    assert_eq!(line(&List(vec![1, 2]), &cx), "{\"type\":\"test:list\",\"data\":[1,2]}\n");
}

#[test]
fn a_sub_agent_is_named() {
    let cx = Bus::new().child("helper \"1\"").cx();
    let value: Value = serde_json::from_str(&line(&Empty {}, &cx)).unwrap();
    assert_eq!(value, json!({"type": "test:empty", "agent": "helper \"1\"", "depth": 1}));
}

#[test]
fn system_prompts_and_unserialisable_events_print_no_line() {
    let cx = Bus::new().cx();
    assert_eq!(line(&SystemBefore { system: "s".into() }, &cx), "");
    assert_eq!(line(&Unserialisable, &cx), "");
}

#[test]
fn every_left_out_name_is_an_event() {
    let names: Vec<_> = zk_core::events::catalogue().into_iter().map(|event| event.name).collect();
    for name in LEFT_OUT {
        assert!(names.contains(&name), "{name}");
    }
}

#[test]
fn a_key_is_nowhere_in_a_line_and_the_line_stays_json() {
    let redactor = Redactor::new();
    redactor.learn("correct-horse-battery");
    let cut = "-----BEGIN PRIVATE KEY-----\nMIIEvQ";
    let delta = format!("is correct-horse-battery\nand https://a:hunter2@b and {cut}");
    let event = StreamText { turn_id: "t".into(), delta };
    let line = redacted_line(&event, &Bus::new().cx(), &redactor);
    let value: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["delta"], "is [redacted]\nand https://a:[redacted]@b and [redacted]");
}

#[test]
fn the_protocol_is_the_first_part_of_the_version_of_the_events() {
    let major = zk_core::events::EVENTS_VERSION.split('.').next().unwrap();
    assert_eq!(major.parse(), Ok(PROTOCOL_VERSION));
}
