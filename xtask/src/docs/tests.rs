use serde_json::json;

use super::emitted::Emitters;
use super::events::page;
use super::schemas::check_version;
use crate::workspace::Text;

fn catalogue() -> serde_json::Value {
    json!([{
        "name": "tool:gate",
        "phase": "tool",
        "rust": "ToolGate",
        "mode": "Fold",
        "reply": "Ruling",
        "on_error": "throw",
        "cancellable": false,
        "reach": "descendants",
        "time_limit_ms": 2500,
        "schema": {
            "description": "May this call run? See [`Ruling`].",
            "properties": {
                "call": { "description": "The\ncall | its id.", "$ref": "#/$defs/CallRef" },
                "counts": { "type": "object", "additionalProperties": { "type": "integer" } },
                "limits": { "type": "array", "items": { "type": "array", "prefixItems": [{ "type": "string" }] } },
                "note": { "anyOf": [{ "$ref": "#/$defs/Kind" }, { "type": "null" }] },
                "args": true,
            },
            "required": ["call", "limits"],
            "$defs": {
                "CallRef": { "description": "Which call.", "properties": { "name": { "type": "string" } } },
                "Kind": {
                    "description": "What kind.",
                    "oneOf": [
                        { "description": "One.", "const": "one", "type": "string" },
                        { "properties": { "kind": { "const": "two" } }, "$ref": "#/$defs/CallRef" },
                    ],
                },
            },
        },
    }])
}

#[test]
fn a_page_says_what_an_event_is_and_carries() {
    let page = page(&catalogue(), &Emitters::new(&[])).unwrap();
    for expected in [
        "| [`tool:gate`](#toolgate) | `Fold` | `Ruling` |",
        "## Phase: tool",
        "May this call run? See `Ruling`.",
        "- A handler that fails ends the emit",
        "- A handler has 2.5 s",
        "- Announced although the run was stopped",
        "- Handlers receive the events of sub-agents too",
        "| `call` | [`CallRef`](#type-callref) | The call \\| its id. |",
        "| `counts` | map of integer | May be absent. |",
        "| `limits` | list of [string] |  |",
        "| `note` | [`Kind`](#type-kind) or null |  |",
        "| `args` | any JSON | May be absent. |",
        "### Type `Kind`\n\nWhat kind.\n\nOne of:\n\n- `\"one\"`: One.\n",
        "- `kind`: `\"two\"`, the fields of [`CallRef`](#type-callref)",
    ] {
        assert!(page.contains(expected), "{expected}\nis not in\n{page}");
    }
}

#[test]
fn a_catalogue_that_is_none_is_an_error() {
    assert!(page(&json!({}), &Emitters::new(&[])).is_err());
    assert!(page(&json!([{ "name": "tool:gate" }]), &Emitters::new(&[])).is_err());
}

#[test]
fn an_event_that_no_crate_makes_is_marked() {
    const MARK: &str = "No crate of zk emits it yet";
    let page_with = |path: &str, text: &str| {
        let texts = [Text { path: path.into(), text: text.into() }];
        page(&catalogue(), &Emitters::new(&texts)).unwrap()
    };
    let makes = "cx.emit(ToolGate { call }).await?;";
    for path in ["crates/zk-agent/src/call.rs", "crates/zk-core/src/service/tool/call/steps.rs"] {
        assert!(!page_with(path, makes).contains(MARK), "{path}");
    }
    for (path, text) in [
        ("crates/zk-agent/src/call.rs", "scope.on_sync(|gate: &ToolGate, _| MyToolGate { gate });"),
        ("crates/zk-agent/tests/it/gates.rs", makes),
        ("crates/zk-core/src/events/tool/gate.rs", makes),
    ] {
        assert!(page_with(path, text).contains(MARK), "{path}: {text}");
    }
}

#[test]
fn a_shape_that_changes_without_its_version_is_refused() {
    let known =
        json!({ "version": "1.0", "properties": { "a": { "description": "One.", "type": "string" } } });
    let mut new = known.clone();
    new["properties"]["a"]["description"] = json!("Said better.");
    check_version("p.json", Some(&known), &new).unwrap();
    new["properties"]["b"] = json!({ "type": "string" });
    let error = check_version("p.json", Some(&known), &new).unwrap_err().to_string();
    assert!(error.contains("p.json") && error.contains("still 1.0"), "{error}");
    new["version"] = json!("1.1");
    check_version("p.json", Some(&known), &new).unwrap();
    check_version("p.json", None, &new).unwrap();
}
