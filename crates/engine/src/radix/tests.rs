//! 100,000 random rounds with the invariants checked after each.

use super::*;

/// A small deterministic generator: the test's rounds are the same on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// A prompt over a small alphabet, so that many share their starts.
fn prompt(dice: &mut Dice) -> Vec<u32> {
    let (family, parts_at, length) = (dice.roll(4), dice.roll(60), 1 + dice.roll(70));
    let own = dice.roll(3);
    (0..length)
        .map(|i| (i % 5 + 10 * family + if i >= parts_at { 100 * (own + 1) } else { 0 }) as u32)
        .collect()
}

/// The model itself half of the time, else one of two adapters, or its first layer alone.
fn variant(dice: &mut Dice) -> Variant {
    let adapter = [None, None, None, Some(0), Some(1)][dice.roll(5)];
    Variant { adapter, n_layers: [None, None, Some(1)][dice.roll(3)] }
}

/// The expected result of [`Radix::match_prefix`], by visiting every node of the tree.
fn match_plainly(radix: &Radix, variant: Variant, tokens: &[u32], limit: usize) -> Match {
    let tokens = &tokens[..tokens.len().min(limit)];
    let (mut found, mut at) = (Match::default(), ROOT);
    loop {
        let rest = &tokens[found.path.len() * BLOCK..];
        let children = radix
            .nodes
            .iter()
            .enumerate()
            .skip(1)
            .filter(|(_, node)| node.live && node.parent == at && node.variant == variant);
        let shared = |node: &Node| node.tokens.iter().zip(rest).take_while(|(a, b)| a == b).count();
        let best = children.map(|(id, node)| (id as NodeId, shared(node))).filter(|(_, n)| *n > 0);
        match best.max_by_key(|&(id, n)| (n, std::cmp::Reverse(id))) {
            Some((child, BLOCK)) => {
                found.path.push(child);
                at = child;
            }
            tail => return Match { tail, ..found },
        }
    }
}

struct Held {
    path: Vec<NodeId>,
    private: Vec<u32>,
}

fn allocate(radix: &mut Radix, variant: Variant, tokens: &[u32]) -> Option<Held> {
    let known = radix.match_prefix(variant, tokens, tokens.len() - 1);
    assert!(known.n_tokens() < tokens.len());
    radix.lock(&known.path);
    let Some(own) = radix.allocate(tokens.len().div_ceil(BLOCK) + 1 - known.path.len()) else {
        radix.unlock(&known.path);
        return None;
    };
    let mut path = known.path;
    let mut own = own.into_iter();
    for chunk in tokens.chunks(BLOCK).skip(path.len()) {
        let block = own.next().expect("a block was allocated for each chunk");
        let parent = path.last().map_or(Parent::Root(variant), |&node| Parent::Node(node));
        path.push(radix.insert_prefix(parent, chunk, block));
    }
    for (i, &node) in path.iter().enumerate() {
        radix.set_ready(node, tokens.len() - i * BLOCK);
    }
    Some(Held { path, private: own.collect() })
}

#[test]
fn a_hundred_thousand_rounds() {
    let mut dice = Dice(1);
    let mut radix = Radix::new(48);
    let mut held: Vec<Held> = Vec::new();
    let mut seated = 0;
    for _ in 0..100_000 {
        match dice.roll(4) {
            0 | 1 => {
                if let Some(one) = allocate(&mut radix, variant(&mut dice), &prompt(&mut dice)) {
                    seated += 1;
                    held.push(one);
                }
            }
            2 if !held.is_empty() => {
                let one = held.swap_remove(dice.roll(held.len()));
                radix.unlock(&one.path);
                radix.release(&one.private);
            }
            _ => {
                let (variant, prompt) = (variant(&mut dice), prompt(&mut dice));
                let known = radix.match_prefix(variant, &prompt, 1000);
                assert_eq!(known, match_plainly(&radix, variant, &prompt, 1000));
                let known = known.path;
                if dice.roll(2) == 0 { radix.hint(&known) } else { radix.unhint(&known) }
            }
        }
        let private: Vec<u32> = held.iter().flat_map(|one| one.private.iter().copied()).collect();
        radix.check_integrity(&private).expect("the books balance");
    }
    assert!(seated > 20_000, "the cache must not stay full: {seated}");
    for one in held {
        radix.unlock(&one.path);
        radix.release(&one.private);
    }
    assert_eq!(radix.n_available(), 48);
    assert_eq!(radix.allocate(48).map(|blocks| blocks.len()), Some(48));
}

#[test]
fn what_waiting_work_wants_is_evicted_last() {
    let mut radix = Radix::new(4);
    let a: Vec<u32> = (0..16).collect();
    let b: Vec<u32> = (100..116).collect();
    for tokens in [&a, &b] {
        let block = radix.allocate(1).expect("free")[0];
        let node = radix.insert_prefix(Parent::Root(Variant::default()), tokens, block);
        radix.set_ready(node, BLOCK);
        radix.unlock(&[node]);
    }
    let wanted = radix.match_prefix(Variant::default(), &a, 16).path;
    radix.hint(&wanted);
    assert_eq!(radix.allocate(3).map(|blocks| blocks.len()), Some(3));
    assert_eq!(
        (
            radix.match_prefix(Variant::default(), &a, 16).n_tokens(),
            radix.match_prefix(Variant::default(), &b, 16).n_tokens()
        ),
        (16, 0)
    );
}

#[test]
fn blocks_of_one_variant_are_not_found_by_another() {
    let mut radix = Radix::new(8);
    let tokens: Vec<u32> = (0..20).collect();
    let plain = Variant::default();
    let (adapted, shallow) = (Variant { adapter: Some(0), ..plain }, Variant { n_layers: Some(1), ..plain });
    for variant in [plain, adapted] {
        let held = allocate(&mut radix, variant, &tokens).expect("room");
        radix.unlock(&held.path);
        radix.release(&held.private);
    }
    let found = |variant| radix.match_prefix(variant, &tokens, 20);
    assert_eq!((found(plain).n_tokens(), found(adapted).n_tokens()), (20, 20));
    assert_ne!(found(plain).path, found(adapted).path);
    assert_eq!(found(shallow), Match::default());
    assert_eq!(found(Variant { adapter: Some(1), ..plain }), Match::default());
}
