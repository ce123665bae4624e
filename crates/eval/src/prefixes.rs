//! The prefixes of a judge's prompts that hold no text of the input: instructions and examples. The engine
//! can read their keys and values from a file.

use std::collections::BTreeMap;

use crate::{
    judges::{Judge, Panel, RehearsedQuestion, Role, rehearse_unanswered},
    models::Models,
    segment::{Segment, Segments},
};

/// Number of tokens left out before the first difference between two prompts: other texts may change their
/// tokenization. Unit: tokens.
const MARGIN: usize = 8;

/// Language pairs of one input whose prompts are looked at.
const MOST_PAIRS: usize = 8;

/// Announces to the models the prefixes of a judge's prompts about these segments that are long enough to be
/// worth a file.
pub fn announce<S: Segments + ?Sized>(models: &Models, judge: &Judge, segments: &S) {
    let (panel, Some(least)) = (&models.panel, models.least_saved) else { return };
    for (role, prefixes) in of_judge(panel, judge, segments, least) {
        for prefix in prefixes {
            panel.llm(role).announce(&prefix);
        }
    }
}

/// Common prefixes of prompts about different texts, by role: one for each kind of question and language
/// pair, of at least so many tokens.
fn of_judge<S: Segments + ?Sized>(
    panel: &Panel,
    judge: &Judge,
    segments: &S,
    least: usize,
) -> BTreeMap<Role, Vec<Vec<u32>>> {
    let mut found: BTreeMap<Role, Vec<Vec<u32>>> = BTreeMap::new();
    for segment in first_of_pairs(segments) {
        let [one, other] = ["1", "2"].map(|text| prompts(panel, judge, segment.clone(), text));
        for (role, prompt) in &one {
            let others = other.iter().filter(|(of, _)| of == role);
            let shared = others.map(|(_, other)| n_shared(prompt, other)).max().unwrap_or(0);
            let prefix = prompt[..shared.saturating_sub(MARGIN)].to_vec();
            let known = found.entry(*role).or_default();
            if prefix.len() >= least && !known.iter().any(|known| known.starts_with(&prefix)) {
                known.retain(|known| !prefix.starts_with(known));
                known.push(prefix);
            }
        }
    }
    found
}

/// The first segment of each language pair that can be read.
fn first_of_pairs<S: Segments + ?Sized>(segments: &S) -> Vec<Segment> {
    let mut firsts = BTreeMap::new();
    for idx in 0..segments.n_segments() {
        let of = segments.outline(idx);
        firsts.entry((of.src_lang, of.tgt_lang)).or_insert(idx);
        if firsts.len() == MOST_PAIRS {
            break;
        }
    }
    firsts.into_values().filter_map(|idx| segments.segment(idx).ok()).collect()
}

/// The prompts about a segment whose texts are all replaced by another one.
fn prompts(panel: &Panel, judge: &Judge, segment: Segment, text: &str) -> Vec<(Role, Vec<u32>)> {
    let text = text.to_owned();
    let reference = segment.reference.as_ref().map(|_| text.clone());
    let segment = Segment { source: text.clone(), hypothesis: text, reference, ..segment };
    let ids = |RehearsedQuestion { role, chat, .. }: RehearsedQuestion| {
        let ids = panel.llm(role).counter()?.prompt_ids(&chat).ok()??;
        Some((role, ids))
    };
    rehearse_unanswered(judge, panel, &[segment], None).into_iter().filter_map(ids).collect()
}

fn n_shared(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        judges::Settings,
        llm::{Chat, Counter, Error, Llm, Reply, ResponseFormat, Sampling, Scored},
        segment::lang::parse_pair,
    };

    /// A model that reads characters and answers nothing.
    struct Letters;

    impl Llm for Letters {
        fn ask(&self, _: &Chat, _: &ResponseFormat, _: &Sampling) -> Result<Reply, Error> {
            Err(Error::Engine("no model".into()))
        }

        fn score_continuations(&self, _: &Chat, _: &[String]) -> Result<Vec<Scored>, Error> {
            Err(Error::Engine("no model".into()))
        }

        fn counter(&self) -> Option<&dyn Counter> {
            Some(self)
        }
    }

    impl Counter for Letters {
        fn count(&self, chat: &Chat) -> Result<usize, Error> {
            Ok(chat.texts().map(|text| text.chars().count()).sum())
        }

        fn prompt_ids(&self, chat: &Chat) -> Result<Option<Vec<u32>>, Error> {
            Ok(Some(chat.texts().flat_map(str::chars).map(u32::from).collect()))
        }
    }

    fn segments(pairs: &[&str]) -> Vec<Segment> {
        let segment = |pair: &&str| {
            let text = "Secret: the old bridge is closed until spring.";
            Segment::new(parse_pair(pair).unwrap(), text, "Geheim: die alte Bruecke ist zu.")
        };
        pairs.iter().map(segment).collect()
    }

    fn found(method: &str, pairs: &[&str], least: usize) -> Vec<String> {
        let built = tribunal_replication::build(method, &Settings::default()).unwrap();
        let panel = Panel::new(Arc::new(Letters), Sampling::default());
        let prefixes = of_judge(&panel, &built.judge, &segments(pairs)[..], least);
        let text = |ids: &Vec<u32>| ids.iter().filter_map(|&id| char::from_u32(id)).collect();
        prefixes.values().flatten().map(text).collect()
    }

    #[test]
    fn instructions_and_examples_are_found_and_no_text_of_the_input() {
        for method in ["gemba-mqm", "gemba-esa", "fsp", "m-mad", "rubric-mqm", "himate"] {
            let found = found(method, &["en-de", "en-de"], 100);
            assert!(!found.is_empty(), "{method}");
            let says = found.iter().any(|prefix| prefix.contains("Secret") || prefix.contains("Geheim"));
            assert!(!says, "{method}");
        }
        let [prefix] = &found("gemba-mqm", &["en-de"], 100)[..] else { panic!("one question") };
        assert!(prefix.contains("I do apologise"), "the examples: {prefix}");
    }

    #[test]
    fn each_language_pair_has_its_own_and_none_is_shorter_than_asked() {
        assert_eq!(found("gemba-sqm", &["en-de", "zh-en", "en-de"], 40).len(), 2);
        assert_eq!(found("gemba-sqm", &["en-de"], 100_000).len(), 0);
    }
}
