//! A prefix tree of given texts: shared prefixes are computed once, and all tokens that follow a prefix are
//! scored from one row of logits. The tree is divided into chains, each a sequence of its own. Integers only:
//! it uses no model and no cache.
//!
//! ```text
//! 0 1 2 ... 9   10 11 ... 19 ... 90 ... 99   100        101 texts, 11 rows where each digit is a token:
//! prompt ── 1 ── 0        one chain: after the prompt, after 1, after 10
//!        ├─ 2             one chain each: after 2, ... after 9
//!        ...              nothing is computed after 0, or after 11, where no text goes on
//! ```

use crate::llm::{Reply, Usage};

/// The chains of some texts; each comes after the one that it branches from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branches {
    pub chains: Vec<Chain>,
    /// For each text, the places that score its tokens.
    pub places: Vec<Vec<Place>>,
}

/// Consecutive tokens, and the tokens to score after each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The tokens after the prompt, up to the last one that is followed by another.
    pub tokens: Vec<u32>,
    /// The chain's own rows begin after this many of its tokens; earlier rows belong to other chains.
    pub first: usize,
    /// The tokens to score after each of its own rows; none is empty.
    pub rows: Vec<Vec<u32>>,
}

/// The place that scores a token: a chain, and the token's index among those that the chain scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub chain: usize,
    pub at: usize,
}

/// A prefix of a text. The root, the empty prefix, is the first.
#[derive(Default)]
struct Node {
    /// The tokens that follow, in order of first occurrence, and their nodes.
    next: Vec<(u32, usize)>,
    /// The place that scores the first token of its row.
    home: Option<Place>,
}

impl Branches {
    /// The tree of these texts. An empty text has no tokens to score.
    ///
    /// # Panics
    /// Never: every node with a following token is in a chain.
    pub fn of(texts: &[Vec<u32>]) -> Self {
        let mut nodes = vec![Node::default()];
        let paths: Vec<Vec<(usize, usize)>> = texts.iter().map(|text| insert(&mut nodes, text)).collect();
        let chains = chains(&mut nodes);
        let place = |&(node, child): &(usize, usize)| {
            let home = nodes[node].home.expect("every node with a following token is in a chain");
            Place { at: home.at + child, ..home }
        };
        let places = paths.iter().map(|path| path.iter().map(place).collect()).collect();
        Self { chains, places }
    }

    /// Tokens that the chains compute beyond the prompt, each once.
    pub fn n_tokens(&self) -> usize {
        self.chains.iter().map(Chain::n_own).sum()
    }
}

impl Chain {
    /// Tokens that no earlier chain computes.
    pub fn n_own(&self) -> usize {
        self.tokens.len() - self.first.saturating_sub(1)
    }
}

/// Inserts a text; returns for each of its tokens the node before it, and the token's index among those that
/// follow it.
fn insert(nodes: &mut Vec<Node>, text: &[u32]) -> Vec<(usize, usize)> {
    let mut at = 0;
    let step = |&id: &u32| {
        let node = at;
        let known = nodes[node].next.iter().position(|(other, _)| *other == id);
        let child = known.unwrap_or_else(|| {
            nodes.push(Node::default());
            let new = nodes.len() - 1;
            nodes[node].next.push((id, new));
            nodes[node].next.len() - 1
        });
        at = nodes[node].next[child].1;
        (node, child)
    };
    text.iter().map(step).collect()
}

/// Divides the tree into chains: a chain descends by the first inner token, and the other inner tokens begin
/// new chains.
fn chains(nodes: &mut [Node]) -> Vec<Chain> {
    let mut chains: Vec<Chain> = Vec::new();
    // The nodes at which chains begin, with the tokens up to each.
    let mut begins = vec![(0, Vec::new())];
    let mut n_begun = 0;
    while let Some((mut node, mut tokens)) = begins.get(n_begun).cloned() {
        n_begun += 1;
        let (first, mut rows, mut n_scored) = (tokens.len(), Vec::new(), 0);
        while !nodes[node].next.is_empty() {
            nodes[node].home = Some(Place { chain: chains.len(), at: n_scored });
            let next = nodes[node].next.clone();
            n_scored += next.len();
            let mut inner = next.iter().filter(|(_, child)| !nodes[*child].next.is_empty());
            let down = inner.next().copied();
            begins.extend(inner.map(|&(id, child)| (child, [&tokens[..], &[id]].concat())));
            rows.push(next.iter().map(|(id, _)| *id).collect());
            let Some((id, child)) = down else { break };
            tokens.push(id);
            node = child;
        }
        if !rows.is_empty() {
            chains.push(Chain { tokens, first, rows });
        }
    }
    chains
}

/// The usage of all chains of a tree of texts; their shared prompt counts once.
pub fn together(replies: &[Reply]) -> Usage {
    let mut usage = Usage::default();
    for (i, reply) in replies.iter().enumerate() {
        let cached = if i == 0 { reply.usage.cached } else { 0 };
        usage += &Usage { cached, ..reply.usage };
    }
    usage
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The numbers from 0 to 100, a token for each digit, each closed by a token or not.
    fn numbers(closed: bool) -> Vec<Vec<u32>> {
        let digits = |n: u32| n.to_string().bytes().map(u32::from).collect::<Vec<_>>();
        let close = closed.then_some(7);
        (0..=100).map(|n| digits(n).into_iter().chain(close).collect()).collect()
    }

    /// Rows that are computed, the prompt's last one among them.
    fn n_rows(texts: &[Vec<u32>]) -> usize {
        Branches::of(texts).chains.iter().map(|chain| chain.rows.len()).sum()
    }

    #[test]
    fn numbers_share_their_digits() {
        assert_eq!(n_rows(&numbers(false)), 11, "the prompt, nine first digits, and 10");
        assert_eq!(n_rows(&numbers(true)), 102, "the prompt, ten first digits, ninety pairs, and 100");
        assert_eq!(numbers(true).iter().map(Vec::len).sum::<usize>(), 294, "what each alone would take");
        let branches = Branches::of(&numbers(false));
        assert_eq!((branches.n_tokens(), branches.chains.len()), (10, 9));
        let digit = u32::from(b'1');
        assert_eq!(branches.chains[0].tokens, [digit, digit - 1]);
    }

    #[test]
    fn a_text_alone_is_one_chain_without_its_last_token() {
        let Branches { chains, places } = Branches::of(&[vec![5, 6, 7]]);
        let rows = vec![vec![5], vec![6], vec![7]];
        assert_eq!(chains, [Chain { tokens: vec![5, 6], first: 0, rows }]);
        assert_eq!(places[0], [0, 1, 2].map(|at| Place { chain: 0, at }));
        assert_eq!(Branches::of(&[Vec::new()]), Branches { chains: Vec::new(), places: vec![Vec::new()] });
        assert_eq!(Branches::of(&[]), Branches::default());
    }

    proptest! {
        #[test]
        fn every_token_is_scored_after_the_tokens_before_it(
            texts in prop::collection::vec(prop::collection::vec(0_u32..4, 0..6), 0..30)
        ) {
            let Branches { chains, places } = Branches::of(&texts);
            // Each row of each chain: the tokens before it, and the tokens scored after it.
            let mut known = BTreeSet::from([Vec::new()]);
            for chain in &chains {
                prop_assert!(known.contains(&chain.tokens[..chain.first.saturating_sub(1)]), "it leaves a chain before it");
                prop_assert_eq!(chain.rows.len(), chain.tokens.len() + 1 - chain.first);
                for n in chain.first.max(1)..=chain.tokens.len() {
                    prop_assert!(known.insert(chain.tokens[..n].to_vec()), "computed twice");
                }
            }
            for (text, places) in texts.iter().zip(&places) {
                prop_assert_eq!(text.len(), places.len());
                for (i, place) in places.iter().enumerate() {
                    let chain = &chains[place.chain];
                    let scored = chain.rows.iter().enumerate();
                    let (row, id) = scored.flat_map(|(row, ids)| ids.iter().map(move |id| (row, *id))).nth(place.at).unwrap();
                    prop_assert_eq!(&chain.tokens[..chain.first + row], &text[..i]);
                    prop_assert_eq!(id, text[i]);
                }
            }
        }
    }
}
