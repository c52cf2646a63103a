use zk_core::kernel::Bus;

use super::print;
use crate::app::{Ground, runtime};
use crate::compose;
use crate::exit::{Exit, Failure, Outcome};

/// Prints the models the endpoint has.
pub(crate) fn models(ground: &Ground, filter: Option<&str>) -> Outcome<Exit> {
    let runtime = runtime()?;
    let endpoint = runtime.block_on(ground.endpoint())?;
    let provider = runtime.block_on(compose::provider(ground, &endpoint))?;
    let listed = runtime
        .block_on(provider.list_models(&Bus::new().cx()))
        .map_err(|error| Failure::new(Exit::of(&error.clone().into()), error.to_string()))?
        .ok_or_else(|| Failure::failed(format!("{} has no list of models", provider.name())))?;
    let lines: Vec<String> = listed
        .iter()
        .filter(|model| filter.is_none_or(|filter| model.id.contains(filter)))
        .map(|model| match model.window {
            Some(window) => format!("{}  (window {window} tokens)", model.id),
            None => model.id.clone(),
        })
        .collect();
    if lines.is_empty() {
        let what = filter.map_or(String::new(), |filter| format!(" that contains `{filter}`"));
        return Err(Failure::failed(format!("{} has no model{what}", endpoint.base_url)));
    }
    print(ground, &lines)
}
