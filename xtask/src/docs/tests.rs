use serde_json::json;

use super::events::page;

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
    let page = page(&catalogue()).unwrap();
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
    assert!(page(&json!({})).is_err());
    assert!(page(&json!([{ "name": "tool:gate" }])).is_err());
}
