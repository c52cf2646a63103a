use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zk_core::model::{Model, Prices, ThinkingSupport};

use super::{known_efforts, known_model, known_models};
use crate::encode::effort::Efforts;

/// A person's corrections to the known facts about one model. `None` keeps a fact.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Override {
    /// Context window in tokens.
    pub window: Option<u64>,
    /// Largest output in tokens.
    pub max_output: Option<u64>,
    /// US dollars per million tokens of uncached input. An overridden price applies to inputs of any length.
    pub input: Option<f64>,
    /// US dollars per million tokens of output.
    pub output: Option<f64>,
    /// US dollars per million tokens of input read from the cache.
    pub cache_read: Option<f64>,
    /// US dollars per million tokens of input written to the cache.
    pub cache_write: Option<f64>,
    /// Whether the model accepts images.
    pub vision: Option<bool>,
    /// Form in which requests ask for the model's reasoning.
    pub thinking: Option<ThinkingSupport>,
    /// Effort levels of the model; a non-empty list marks a model that reasons.
    pub efforts: Option<Efforts>,
}

impl Override {
    fn apply(&self, model: &mut Model) {
        model.window = self.window.or(model.window);
        model.max_output = self.max_output.or(model.max_output);
        let prices = [self.input, self.output, self.cache_read, self.cache_write];
        if prices.iter().any(Option::is_some) {
            let mut rates = model.prices.take().unwrap_or_default().rates;
            let places = [&mut rates.input, &mut rates.output, &mut rates.cache_read, &mut rates.cache_write];
            for (place, price) in places.into_iter().zip(prices) {
                *place = price.unwrap_or(*place);
            }
            model.prices = Some(Prices::from(rates));
        }
        let capabilities = &mut model.capabilities;
        capabilities.vision = self.vision.unwrap_or(capabilities.vision);
        let reasons = self.efforts.as_ref().is_some_and(|efforts| !efforts.is_unknown());
        capabilities.thinking = match (self.thinking, capabilities.thinking) {
            (Some(thinking), _) => thinking,
            (None, ThinkingSupport::None) if reasons => ThinkingSupport::Effort,
            (None, known) => known,
        };
    }
}

/// A person's corrections to the models of one provider, by id. Unknown ids are allowed.
///
/// ```
/// use zk_core::service::Provider;
/// use zk_providers::{Anthropic, AnthropicOptions, Override, Overrides};
///
/// let larger = Override { window: Some(2_000_000), ..Override::default() };
/// let mut connection = Anthropic::connection().key("sk-ant-…");
/// connection.models = Overrides::from_iter([("claude-opus-5".to_owned(), larger)]);
/// let claude = Anthropic::new(connection, AnthropicOptions::default())?;
/// assert_eq!(claude.model("claude-opus-5").window, Some(2_000_000));
/// # Ok::<(), zk_providers::SetupError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides(Arc<BTreeMap<String, Override>>);

impl Overrides {
    /// Returns the overrides of the model `id`.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Override> {
        self.0.get(id)
    }

    /// Returns the ids that have overrides, in alphabetical order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Applies the overrides to the model.
    #[must_use]
    pub fn correct(&self, mut model: Model) -> Model {
        if let Some(row) = self.get(&model.id) {
            row.apply(&mut model);
        }
        model
    }

    /// Returns the models of `provider` by the catalogue and these overrides, in alphabetical order of their ids.
    #[must_use]
    pub fn models_of(&self, provider: &str) -> Vec<Model> {
        let mut ids: BTreeSet<&str> = known_models(provider).collect();
        ids.extend(self.ids());
        let known = |id: &str| known_model(provider, id).unwrap_or_else(|| Model::unknown(provider, id));
        ids.into_iter().map(|id| self.correct(known(id))).collect()
    }

    /// Returns the reasoning levels that a person can choose for `model`, lowest first; none if it does not reason.
    ///
    /// ```
    /// use zk_providers::{Overrides, known_model};
    ///
    /// let model = known_model("anthropic", "claude-opus-5").unwrap();
    /// assert!(Overrides::default().thinking_levels(&model).contains(&"high".to_owned()));
    /// ```
    #[must_use]
    pub fn thinking_levels(&self, model: &Model) -> Vec<String> {
        let owned = |levels: &[&str]| levels.iter().map(ToString::to_string).collect();
        match model.capabilities.thinking {
            ThinkingSupport::None => Vec::new(),
            ThinkingSupport::Budget => owned(&["off", "low", "medium", "high"]),
            ThinkingSupport::Effort | ThinkingSupport::Adaptive => {
                let own = self.get(&model.id).and_then(|row| row.efforts.clone());
                let efforts = own.unwrap_or_else(|| known_efforts(&model.provider, &model.id));
                let mut levels: Vec<String> = efforts.levels().map(|(level, _)| level.to_owned()).collect();
                if model.capabilities.thinking == ThinkingSupport::Adaptive {
                    levels.insert(0, "off".to_owned());
                    levels.push("adaptive".to_owned());
                }
                levels.dedup();
                levels
            }
        }
    }
}

impl FromIterator<(String, Override)> for Overrides {
    fn from_iter<I: IntoIterator<Item = (String, Override)>>(rows: I) -> Self {
        Self(Arc::new(rows.into_iter().collect()))
    }
}
