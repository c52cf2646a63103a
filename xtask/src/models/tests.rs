use super::corrections::{CORRECTIONS, Change, Correction, NewModel, SHUTDOWNS, providers};
use super::source::{read, read_with};
use super::table::{LEVELS, faults, write};

const HEAD: &str =
    "provider\tid\tapi\tcontext\tmax\tin\tout\tread\twrite\ttiers\tinput\treasoning\tefforts\n";

/// The catalogue, as far as the corrections want it to be there, and `lines`.
fn catalogue(lines: &[&str]) -> String {
    let wanted = [
        ("anthropic", "claude-opus-4-6", "a"),
        ("anthropic", "claude-sonnet-4-6", "a"),
        ("deepseek", "deepseek-flash", "a"),
        ("google", "gemma-4-31b-it", "a"),
        ("google", "deep-research-max", "google-generative-ai"),
        ("huggingface", "thinkingmachines/Inkling-Small", "a"),
        ("mistral", "ministral-3b-2512", "a"),
        ("openai", "gpt-5.6-sol", "a"),
        ("openai", "decides", "openai-decisions"),
        ("openrouter", "decides", "typesafe-system-one"),
    ];
    let ends = SHUTDOWNS.iter().flat_map(|end| end.ids.iter().map(|id| (end.provider, *id, "a")));
    let mut text = HEAD.to_owned();
    for (provider, id, api) in wanted.into_iter().chain(ends) {
        text.push_str(&format!("{provider}\t{id}\t{api}\t1000000\t8192\t1\t2\t0.1\t0\t\ttext\tR\t\n"));
    }
    lines.iter().for_each(|line| text.push_str(&format!("{line}\n")));
    text
}

fn line_of(table: &str, id: &str) -> String {
    let mut found = table.lines().filter(|line| line.split('\t').nth(1) == Some(id));
    let line = found.next().unwrap_or_else(|| panic!("no {id} in\n{table}")).to_owned();
    assert_eq!(found.next(), None);
    line
}

#[test]
fn a_model_of_the_catalogue_becomes_a_line_under_zks_name_of_its_provider() {
    let table = write(&read(&catalogue(&[
        "moonshotai\tk\tx\t262144\t131072\t0.95\t4\t0.16\t0\t[{\"inputTokensAbove\": 200000, \"input\": 2.5, \
         \"output\": 15, \"cacheRead\": 0.25, \"cacheWrite\": 0}]\ttext+image\tR\t{\"off\": null, \"minimal\": \
         \"low\", \"medium\": null, \"max\": \"max\"}",
        "nobody\tn\tx\t262144\t131072\t0\t0\t0\t0\t\ttext\t\t",
    ]))
    .unwrap());
    assert_eq!(faults(&table), Vec::<String>::new());
    assert_eq!(
        line_of(&table, "k"),
        "moonshot\tk\t262144\t131072\t0.95\t4\t0.16\t0\t200000:2.5:15:0.25:0\tyes\teffort\
         \tminimal=low,low,high,max\t-"
    );
    assert!(!table.contains("nobody") && !table.contains("decides") && !table.contains("deep-research"));
}

#[test]
fn corrections_outlive_what_the_catalogue_says() {
    let table = write(&read(&catalogue(&[])).unwrap());
    assert!(line_of(&table, "claude-opus-4-6").ends_with("\toff,low,medium,high,xhigh=max,max\t-"));
    assert!(line_of(&table, "ministral-3b-2512").contains("\t1000000\t131072\t"));
    let (one, other) = (line_of(&table, "deepseek-flash"), line_of(&table, "deepseek-v4-flash"));
    assert_eq!(one.replace("deepseek-flash", "deepseek-v4-flash"), other);
}

/// The corrections that there are, and `more`.
fn with(more: Vec<(&'static str, &'static str, Change)>) -> Vec<Correction> {
    let same = CORRECTIONS.iter().map(|Correction { provider, id, change, why }| Correction {
        provider,
        id,
        change: change.clone(),
        why,
    });
    same.chain(more.into_iter().map(|(provider, id, change)| Correction {
        provider,
        id,
        change,
        why: "a test",
    }))
    .collect()
}

const NEW: NewModel = NewModel {
    window: 400_000,
    max_output: 64_000,
    price: ["1.5", "9", "0.15", "0"],
    vision: true,
    thinking: "effort",
    efforts: "low,high",
};

#[test]
fn a_new_model_and_a_corrected_price_and_window_outlive_what_the_catalogue_says() {
    let corrections = with(vec![
        ("mistral", "brand-new", Change::Add(NEW)),
        ("deepseek", "deepseek-flash", Change::Price(["0.2", "0.4", "0.02", "0"])),
        ("anthropic", "claude-sonnet-4-6", Change::Window(200_000)),
    ]);
    let table = write(&read_with(&catalogue(&[]), &corrections).unwrap());
    assert_eq!(faults(&table), Vec::<String>::new());
    assert_eq!(
        line_of(&table, "brand-new"),
        "mistral\tbrand-new\t400000\t64000\t1.5\t9\t0.15\t0\t-\tyes\teffort\tlow,high\t-"
    );
    assert!(line_of(&table, "deepseek-flash").contains("\t0.2\t0.4\t0.02\t0\t-\t"));
    assert!(line_of(&table, "claude-sonnet-4-6").contains("\t200000\t"));
    let known = "mistral\tbrand-new\tx\t262144\t131072\t0\t0\t0\t0\t\ttext\t\t";
    let error = read_with(&catalogue(&[known]), &corrections).err().unwrap().to_string();
    assert!(error.contains("mistral/brand-new") && error.contains("corrections.rs"), "{error}");
}

#[test]
fn every_provider_of_the_catalogue_is_one_that_can_be_named() {
    let vendors = include_str!("../../../crates/zk-providers/src/catalogue/vendors/table.rs");
    for (_, name) in providers() {
        assert!(vendors.contains(&format!("\"{name}\"")), "{name} is no vendor: see docs/guide-provider.md");
    }
}

#[test]
fn a_model_has_the_day_it_is_shut_down_on() {
    let table = write(&read(&catalogue(&[])).unwrap());
    assert!(line_of(&table, "o1").ends_with("\t2026-10-23"));
    assert!(line_of(&table, "gpt-5.6").ends_with("\t-"));
    let error = read(&catalogue(&[]).replace("\to1\t", "\to11\t")).err().unwrap().to_string();
    assert!(error.contains("openai/o1 ") && error.contains("take it out"), "{error}");
}

#[test]
fn the_levels_and_their_words_are_those_the_table_is_read_with() {
    let rows: String = LEVELS.iter().map(|(level, word)| format!("    ({level:?}, {word:?}),\n")).collect();
    let source = include_str!("../../../crates/zk-providers/src/encode/effort.rs");
    let expected = format!("const DEFAULT_VALUES: [(&str, &str); {}] = [\n{rows}];", LEVELS.len());
    assert!(
        source.contains(&expected),
        "crates/zk-providers/src/encode/effort.rs has not this any more:\n{expected}"
    );
}

#[test]
fn a_correction_of_no_model_has_to_go() {
    let text = catalogue(&[]).replace("claude-opus-4-6", "claude-opus-4-66");
    let error = read(&text).err().unwrap().to_string();
    assert!(error.contains("anthropic/claude-opus-4-6") && error.contains("take it out"), "{error}");
}

#[test]
fn a_table_that_cannot_be_searched_or_believed_is_told_line_by_line() {
    let table = write(&read(&catalogue(&[])).unwrap());
    let swapped: Vec<&str> = table.lines().collect();
    let swapped = format!("{}\n{}\n{}\n", swapped[0], swapped[2], swapped[1]);
    assert!(faults(&swapped)[0].starts_with("line 3: "), "{:?}", faults(&swapped));
    let twice = format!("{table}{}\n", table.lines().last().unwrap());
    assert_eq!(faults(&twice).len(), 1);
    for (from, to) in [
        ("\t1000000\t", "\t100\t"),
        ("\t1000000\t8192\t", "\t1000000\t2000000\t"),
        ("\t0.1\t", "\t-0.1\t"),
        ("\t0.1\t", "\tNaN\t"),
        ("\t-\tno\t", "\t9:1:1:1:1,9:1:1:1:1\tno\t"),
        ("\teffort\t-", "\teffort\thigh,low"),
        ("\tno\t", "\tmaybe\t"),
        ("mistral\t", "nobody\t"),
        ("\t2026-10-23", "\tsoon"),
    ] {
        assert!(table.contains(from), "{from}");
        assert!(!faults(&table.replace(from, to)).is_empty(), "{to}");
    }
}
