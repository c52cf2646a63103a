//! Budgets of money and tokens, through the program.

use serde_json::{Value, json};
use zk_core::model::Usage;
use zk_testkit::{Script, Turn};

use crate::zk::{Person, server};

/// Script that calls a tool forever, with ten thousand tokens per request.
fn endless() -> Script {
    Script::answering(|asked| {
        let usage = Usage { input: 9_000, output: 1_000, ..Usage::default() };
        Turn::new().call("list_files", json!({ "path": ".", "again": asked.number })).usage(usage)
    })
}

#[test]
fn a_run_ends_with_3_before_the_request_that_its_budget_cannot_pay() {
    let server = server(endless());
    let person = Person::asking(&server);
    let args = ["-p", "x", "--max-tokens", "2000", "--max-tokens-total", "90000", "--output-format", "json"];
    let ended = person.run(&args);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&result["subtype"], &result["stop_reason"]), (&json!("limit"), &json!("budget")));
    let error = result["error"].as_str().unwrap();
    assert!(error.contains(" of 90000 tokens are spent, and the next request may take up to "), "{error}");
    assert!(error.ends_with(": --max-tokens-total raises it"), "{error}");
    let usage: Usage = serde_json::from_value(result["usage"].clone()).unwrap();
    assert!((1..=90_000).contains(&(usage.read() + usage.output)), "{usage:?}");
    assert!(server.bodies().len() > 1);
}

#[test]
fn a_budget_in_dollars_comes_from_a_flag_or_from_the_own_settings() {
    let server = server(endless());
    let person = Person::asking(&server);
    for (settings, args) in
        [("", &["--max-budget-usd", "$0.000001"][..]), ("max_budget_usd = 0.000001\n", &[][..])]
    {
        person.settings(settings);
        let ended = person.run(&[&["-p", "x"][..], args].concat());
        assert_eq!((ended.code, server.bodies().len()), (3, 0), "{}", ended.stderr);
        assert!(ended.stderr.contains("--max-budget-usd raises it"), "{}", ended.stderr);
    }
    for wrong in ["0", "-1", "much"] {
        assert_eq!(person.run(&["-p", "x", "--max-budget-usd", wrong]).code, 2);
    }
    person.settings("");
    person.write(".zk/settings.toml", "max_budget_usd = 100\n");
    assert_eq!(person.run(&["trust", "add"]).code, 0);
    let ended = person.run(&["-p", "x", "--max-tokens-total", "5000"]);
    assert!(ended.stderr.contains("`max_budget_usd` is ignored"), "{}", ended.stderr);
}
