//! The data that a judge was fitted on, and the input that lies outside of it. Nothing is refused here: the
//! scores of such input have no measured validity, and every output of a run has that as a caution.

use std::collections::{BTreeMap, BTreeSet};

use crate::segment::Segment;

/// Data that a judge was fitted on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The language pairs, `en-de` for all regions, each with the bytes of the longest sources.
    pub pairs: BTreeMap<String, usize>,
    /// The domains of its texts; empty where they are unknown.
    pub domains: BTreeSet<String>,
    /// The consequence for other language pairs, a clause.
    pub elsewhere: &'static str,
}

/// The language pair of a segment by the codes of its languages, for all regions: `en-de`.
pub fn language_pair(segment: &Segment) -> String {
    format!("{}-{}", segment.src_lang.language(), segment.tgt_lang.language())
}

/// Number of judged translations outside of a judge's scope.
#[derive(Debug)]
pub struct OutOfScope {
    scope: Scope,
    n_judged: usize,
    /// By language pair.
    unknown: BTreeMap<String, usize>,
    long: BTreeMap<String, usize>,
    /// By domain.
    foreign: BTreeMap<String, usize>,
}

impl OutOfScope {
    /// Without any translation.
    pub fn new(scope: Scope) -> Self {
        let (unknown, long, foreign) = Default::default();
        Self { scope, n_judged: 0, unknown, long, foreign }
    }

    /// Counts a translation.
    pub fn add(&mut self, segment: &Segment) {
        self.n_judged += 1;
        let pair = language_pair(segment);
        match self.scope.pairs.get(&pair) {
            None => *self.unknown.entry(pair).or_default() += 1,
            Some(longest) if segment.source.len() > *longest => *self.long.entry(pair).or_default() += 1,
            Some(_) => {}
        }
        let is_foreign = |domain: &&String| {
            !self.scope.domains.is_empty() && !self.scope.domains.contains(&domain.to_lowercase())
        };
        if let Some(domain) = segment.domain.as_ref().filter(is_foreign) {
            *self.foreign.entry(domain.clone()).or_default() += 1;
        }
    }

    /// Cautions about the counted translations, as sentences without full stops.
    pub fn cautions(&self) -> Vec<String> {
        let Self { scope: Scope { pairs, domains, elsewhere }, n_judged, .. } = self;
        let are = |n: &usize| {
            format!("{n} of {n_judged} translation{}", if *n_judged == 1 { " is" } else { "s are" })
        };
        let fitted = pairs.keys().cloned().collect::<Vec<_>>().join(", ");
        let of_pair = |(pair, n): (&String, &usize)| {
            format!("{} of {pair}, on which the judge was not fitted ({fitted}): {elsewhere}", are(n))
        };
        let of_length = |(pair, n): (&String, &usize)| {
            format!(
                "{} of {pair} and longer than the texts that the judge was fitted on: sources have more than {} bytes",
                are(n),
                pairs[pair]
            )
        };
        let known = domains.iter().cloned().collect::<Vec<_>>().join(", ");
        let n_foreign: usize = self.foreign.values().sum();
        let names = self.foreign.keys().map(|domain| format!("`{domain}`")).collect::<Vec<_>>().join(", ");
        let of_domain = (n_foreign > 0).then(|| {
            format!("{} of domains that the judge was not fitted on ({known}): {names}", are(&n_foreign))
        });
        self.unknown.iter().map(of_pair).chain(of_domain).chain(self.long.iter().map(of_length)).collect()
    }
}

#[cfg(test)]
mod tests {
    use tribunal_testing::translation;

    use super::*;

    #[test]
    fn pairs_domains_and_lengths_outside_of_a_fit_are_counted() {
        let scope = Scope {
            pairs: BTreeMap::from([("en-de".to_owned(), 20), ("zh-en".to_owned(), 30)]),
            domains: BTreeSet::from(["news".to_owned()]),
            elsewhere: "its scores are guesses",
        };
        let cautions = |segments: &[Segment]| {
            let mut outside = OutOfScope::new(scope.clone());
            for segment in segments {
                outside.add(segment);
            }
            outside.cautions()
        };
        let of = |pair, source: &str| translation(pair, source, "x");
        let named = |domain: &str| Segment { domain: Some(domain.into()), ..of(("en", "de"), "A text.") };
        assert!(cautions(&[of(("en", "de"), "A text."), named("news"), named("News")]).is_empty());
        assert!(cautions(&[]).is_empty());
        let outside = [
            of(("en", "cs"), "A text."),
            of(("en", "de"), "A text."),
            of(("en", "de"), "A long text with words."),
            of(("en", "cs"), "A text that is longer."),
            named("social"),
            named("literary"),
        ];
        insta::assert_snapshot!(cautions(&outside).join("\n"), @"
        2 of 6 translations are of en-cs, on which the judge was not fitted (en-de, zh-en): its scores are guesses
        2 of 6 translations are of domains that the judge was not fitted on (news): `literary`, `social`
        1 of 6 translations are of en-de and longer than the texts that the judge was fitted on: sources have more than 20 bytes
        ");
        assert!(cautions(&outside[..1])[0].starts_with("1 of 1 translation is of en-cs, "));
    }
}
