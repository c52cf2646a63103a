use std::collections::HashSet;

use zk_core::events::{ListingFailed, ModelsQuery};
use zk_core::kernel::{Cx, EmitError};
use zk_core::model::{Model, ModelRef};

/// Maximum number of listed models.
const MAX_SHOWN_MODELS: usize = 40;

/// Lists the models whose names contain every word, with a mark at the `current` one, and the providers that
/// could not be listed.
pub(crate) async fn list_models(
    words: &str,
    current: &ModelRef,
    others: Vec<Model>,
    cx: &Cx,
) -> Result<String, EmitError> {
    let mut known = cx.emit(ModelsQuery { refresh: true, ..ModelsQuery::default() }).await?;
    let seen: HashSet<ModelRef> = known.models.iter().map(Model::reference).collect();
    known.models.extend(others.into_iter().filter(|model| !seen.contains(&model.reference())));
    let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
    let fits = |model: &&Model| {
        let name = model.reference().to_string().to_lowercase();
        words.iter().all(|word| name.contains(word.as_str()))
    };
    let fitting: Vec<&Model> = known.models.iter().filter(fits).collect();
    let mut lines = model_lines(&fitting, current);
    match fitting.len().saturating_sub(MAX_SHOWN_MODELS) {
        0 if fitting.is_empty() && words.is_empty() => lines.push("no model is known".to_owned()),
        0 if fitting.is_empty() => lines.push(format!("no model contains `{}`", words.join("` and `"))),
        0 => {}
        more => lines.push(format!("… and {more} more: /models WORD lists those that contain it")),
    }
    lines.extend(known.failed.iter().filter_map(listing_failure));
    Ok(lines.join("\n"))
}

/// Message about a failed model listing; `None` for a provider without a list.
fn listing_failure(failed: &ListingFailed) -> Option<String> {
    let ListingFailed { provider, error } = failed;
    error.map(|kind| format!("could not list {provider}'s models: {}", kind.as_str()))
}

fn model_lines(models: &[&Model], current: &ModelRef) -> Vec<String> {
    let screen = || models.iter().take(MAX_SHOWN_MODELS);
    let names: Vec<String> = screen().map(|model| model.reference().to_string()).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let line = |(model, name): (&&Model, String)| {
        let mark = if model.reference() == *current { "●" } else { " " };
        let window = model.window.map_or_else(|| "?".to_owned(), |tokens| tokens.to_string());
        let rates = model.prices.as_ref().map(|prices| prices.rates);
        let price = rates.map_or_else(String::new, |rates| {
            format!("  ${} in, ${} out per million", rates.input, rates.output)
        });
        format!("{mark} {name:<width$}  {window:>9} tokens{price}")
    };
    screen().zip(names).map(line).collect()
}

#[cfg(test)]
mod tests {
    use zk_core::events::ModelsReply;
    use zk_core::kernel::Bus;
    use zk_core::model::{ErrorKind, Prices, Rates};

    use super::*;

    fn list_for_test(words: &str, reply: &ModelsReply) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let bus = Bus::new();
        let reply = reply.clone();
        bus.scope("test").on_sync(move |_: &ModelsQuery, _: &Cx| Some(reply.clone()));
        runtime.block_on(list_models(words, &ModelRef::new("lab", "b"), Vec::new(), &bus.cx())).unwrap()
    }

    #[test]
    fn models_stand_one_below_the_other_and_the_one_in_use_is_marked() {
        let rates = Rates { input: 0.5, output: 2.0, ..Rates::default() };
        let priced = Model {
            window: Some(128_000),
            prices: Some(Prices::from(rates)),
            ..Model::unknown("lab", "long-name")
        };
        let reply = ModelsReply::from(vec![priced, Model::unknown("lab", "b")]);
        let lines = "  lab/long-name     128000 tokens  $0.5 in, $2 out per million\n\
                     ● lab/b                  ? tokens";
        assert_eq!(list_for_test("", &reply), lines);
        assert_eq!(list_for_test("LAB long", &reply).lines().count(), 1);
        assert_eq!(list_for_test("zzz lab", &reply), "no model contains `zzz` and `lab`");
    }

    #[test]
    fn a_long_list_counts_the_missing_models_and_providers() {
        let failed = vec![
            ListingFailed { provider: "shut".into(), error: Some(ErrorKind::Auth) },
            ListingFailed { provider: "listless".into(), error: None },
        ];
        let models = (0..MAX_SHOWN_MODELS + 3).map(|at| Model::unknown("lab", at.to_string())).collect();
        let told = list_for_test("", &ModelsReply { models, failed });
        let last: Vec<&str> = told.lines().skip(MAX_SHOWN_MODELS).collect();
        assert_eq!(last.len(), 2, "{told}");
        assert!(
            last[0].starts_with("… and 3 more") && last[1].starts_with("could not list shut's models"),
            "{told}"
        );
    }
}
