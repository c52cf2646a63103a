use std::fmt;
use std::ops::AddAssign;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limit of spending on requests to models: in money, in tokens, or both. `None` sets no limit.
///
/// ```
/// use zk_core::model::{Budget, Spent};
///
/// let budget = Budget::usd(1.0);
/// let spent = Spent { usd: 0.95, tokens: 40_000 };
/// assert!(budget.allows(spent));
/// assert!(!budget.allows(spent + Spent { usd: 0.12, tokens: 9_000 }));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Budget {
    /// US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Tokens of all kinds: all input, cached or not, and all output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

impl Budget {
    /// Creates a limit in US dollars only.
    #[must_use]
    pub fn usd(dollars: f64) -> Self {
        Self { usd: Some(dollars), tokens: None }
    }

    /// Creates a limit in tokens only.
    #[must_use]
    pub fn tokens(tokens: u64) -> Self {
        Self { usd: None, tokens: Some(tokens) }
    }

    /// Whether neither money nor tokens are limited.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.usd.is_none() && self.tokens.is_none()
    }

    /// Whether a total of `spent` stays within the budget.
    #[must_use]
    pub fn allows(&self, spent: Spent) -> bool {
        self.usd.is_none_or(|most| spent.to_billionths() <= to_billionths(most))
            && self.tokens.is_none_or(|most| spent.tokens <= most)
    }

    /// Describes why `wanted` does not fit on top of `spent`, as a clause: `$0.95 of $1.00 is spent, and the
    /// next request may cost up to $0.12`.
    #[must_use]
    pub fn describe_shortage(&self, spent: Spent, wanted: Spent) -> String {
        let total = spent + wanted;
        match (self.usd, self.tokens) {
            (Some(most), _) if total.to_billionths() > to_billionths(most) => format!(
                "{} of {} is spent, and the next request may cost up to {}",
                Dollars(spent.usd),
                Dollars(most),
                Dollars(wanted.usd)
            ),
            (_, Some(most)) => format!(
                "{} of {most} tokens are spent, and the next request may take up to {}",
                spent.tokens, wanted.tokens
            ),
            (_, None) => format!("{} is spent", Dollars(spent.usd)),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.usd, self.tokens) {
            (Some(usd), Some(tokens)) => write!(f, "{} and {tokens} tokens", Dollars(usd)),
            (Some(usd), None) => Dollars(usd).fmt(f),
            (None, Some(tokens)) => write!(f, "{tokens} tokens"),
            (None, None) => f.write_str("no limit"),
        }
    }
}

/// Amount that was spent, or may be, on requests to models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Spent {
    /// US dollars, as far as prices are known.
    pub usd: f64,
    /// Tokens of all kinds.
    pub tokens: u64,
}

impl Spent {
    fn to_billionths(self) -> i128 {
        to_billionths(self.usd)
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.usd = (to_billionths(self.usd) + to_billionths(other.usd)) as f64 / 1e9;
        self.tokens = self.tokens.saturating_add(other.tokens);
    }
}

impl std::ops::Add for Spent {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

/// Converts dollars to whole billionths, so that amounts that add up exactly to a limit do not exceed it.
fn to_billionths(dollars: f64) -> i128 {
    (dollars * 1e9).round() as i128
}

/// Dollars formatted for people: two decimals, and more digits for amounts below a cent.
struct Dollars(f64);

impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            small if small > 0.0 && small < 0.01 => write!(f, "${small:.6}"),
            amount => write!(f, "${amount:.2}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_that_sum_to_the_limit_do_not_exceed_it() {
        let tenth = Spent { usd: 0.1, tokens: 1 };
        let all = (0..10).fold(Spent::default(), |sum, _| sum + tenth);
        assert!(Budget::usd(1.0).allows(all));
        assert!(!Budget::usd(1.0).allows(all + Spent { usd: 1e-9, tokens: 0 }));
        assert!(Budget::tokens(10).allows(all));
        assert!(!Budget::tokens(9).allows(all));
        assert!(Budget::default().allows(all) && Budget::default().is_unlimited());
    }

    #[test]
    fn a_shortage_names_the_limit_that_is_reached() {
        let both = Budget { usd: Some(1.0), tokens: Some(1_000) };
        let spent = Spent { usd: 0.95, tokens: 900 };
        for (wanted, told) in [
            (
                Spent { usd: 0.12, tokens: 50 },
                "$0.95 of $1.00 is spent, and the next request may cost up to $0.12",
            ),
            (
                Spent { usd: 0.001, tokens: 200 },
                "900 of 1000 tokens are spent, and the next request may take up to 200",
            ),
        ] {
            assert_eq!(both.describe_shortage(spent, wanted), told);
        }
        assert_eq!(both.to_string(), "$1.00 and 1000 tokens");
        assert_eq!(Budget::usd(0.0004).to_string(), "$0.000400");
    }
}
