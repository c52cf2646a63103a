use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Check, Layer, LayerValues, MergedSettings, Origin, Schema};

/// Searches.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default)]
struct Search {
    /// Results of one search.
    #[schemars(range(min = 1), extend("x-former" = ["search.hits", "finder.hits"]))]
    results: u32,
    /// Part of the memory.
    #[schemars(range(min = 0.0, max = 1.0))]
    share: Option<f64>,
    /// Order of results.
    order: Order,
    /// Directories.
    #[schemars(inner(regex(pattern = "^/")), extend("x-expected" = "a list of absolute paths"))]
    roots: Vec<String>,
    /// Weights by name.
    #[schemars(with = "BTreeMap<String, NonZeroU32>")]
    weights: BTreeMap<String, u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Order {
    /// The best first.
    #[default]
    ByScore,
    /// The newest first.
    ByDate,
}

impl Default for Search {
    fn default() -> Self {
        Self { results: 10, share: None, order: Order::ByScore, roots: Vec::new(), weights: BTreeMap::new() }
    }
}

/// Rules.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-guarded" = true, "x-by-projects" = false))]
struct Rules {
    /// Refused calls.
    #[schemars(extend("x-by-projects" = true, "x-merge" = "append"))]
    deny: Vec<String>,
    /// Key of the server.
    #[schemars(extend("x-credential" = true))]
    token: Option<String>,
    /// Words of people.
    #[schemars(extend("x-secret" = true))]
    notes: BTreeMap<String, String>,
}

fn schema() -> Schema {
    Schema::default().section::<Search>("search").section::<Rules>("rules")
}

fn check(key: &str, value: &str, layer: Layer) -> Check {
    let path: Vec<String> = key.split('.').map(str::to_owned).collect();
    let table: toml::Table = format!("value = {value}").parse().unwrap();
    schema().check(&path, &table["value"], layer)
}

#[test]
fn a_wrong_value_is_told_in_the_words_of_its_type() {
    for (key, value, told) in [
        ("search.results", "0", "`search.results` must be a whole number from 1"),
        ("search.results", "\"x\"", "`search.results` must be a whole number from 1"),
        ("search.share", "1.5", "`search.share` must be a number from 0 to 1"),
        ("search.share", "nan", "`search.share` must be a number from 0 to 1"),
        ("search.order", "\"best\"", "`search.order` cannot be `best`; use `by-score` or `by-date`"),
        ("search.order", "3", "`search.order` must be `by-score` or `by-date`"),
        ("search.roots", "[\"a\"]", "`search.roots` must be a list of absolute paths"),
        ("search.weights.a", "0", "`search.weights.a` must be a whole number from 1"),
        ("rules", "3", "`rules` must be a table: [rules]"),
        ("rules.deny", "\"rm\"", "`rules.deny` must be a list of texts in quotes"),
        ("rules.dney", "[]", "unknown setting `rules.dney`; did you mean `rules.deny` or `rules.token`?"),
        ("rulse.deny", "[]", "unknown setting `rulse.deny`; did you mean `rules.deny` or `rules.token`?"),
    ] {
        assert_eq!(check(key, value, Layer::User), Check::Invalid(told.to_owned()), "{key} = {value}");
    }
    for (key, value) in [
        ("search.results", "5"),
        ("search.share", "1"),
        ("search.order", "\"by-date\""),
        ("search.roots", "[\"/a\"]"),
        ("search.weights.a", "3"),
        ("rules.notes.a", "\"x\""),
    ] {
        assert_eq!(check(key, value, Layer::User), Check::Valid, "{key} = {value}");
    }
    for (key, value) in [("search", "3"), ("search.results.most", "3")] {
        assert!(matches!(check(key, value, Layer::User), Check::Ignored(_)), "{key} = {value}");
    }
    let told =
        "unknown setting `search.result`; did you mean `search.results`, `search.roots` or `search.share`?";
    assert_eq!(check("search.result", "5", Layer::User), Check::Warn(told.to_owned()));
}

#[test]
fn the_nearest_mark_says_whether_a_project_may_set_a_key() {
    for (key, is_ignored) in
        [("rules.token", true), ("rules.unknown", true), ("rules.deny", false), ("search.results", false)]
    {
        let value = if key == "search.results" { "5" } else { "[\"x\"]" };
        let ignored = matches!(check(key, value, Layer::Project), Check::Ignored(_));
        assert_eq!(ignored, is_ignored, "{key}");
    }
}

#[test]
fn sections_are_read_from_all_layers_and_secrets_are_in_no_table_and_no_line() {
    let mut settings = MergedSettings::new(Arc::new(schema()));
    let mut warnings = Vec::new();
    let mut set = |layer, key: &str, value: toml::Value| {
        let origin = Origin { layer, place: format!("{layer:?}") };
        let key = key.split('.').map(str::to_owned).collect();
        settings.set(key, value, &origin, &mut warnings).unwrap();
    };
    set(Layer::User, "search.results", 20.into());
    set(Layer::User, "rules.deny", vec!["a".to_owned()].into());
    set(Layer::Project, "rules.deny", vec!["b".to_owned()].into());
    set(Layer::Project, "search.order", "by-date".into());
    set(Layer::User, "rules.token", "canary".into());
    set(Layer::User, "rules.notes.a", "canary".into());
    assert_eq!(warnings, Vec::<String>::new());
    let search: Search = settings.section("search").unwrap();
    assert_eq!((search.results, search.order, search.share), (20, Order::ByDate, None));
    let rules: Rules = settings.section("rules").unwrap();
    assert_eq!((rules.deny, rules.token.as_deref()), (vec!["b".to_owned()], Some("")));
    let appended: Vec<_> =
        settings.appended().iter().map(|list| (list.layer, list.value.to_string())).collect();
    assert_eq!(appended, [(Layer::User, "[\"a\"]".to_owned()), (Layer::Project, "[\"b\"]".to_owned())]);
    let shown = format!("{settings:?}{:?}", settings.lines(true));
    assert!(!shown.contains("canary"), "{shown}");
    assert!(settings.at(&["rules".to_owned(), "token".to_owned()]).unwrap().key.is_some());
}

#[test]
fn two_sections_cannot_have_one_key() {
    let twice = schema().section::<Search>("search").checked().unwrap_err();
    assert_eq!((twice.table, twice.key.as_str()), ("search", "order"));
    let hidden = schema().reserved("rules").checked().unwrap_err();
    assert_eq!((hidden.table, hidden.key.as_str()), ("rules", "rules"));
}

#[test]
fn the_reference_has_each_key_with_values_default_and_meaning() {
    let page = schema().reference();
    for row in [
        "## `[search]`",
        "Searches.",
        "| `weights.NAME` | a whole number from 1 |  | Weights by name. |",
        "| `results` | a whole number from 1 | `10` | Results of one search. |",
        "| `order` | `by-score` or `by-date` | `\"by-score\"` | Order of results. |",
        "| `token` | a text in quotes |  | Key of the server. Not by a project's files. |",
        "| `deny` | a list of texts in quotes | `[]` | Refused calls. The lists of all files hold. |",
    ] {
        assert!(page.contains(row), "{row}\n{page}");
    }
}

#[test]
fn values_of_flags_are_checked_as_those_of_files() {
    let mut settings = MergedSettings::new(Arc::new(schema()));
    let mut flags = LayerValues::default();
    flags.count("search.results", "--results", Some(0));
    let error = settings.give(Layer::CommandLine, flags, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "--results: `search.results` must be a whole number from 1");
}

#[test]
fn a_former_key_sets_the_present_one_with_one_line_that_names_both() {
    let read = |text: &str| {
        let mut settings = MergedSettings::new(Arc::new(schema()));
        let origin = Origin { layer: Layer::User, place: "mine.toml".to_owned() };
        let mut warnings = Vec::new();
        let leaves = crate::flatten(text.parse().unwrap());
        let set = settings.set_all(leaves, &origin, crate::Precedence::Over, &mut warnings);
        (set.map(|()| settings), warnings)
    };
    for text in ["[search]\nhits = 7\n", "finder.hits = 7\n"] {
        let (settings, warnings) = read(text);
        let settings = settings.unwrap();
        assert_eq!(settings.section::<Search>("search").unwrap().results, 7, "{text}");
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        let [former] = settings.former_keys() else { panic!("{text}") };
        let names = [crate::dotted(&former.former), crate::dotted(&former.present)];
        assert!(
            warning.contains("mine.toml") && names.iter().all(|name| warning.contains(name)),
            "{warning}"
        );
    }
    let (settings, _) = read("[search]\nhits = 7\nresults = 3\n");
    assert_eq!(settings.unwrap().section::<Search>("search").unwrap().results, 3, "the present name counts");
    let (wrong, _) = read("[search]\nhits = 0\n");
    assert!(
        wrong.err().unwrap().to_string().contains("search.results"),
        "the value is checked as that of its key"
    );
    assert!(!schema().json("t", "1").to_string().contains("x-former"));
}
