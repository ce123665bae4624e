//! Synthetic corruptions: rated translations with a known error inserted. Ratings of two translations of one
//! source are mostly noise for similar systems; pairs with a known order are training data and measure
//! whether a judge detects the error.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::{
    draw,
    rated::{Document, Rated},
    sample,
};
use crate::segment::Segment;

mod content;

/// Words of a translation at the least, and characters at the most: the longest are dear to read.
const FEWEST_WORDS: usize = 6;
const LONGEST: usize = 600;

/// Costs of the errors. Unit: MQM points.
const MINOR: f64 = 1.0;
const MAJOR: f64 = 5.0;
const SENTENCE: f64 = 10.0;
const HALF: f64 = 15.0;
const WHOLE: f64 = 25.0;

/// A translation, and what it became.
#[derive(Clone, Debug, PartialEq)]
pub struct Corrupted<'a> {
    pub document: &'a Document,
    pub rated: &'a Rated,
    pub segment: Segment,
    /// Kind of corruption: one of [`content`]'s kinds, `words`, `half`, `sentence` or `other source`.
    pub kind: &'static str,
    /// By how much it is worse than it was, more than 0 and at most 25. Unit: MQM points.
    pub points: f64,
}

/// About `most` corrupted translations, each of another one that raters marked errors in, drawn by the seed.
/// Languages that write no blanks between words have none.
pub fn versions(documents: &[Document], most: usize, seed: u64) -> Vec<Corrupted<'_>> {
    let mut found: Vec<(String, &Document, &Rated)> = Vec::new();
    for document in documents {
        let usable = document.segments.iter().filter(|rated| can_be_corrupted(rated));
        found.extend(usable.map(|rated| (name(document, rated), document, rated)));
    }
    found.sort_by_cached_key(|(name, _, _)| hash(seed, name));
    let pools = Pools::new(&found);
    let corrupted = found.iter().take(most).filter_map(|(name, document, rated)| {
        let hash = hash(seed, &format!("{name}/how"));
        let stream = u64::from_be_bytes(std::array::from_fn(|i| hash[i]));
        let (text, points, kind) = pools.corrupt(document, rated, &mut Draws { seed, stream, n: 0 });
        let is_other = text.trim() != rated.segment.hypothesis.trim() && !text.trim().is_empty();
        let segment = Segment { hypothesis: text, ..rated.segment.clone() };
        is_other.then_some(Corrupted { document, rated, segment, kind, points })
    });
    corrupted.filter(|corrupted| corrupted.points > 0.0).collect()
}

fn can_be_corrupted(rated: &Rated) -> bool {
    let text = &rated.segment.hypothesis;
    !rated.opinions.is_empty()
        && text.chars().count() <= LONGEST
        && text.split_whitespace().count() >= FEWEST_WORDS
}

fn name(document: &Document, rated: &Rated) -> String {
    format!("{}/{}/{}", document.corpus, sample::key(&document.pair, rated), rated.segment.system)
}

fn hash(seed: u64, name: &str) -> [u8; 32] {
    Sha256::digest(format!("{seed}/spoilt/{name}")).into()
}

/// Numbers of one translation.
struct Draws {
    seed: u64,
    stream: u64,
    n: u64,
}

impl Draws {
    /// From 0 up to `n`, which is at least 1.
    fn below(&mut self, n: usize) -> usize {
        self.n += 1;
        (draw::bits(self.seed, self.stream, self.n) % n as u64) as usize
    }
}

/// Words and texts that corruptions are taken from.
struct Pools<'a> {
    /// By target language: words of more than three characters.
    words: BTreeMap<&'a str, Vec<&'a str>>,
    /// By pair.
    texts: BTreeMap<&'a str, Vec<&'a Segment>>,
    /// By target language.
    content: BTreeMap<&'a str, content::Pool<'a>>,
}

impl<'a> Pools<'a> {
    fn new(found: &[(String, &'a Document, &'a Rated)]) -> Self {
        let (mut words, mut texts) = (BTreeMap::new(), BTreeMap::new());
        let mut content: BTreeMap<&str, content::Pool<'_>> = BTreeMap::new();
        for (_, document, rated) in found {
            let segment = &rated.segment;
            let long = segment.hypothesis.split_whitespace().filter(|word| is_long(word));
            words.entry(segment.tgt_lang.language()).or_insert_with(Vec::new).extend(long);
            texts.entry(document.pair.as_str()).or_insert_with(Vec::new).push(segment);
            content.entry(segment.tgt_lang.language()).or_default().add(segment);
        }
        Self { words, texts, content }
    }

    /// A worse text, and by how many points it is worse; the same text with 0 points where nothing could be
    /// corrupted.
    fn corrupt(&self, document: &Document, rated: &Rated, draws: &mut Draws) -> (String, f64, &'static str) {
        match draws.below(4) {
            0 => return self.corrupt_whole(&document.pair, &rated.segment, draws),
            1 | 2 => {
                let pool = self.content.get(rated.segment.tgt_lang.language());
                if let Some((text, kind)) =
                    pool.and_then(|pool| content::corrupt(&rated.segment, pool, draws))
                {
                    return (text, MAJOR, kind);
                }
            }
            _ => {}
        }
        let mut words: Vec<String> = rated.segment.hypothesis.split_whitespace().map(str::to_owned).collect();
        let n = [1, 1, 2, 3, 4][draws.below(5)];
        let points: f64 = (0..n).map(|_| self.corrupt_words(&mut words, &rated.segment, draws)).sum();
        (words.join(" "), points.min(WHOLE), "words")
    }

    /// Inserts one error of a word or a few; returns its cost.
    fn corrupt_words(&self, words: &mut Vec<String>, segment: &Segment, draws: &mut Draws) -> f64 {
        if words.len() < FEWEST_WORDS - 1 {
            return 0.0;
        }
        let at = draws.below(words.len());
        let long: Vec<usize> = (0..words.len()).filter(|i| is_long(&words[*i])).collect();
        let pool = self.words.get(segment.tgt_lang.language()).filter(|pool| !pool.is_empty());
        let other = pool.map(|pool| pool[draws.below(pool.len())]);
        match (draws.below(7), other) {
            (0 | 1, Some(other)) if !long.is_empty() => words[long[draws.below(long.len())]] = other.into(),
            (2, Some(other)) if !long.is_empty() => {
                let word = &mut words[long[draws.below(long.len())]];
                *word = [without_ending(word), &other[without_ending(other).len()..]].concat();
                return MINOR;
            }
            (3, _) => {
                words.insert(at, words[at].clone());
                return MINOR;
            }
            (4, _) => words[at] = piece(&segment.source, draws),
            (5, _) => {
                let to = draws.below(words.len());
                words.swap(at, to);
            }
            _ => {
                let n = 1 + draws.below(3);
                words.drain(at..words.len().min(at + n));
            }
        }
        MAJOR
    }

    /// A text of another source, in whole or in its second half; half a text; one without one of its
    /// sentences.
    fn corrupt_whole(&self, pair: &str, segment: &Segment, draws: &mut Draws) -> (String, f64, &'static str) {
        let text = segment.hypothesis.as_str();
        let texts = self.texts.get(pair).map_or(&[][..], Vec::as_slice);
        let others: Vec<&&Segment> = texts.iter().filter(|other| other.source != segment.source).collect();
        let sentences: Vec<&str> = sentences(text);
        let words: Vec<&str> = text.split_whitespace().collect();
        let half = words.len() / 2;
        let first = words[..half].join(" ");
        let how = draws.below(if sentences.len() > 2 { 6 } else { 3 });
        let other = (!others.is_empty()).then(|| others[draws.below(others.len())].hypothesis.as_str());
        match (how, other) {
            (0, Some(other)) => (other.to_owned(), WHOLE, "other source"),
            (1, Some(other)) => {
                let words: Vec<&str> = other.split_whitespace().collect();
                (format!("{first} {}", words[words.len() / 2..].join(" ")), HALF, "other source")
            }
            (0..=2, _) => (if draws.below(3) > 0 { first } else { words[half..].join(" ") }, HALF, "half"),
            _ => {
                let missing = draws.below(sentences.len());
                let remaining: Vec<&str> =
                    sentences.iter().enumerate().filter(|(i, _)| *i != missing).map(|(_, s)| *s).collect();
                (remaining.join(" "), SENTENCE, "sentence")
            }
        }
    }
}

fn is_long(word: &str) -> bool {
    word.chars().count() > 3
}

/// A word without its last two characters.
fn without_ending(word: &str) -> &str {
    word.char_indices().rev().nth(1).map_or("", |(at, _)| &word[..at])
}

/// A word of the source, or three characters where it has no blanks.
fn piece(source: &str, draws: &mut Draws) -> String {
    let words: Vec<&str> = source.split_whitespace().collect();
    if words.len() > 2 {
        return words[draws.below(words.len())].to_owned();
    }
    let characters: Vec<char> = source.chars().filter(|c| !c.is_whitespace()).collect();
    let at = draws.below(characters.len().max(1));
    characters.iter().skip(at).take(3).collect()
}

/// A text cut behind `.`, `!`, `?` and `…` where a blank follows.
fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    for (at, c) in text.char_indices().filter(|(_, c)| c.is_whitespace()) {
        if text[start..at].ends_with(['.', '!', '?', '…']) {
            found.push(&text[start..at]);
            start = at + c.len_utf8();
        }
    }
    found.push(&text[start..]);
    found.retain(|sentence| !sentence.trim().is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::lang::parse_pair;

    fn documents(n: usize) -> Vec<Document> {
        let pair = parse_pair("zh-en").unwrap();
        let words = ["river", "garden", "winter", "letter", "market", "window", "people", "morning"];
        let rated = |i: usize| {
            let word = |k: usize| words[(i * (k + 3) + k) % words.len()];
            let sentence =
                |k: usize| format!("The {} of the {} is {} today.", word(k), word(k + 1), word(k + 2));
            let hypothesis = (0..=i % 4).map(sentence).collect::<Vec<_>>().join(" ");
            let segment = Segment {
                system: format!("s{}", i % 2),
                doc: format!("d{}", i / 4),
                seg: i,
                ..Segment::new(pair.clone(), &format!("第{i}条河流与花园。"), &hypothesis)
            };
            Rated::by_one(segment, Some(Vec::new()))
        };
        let document = |rated: Rated| Document {
            pair: "zh-en".into(),
            system: rated.segment.system.clone(),
            doc: rated.segment.doc.clone(),
            corpus: "c".into(),
            segments: vec![rated],
        };
        (0..n).map(|i| document(rated(i))).collect()
    }

    #[test]
    fn every_version_is_another_text_and_worse() {
        let documents = documents(200);
        let corrupted = versions(&documents, 150, 7);
        assert!((140..=150).contains(&corrupted.len()), "{}", corrupted.len());
        for Corrupted { rated, segment, points, .. } in &corrupted {
            assert_ne!(segment.hypothesis, rated.segment.hypothesis);
            assert_eq!(segment.source, rated.segment.source);
            assert!(*points >= MINOR && *points <= WHOLE, "{points}");
        }
        for cost in [MINOR, MAJOR, SENTENCE, HALF, WHOLE] {
            assert!(corrupted.iter().any(|one| (one.points - cost).abs() < 1e-9), "nothing costs {cost}");
        }
        let missing = corrupted
            .iter()
            .find(|one| (one.points - SENTENCE).abs() < 1e-9 && one.segment.hypothesis.ends_with('.'));
        let missing = missing.unwrap();
        let n = |text: &str| sentences(text).len();
        assert_eq!(n(&missing.segment.hypothesis) + 1, n(&missing.rated.segment.hypothesis));
    }

    #[test]
    fn they_depend_on_the_seed_and_on_nothing_else() {
        let all = documents(60);
        let texts = |corrupted: &[Corrupted<'_>]| -> BTreeMap<usize, String> {
            corrupted.iter().map(|one| (one.rated.segment.seg, one.segment.hypothesis.clone())).collect()
        };
        let mut turned = all.clone();
        turned.reverse();
        let (there, back) = (versions(&all, 20, 1), versions(&turned, 20, 1));
        assert_eq!(texts(&there).keys().collect::<Vec<_>>(), texts(&back).keys().collect::<Vec<_>>());
        assert_eq!(texts(&there), texts(&back));
        assert_ne!(texts(&there), texts(&versions(&all, 20, 2)));
        // More of them have all that fewer had.
        let more = texts(&versions(&all, 40, 1));
        assert!(texts(&there).iter().all(|(seg, text)| more.get(seg) == Some(text)));
    }

    #[test]
    fn unmarked_and_wordless_translations_stay_as_they_are() {
        let mut documents = documents(3);
        documents[0].segments[0].opinions.clear();
        documents[1].segments[0].segment.hypothesis = "没有空格的句子".into();
        documents[2].segments[0].segment.hypothesis = "word ".repeat(LONGEST);
        assert!(versions(&documents, 9, 0).is_empty());
    }

    #[test]
    fn sentences_end_at_a_blank_behind_their_mark() {
        assert_eq!(sentences("A 3.5 b. C! D"), ["A 3.5 b.", "C!", "D"]);
        assert_eq!(sentences("Nothing"), ["Nothing"]);
        assert_eq!(without_ending("größte"), "größ");
        assert_eq!(without_ending("я"), "");
    }
}
