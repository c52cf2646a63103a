use super::entries;

/// Maximum number of rules that are kept.
const MAX_REWRITES: usize = 64;

/// Git's rules that replace the prefix of an address: `url.BASE.insteadOf` and `pushInsteadOf`.
///
/// ```
/// use zk_permission::GitRewrites;
///
/// let rewrites = GitRewrites::parse("[url \"git@example.org:\"]\n\tinsteadOf = https://example.org/\n");
/// assert_eq!(rewrites.apply("https://example.org/a.git", false), "git@example.org:a.git");
/// assert_eq!(rewrites.apply("https://example.com/a.git", false), "https://example.com/a.git");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitRewrites(Vec<GitRewrite>);

/// Rule that replaces the prefix of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitRewrite {
    /// Prefix of the addresses to which the rule applies.
    pub prefix: String,
    /// Replacement for the prefix.
    pub instead: String,
    /// Whether the rule applies to pushes only.
    pub only_pushes: bool,
}

impl GitRewrites {
    /// Parses the rules of a git configuration.
    #[must_use]
    pub fn parse(config: &str) -> Self {
        let rules = entries::of_text(config).into_iter().filter_map(|entry| {
            let only_pushes = match entry.key.as_str() {
                "insteadof" => false,
                "pushinsteadof" => true,
                _ => return None,
            };
            let (kind, quoted) = entry.section.split_once('"')?;
            let is_rule = kind.trim().eq_ignore_ascii_case("url") && !entry.value.is_empty();
            let instead = quoted.trim_end_matches('"').to_owned();
            is_rule.then(|| GitRewrite { prefix: entry.value.to_owned(), instead, only_pushes })
        });
        Self(rules.take(MAX_REWRITES).collect())
    }

    /// Adds the rules of another configuration.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self.0.truncate(MAX_REWRITES);
        self
    }

    /// Iterates over the rules in the order of their configuration.
    pub fn iter(&self) -> impl Iterator<Item = &GitRewrite> {
        self.0.iter()
    }

    /// Rewrites an address as git does: the rule with the longest prefix wins, and for a push the push rules
    /// come first.
    #[must_use]
    pub fn apply(&self, address: &str, is_push: bool) -> String {
        let longest = |only_pushes| {
            let rules = self.0.iter().filter(|rule| rule.only_pushes == only_pushes);
            let fitting = rules.filter(|rule| address.starts_with(&rule.prefix));
            fitting.max_by_key(|rule| rule.prefix.len())
        };
        let rule = longest(true).filter(|_| is_push).or_else(|| longest(false));
        match rule.and_then(|rule| Some((rule, address.strip_prefix(&rule.prefix)?))) {
            Some((rule, rest)) => format!("{}{rest}", rule.instead),
            None => address.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins_and_pushes_have_separate_rules() {
        let rewrites = GitRewrites::parse(
            "[url \"https://mirror.example/\"]\n\tinsteadOf = https://a.example/\n[url \"https://team.example/\"]\n\tinsteadOf \
             = https://a.example/team/\n[url \"ssh://git@a.example/\"]\n\tpushInsteadOf = https://a.example/\n[remote \
             \"x\"]\n\tinsteadOf = https://b.example/\n",
        );
        for (address, fetched, pushed) in [
            ("https://a.example/x", "https://mirror.example/x", "ssh://git@a.example/x"),
            ("https://a.example/team/x", "https://team.example/x", "ssh://git@a.example/team/x"),
            ("https://b.example/x", "https://b.example/x", "https://b.example/x"),
        ] {
            assert_eq!(
                (rewrites.apply(address, false).as_str(), rewrites.apply(address, true).as_str()),
                (fetched, pushed)
            );
        }
    }
}
