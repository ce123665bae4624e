//! Arbitrary answers of a grammar. The tests of the engine compile this file too.

use super::{Grammar, SplitMix, Tokenizer};

/// An answer of tokens drawn with random weights, some of which weigh a thousandfold. After `n_free` tokens
/// it ends as soon as it may, and until then prefers tokens that close a string, a list or an object.
pub fn random_answer(mut grammar: Grammar, tokenizer: &Tokenizer, n_free: usize, seed: u64) -> String {
    let mut random = SplitMix(seed);
    let mut text = Vec::new();
    for n in 0..5_000 {
        if random.draw().is_multiple_of(2) {
            let forced = grammar.fast_forward(usize::MAX).unwrap();
            text.extend(forced.iter().flat_map(|&id| tokenizer.bytes(id)));
        }
        if grammar.must_stop() || n > n_free && grammar.may_stop() {
            return String::from_utf8(text).unwrap();
        }
        let mask = grammar.mask().unwrap();
        let ids = (0..mask.len() as u32 * 32).filter(|id| mask[*id as usize / 32] >> (id % 32) & 1 == 1);
        let mut choices: Vec<u32> = ids.collect();
        let closes = |id: &u32| tokenizer.bytes(*id).first().is_some_and(|byte| b"\"]}".contains(byte));
        if n > n_free && choices.iter().any(closes) {
            choices.retain(closes);
        }
        let weigh = |_: &u32| if random.draw().is_multiple_of(9) { 1000 } else { 1 };
        let weights: Vec<u64> = choices.iter().map(weigh).collect();
        let mut draw = random.draw() % weights.iter().sum::<u64>();
        let chosen = weights.iter().position(|&weight| {
            let is_chosen = draw < weight;
            draw = draw.saturating_sub(weight);
            is_chosen
        });
        let token = choices[chosen.unwrap()];
        grammar.advance(token).unwrap();
        if grammar.stops_at(token) {
            return String::from_utf8(text).unwrap();
        }
        text.extend_from_slice(tokenizer.bytes(token));
    }
    panic!("no end, seed {seed}: {:?}", String::from_utf8_lossy(&text));
}
