//! The invariants hold after each of many random steps, and nothing is computed twice.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits {
    whole_prompts: false,
    n_rows: 5,
    n_tokens: 24,
    n_beside_answers: usize::MAX,
    max_rows: usize::MAX,
    max_logits: usize::MAX,
    prefix_cache: true,
};

/// A token and the variant that it was computed in.
type Computed = (Variant, u32);

/// A cache that records the tokens and positions from which each slot of each block was computed.
#[derive(Default)]
struct Slots(BTreeMap<(u32, usize), Vec<Computed>>);

/// The recurrent state in each slot: the tokens that it has passed.
type Passed = BTreeMap<u32, Vec<Computed>>;

impl Slots {
    /// Plays a step: copies, then writes; checks that all positions a token attends to are present and right.
    fn run(&mut self, batch: &Batch) {
        for copy in &batch.copies {
            for offset in 0..BLOCK {
                match self.0.get(&(copy.from, offset)).cloned() {
                    Some(history) => drop(self.0.insert((copy.to, offset), history)),
                    None => drop(self.0.remove(&(copy.to, offset))),
                }
            }
        }
        for chunk in &batch.chunks {
            for (i, &token) in chunk.tokens.iter().enumerate() {
                let position = chunk.position + i;
                let mut history = self.before(chunk, position);
                history.push((chunk.variant, token));
                self.0.insert((chunk.blocks[position / BLOCK], position % BLOCK), history);
            }
        }
    }

    /// The tokens that the slot before `position` stands for: its own and all before it.
    fn before(&self, chunk: &Chunk, position: usize) -> Vec<Computed> {
        let Some(last) = position.checked_sub(1) else { return Vec::new() };
        let slot = (chunk.blocks[last / BLOCK], last % BLOCK);
        let history = self.0.get(&slot).unwrap_or_else(|| panic!("position {last} was never computed"));
        assert_eq!(history.len(), position, "slot of another position");
        assert!(history.iter().all(|(variant, _)| *variant == chunk.variant), "computed in another variant");
        history.clone()
    }
}

/// A prompt of a family: families share `family * 7` tokens and part at odd places.
fn prompt(family: usize, own: usize, n_own: usize) -> Vec<u32> {
    let shared = (0..family * 7).map(|i| (i * i % 97 + family * 1000) as u32);
    shared.chain((0..=n_own).map(|i| (10_000 + own * 100 + i) as u32)).collect()
}

/// The answer's token `i`, from 1.
fn truth(id: SeqId, i: usize) -> u32 {
    (id as u32) << 8 | i as u32
}

/// An answer that is to come: its first tokens are forced, and it may fail before its end.
#[derive(Clone, Copy, Debug)]
struct Plan {
    n_answer: usize,
    n_forced: usize,
    /// Tokens after which the answer ends in an error.
    fails_at: Option<usize>,
}

impl Plan {
    fn of(n_answer: usize) -> Self {
        Self { n_answer, n_forced: 0, fails_at: None }
    }

    /// The answer so far, the tokens forced to follow, and a guess at the remaining ones: right for some
    /// tokens, then wrong, within the budget.
    fn guessed(self, id: SeqId, given: usize) -> Vec<u32> {
        let (n_right, n_wrong) = ((id as usize + given) % 4, given % 3);
        let right = (1..=self.n_forced.max(given + n_right)).map(|i| truth(id, i));
        let wrong = (0..n_wrong as u32).map(|i| 7_000_000 + i);
        right.chain(wrong).take((self.n_answer - 1).max(given).max(self.n_forced)).collect()
    }
}

struct Harness {
    scheduler: Scheduler,
    slots: Slots,
    asked: BTreeMap<SeqId, (Request, Plan, usize)>,
    /// Cancelled sequences that have not been removed.
    cancelled: BTreeSet<SeqId>,
    computed: usize,
    passed: Passed,
}

impl Harness {
    fn new(limits: Limits, n_blocks: usize) -> Self {
        let scheduler = Scheduler::new(limits, n_blocks);
        let (asked, cancelled) = (BTreeMap::new(), BTreeSet::new());
        Self { scheduler, slots: Slots::default(), asked, cancelled, computed: 0, passed: Passed::new() }
    }

    /// This harness for a model with recurrent states, where there are slots for them.
    fn with_states(mut self, n_slots: impl Into<Option<usize>>) -> Self {
        if let Some(n_slots) = n_slots.into() {
            self.scheduler = self.scheduler.with_states(n_slots);
        }
        self
    }

    /// Plays the copies of a step and its chunks over the recurrent states.
    fn pass(&mut self, batch: &Batch) {
        for (from, to) in &batch.state_copies {
            let state = self.passed[from].clone();
            self.passed.insert(*to, state);
        }
        for chunk in &batch.chunks {
            let slot = chunk.state.expect("a slot");
            let state = self.passed.entry(slot).or_default();
            if chunk.position == 0 {
                state.clear();
            }
            assert_eq!(*state, self.slots.before(chunk, chunk.position), "the state of another prefix");
            state.extend(chunk.tokens.iter().map(|&token| (chunk.variant, token)));
        }
    }

    fn add(&mut self, prompt: Vec<u32>, plan: Plan) {
        self.add_with(Variant::default(), prompt, plan);
    }

    fn add_with(&mut self, variant: Variant, prompt: Vec<u32>, plan: Plan) {
        let id = self.asked.keys().last().map_or(1, |id| id + 1);
        let n_prompt = prompt.len();
        let forced = (1..=plan.n_forced).map(|i| truth(id, i));
        let tokens = prompt.into_iter().chain(forced).collect();
        let n_more = (plan.n_answer - 1).saturating_sub(plan.n_forced);
        let logits_from = n_prompt - 1;
        // Groups take turns, and some questions are the next ones of earlier groups.
        let rank = (id * id % 7) as usize;
        let request =
            Request { id, rank, tokens, n_prompt, variant, n_more, logits_from, states_from: usize::MAX };
        self.asked.insert(id, (request.clone(), plan, 0));
        self.scheduler.add(request);
    }

    /// Announces a prefix, with or without a file, as the engine's thread does.
    fn announce(&mut self, prefix: &Prefix, has_file: bool) {
        let history = |n: usize| -> Vec<Computed> {
            prefix.tokens[..n].iter().map(|&token| (prefix.variant, token)).collect()
        };
        let whole = history(prefix.tokens.len());
        if let Some(stored) = self.scheduler.stored(prefix) {
            assert!(
                stored.state.is_none_or(|slot| self.passed[&slot] == whole),
                "the state of another prefix"
            );
            return;
        }
        if !has_file {
            return self.scheduler.keep_state_after(prefix);
        }
        let Some((n_known, Stored { blocks, state })) = self.scheduler.restore(prefix) else { return };
        for (i, &block) in blocks.iter().enumerate() {
            for offset in 0..BLOCK {
                self.slots.0.insert((block, offset), history((n_known + i) * BLOCK + offset + 1));
            }
        }
        if let Some(slot) = state {
            self.passed.insert(slot, whole);
        }
        self.scheduler.check_integrity().expect("the books balance");
    }

    /// Removes cancelled sequences, the latest first, unless others wait for their blocks.
    fn drop_cancelled(&mut self) {
        for id in self.scheduler.cancel_all(self.cancelled.iter().copied()) {
            self.cancelled.remove(&id);
            self.asked.get_mut(&id).expect("a known sequence").2 = usize::MAX;
        }
        self.scheduler.check_integrity().expect("the books balance");
    }

    /// One step; rows whose logits came take a token, or end when they have all theirs or fail.
    fn step(&mut self) {
        self.drop_cancelled();
        if self.scheduler.is_idle() {
            return;
        }
        let batch = self.scheduler.next_batch();
        assert!(!batch.chunks.is_empty(), "work waits and nothing runs");
        let sum = |of: fn(&Chunk) -> usize| batch.chunks.iter().map(of).sum::<usize>();
        let Limits { max_rows, max_logits, .. } = self.scheduler.limits;
        assert!(sum(|chunk| chunk.tokens.len()) <= max_rows && sum(Chunk::n_logits) <= max_logits);
        self.slots.run(&batch);
        if self.scheduler.states.is_some() {
            self.pass(&batch);
        }
        self.scheduler.computed(&batch);
        for chunk in &batch.chunks {
            self.computed += chunk.tokens.len();
            if chunk.logits_from < chunk.tokens.len() {
                self.take(chunk);
            }
        }
        self.scheduler.check_integrity().expect("the books balance");
    }

    fn take(&mut self, chunk: &Chunk) {
        let id = chunk.id;
        let (request, plan, given) = self.asked.get_mut(&id).expect("a known sequence");
        let mut is_over = false;
        // Each row confirms the token after it, if that was guessed right.
        for row in chunk.logits_from..chunk.tokens.len() {
            is_over = plan.fails_at == Some(*given);
            if is_over {
                break;
            }
            *given += 1;
            is_over = *given == plan.n_answer;
            if is_over || chunk.tokens.get(row + 1) != Some(&truth(id, *given)) {
                break;
            }
        }
        if !is_over {
            let mut guessed = plan.guessed(id, *given);
            if self.scheduler.states.is_some() {
                guessed.truncate(plan.n_forced.max(*given)); // nothing is guessed that may be wrong
            }
            let settled = self.scheduler.n_settled(id);
            return self.scheduler.set_answer(id, &guessed[settled..], *given);
        }
        let answer: Vec<u32> = (1..=*given).map(|i| truth(id, i)).collect();
        let expected = [&request.tokens[..request.n_prompt], &answer[..given.saturating_sub(1)]].concat();
        *given = usize::MAX;
        self.cancelled.remove(&id);
        let settled = self.scheduler.n_settled(id);
        self.scheduler.set_answer(id, &answer[settled..], answer.len());
        let ended = self.scheduler.finish(id);
        assert!(ended.tokens.starts_with(&expected) && ended.n_done == expected.len());
    }

    fn drain(&mut self) {
        while !self.scheduler.is_idle() {
            self.step();
        }
        assert!(self.asked.values().all(|(.., given)| *given == usize::MAX), "every sequence ends");
    }
}

/// Answers whose start, whole or no part is forced; some fail on the way.
fn any_plan() -> impl Strategy<Value = Plan> {
    let forced = |n_answer| prop_oneof![Just(0), Just(n_answer), 0..=n_answer];
    let plan = (1_usize..=30).prop_flat_map(move |n| (Just(n), forced(n), prop::option::weighted(0.2, 0..n)));
    plan.prop_map(|(n_answer, n_forced, fails_at)| Plan { n_answer, n_forced, fails_at })
}

fn any_variant() -> impl Strategy<Value = Variant> {
    let parts = (prop::option::of(0_u32..2), prop::option::weighted(0.3, 1_u32..3));
    parts.prop_map(|(adapter, n_layers)| Variant { adapter, n_layers })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_books_balance_after_every_step(
        asks in prop::collection::vec(
            ((0_usize..9, 0_usize..6, 0_usize..40), any_variant(), any_plan(), 0_usize..4), 1..40,
        ),
        n_blocks in 8_usize..40,
        prefix_cache in any::<bool>(),
        room in prop_oneof![Just((usize::MAX, usize::MAX)), (1_usize..40, 1_usize..20)],
        n_slots in prop::option::of(2_usize..12),
        n_beside_answers in prop_oneof![Just(usize::MAX), 1_usize..40],
    ) {
        // A device with little room leaves excess rows to the next step.
        let (max_rows, max_logits) = room;
        let mut harness = Harness::new(Limits { n_beside_answers, max_rows, max_logits, prefix_cache, ..LIMITS }, n_blocks).with_states(n_slots);
        for ((family, own, n_own), variant, plan, steps) in asks {
            harness.add_with(variant, prompt(family, own, n_own), plan);
            for _ in 0..steps {
                if !harness.scheduler.is_idle() {
                    harness.step();
                }
            }
        }
        harness.drain();
    }
}

/// After a request: some steps, then perhaps one of the last sequences is cancelled.
type After = (usize, Option<u64>);

/// A prompt by the arguments of [`prompt`], its variant, its answer, and the steps after it.
type Asked = ((usize, usize, usize), Variant, Plan, After);

/// Plays a schedule of requests, steps and cancellations.
fn play(harness: &mut Harness, asks: Vec<Asked>) {
    for ((family, own, n_own), variant, plan, (steps, abandons)) in asks {
        harness.add_with(variant, prompt(family, own, n_own), plan);
        for _ in 0..steps {
            if !harness.scheduler.is_idle() {
                harness.step();
            }
        }
        let last = harness.asked.len() as u64;
        let id = abandons.map(|back| last.saturating_sub(back).max(1));
        if let Some(id) = id.filter(|id| harness.asked[id].2 != usize::MAX) {
            harness.cancelled.insert(id);
        }
    }
}

fn any_ask() -> impl Strategy<Value = Asked> {
    let prompt = (0_usize..9, 0_usize..6, 0_usize..40);
    let after = (0_usize..4, prop::option::of(0_u64..8));
    (prompt, any_variant(), any_plan(), after)
}

fn any_asks() -> impl Strategy<Value = Vec<Asked>> {
    prop::collection::vec(any_ask(), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn cancelled_sequences_are_dropped_and_the_others_end(
        asks in any_asks(),
        n_blocks in 8_usize..40,
        prefix_cache in any::<bool>(),
        n_slots in prop::option::of(2_usize..12),
        n_beside_answers in prop_oneof![Just(usize::MAX), 1_usize..40],
    ) {
        let mut harness = Harness::new(Limits { n_beside_answers, prefix_cache, ..LIMITS }, n_blocks).with_states(n_slots);
        play(&mut harness, asks);
        harness.drain();
        prop_assert_eq!(harness.scheduler.radix.n_available(), n_blocks, "every block can be had again");
    }

    /// A restored state is neither overwritten nor copied by the copies that wait for the next step.
    #[test]
    fn prefixes_are_restored_between_steps_and_between_runs(
        runs in prop::collection::vec(prop::collection::vec((any_ask(), any::<bool>()), 1..12), 1..4),
        n_blocks in 20_usize..60,
        n_slots in prop::option::weighted(0.9, 2_usize..7),
    ) {
        let mut harness = Harness::new(LIMITS, n_blocks).with_states(n_slots);
        for asks in runs {
            for (ask, has_file) in asks {
                let ((family, own, n_own), variant, ..) = ask;
                let mut tokens = prompt(family, own, n_own);
                tokens.truncate(tokens.len() / BLOCK * BLOCK);
                if !tokens.is_empty() {
                    harness.announce(&Prefix { variant, tokens }, has_file);
                }
                play(&mut harness, vec![ask]);
            }
            harness.drain();
        }
    }

    #[test]
    fn when_all_are_cancelled_nothing_more_is_computed(
        asks in any_asks(),
        n_blocks in 8_usize..40,
        prefix_cache in any::<bool>(),
        n_slots in prop::option::of(2_usize..12),
        n_beside_answers in prop_oneof![Just(usize::MAX), 1_usize..40],
    ) {
        let mut harness = Harness::new(Limits { n_beside_answers, prefix_cache, ..LIMITS }, n_blocks).with_states(n_slots);
        play(&mut harness, asks);
        let left = harness.asked.iter().filter(|(_, (.., given))| *given != usize::MAX);
        harness.cancelled = left.map(|(id, _)| *id).collect();
        harness.drop_cancelled();
        prop_assert!(harness.scheduler.is_idle() && harness.cancelled.is_empty());
        prop_assert_eq!(harness.scheduler.radix.n_available(), n_blocks, "every block can be had again");
        // A prompt left half computed is not taken for a whole one.
        for own in 0..6 {
            harness.add(prompt(8, own, 9), Plan::of(3));
        }
        harness.drain();
    }
}

/// The chunks of the next step: ids and tokens.
fn chunks(scheduler: &mut Scheduler) -> Vec<(SeqId, usize)> {
    let batch = scheduler.next_batch();
    scheduler.computed(&batch);
    batch.chunks.iter().map(|chunk| (chunk.id, chunk.tokens.len())).collect()
}

fn request(id: SeqId, rank: usize, n_tokens: usize) -> Request {
    let tokens = (0..n_tokens as u32).map(|i| 1000 * id as u32 + i).collect();
    let logits_from = n_tokens - 1;
    Request { id, rank, n_more: 8, logits_from, ..Request::new(tokens, Variant::default()) }
}

#[test]
fn an_earlier_sequence_that_waits_for_a_later_one_goes_with_it() {
    let limits = Limits { n_tokens: 40, ..LIMITS };
    let mut scheduler = Scheduler::new(limits, 100);
    let same = |id, rank| Request { tokens: request(7, rank, 90).tokens, ..request(id, rank, 90) };
    scheduler.add(same(1, 1));
    scheduler.add(same(2, 0));
    assert_eq!(chunks(&mut scheduler), [(2, 40)], "the first rank computes, the second waits for its blocks");
    let mut removed = scheduler.cancel_all([1, 2]);
    removed.sort_unstable();
    assert!(removed == [1, 2] && scheduler.is_idle(), "{removed:?}");
}

#[test]
fn prompts_are_read_in_short_pieces_beside_answers() {
    let limits = Limits { n_tokens: 100, n_beside_answers: 40, ..LIMITS };
    let mut scheduler = Scheduler::new(limits, 100);
    scheduler.add(request(1, 0, 60));
    scheduler.add(request(2, 1, 160));
    assert_eq!(chunks(&mut scheduler), [(1, 60)], "the first prompt is read alone");
    scheduler.set_answer(1, &[7], 1);
    assert_eq!(chunks(&mut scheduler), [(1, 1)], "the first answer waits for no prompt");
    scheduler.finish(1);
    assert_eq!(chunks(&mut scheduler), [(2, 100)]);
    scheduler.add(request(3, 2, 10));
    assert_eq!(chunks(&mut scheduler), [(2, 60), (3, 10)]);
    scheduler.set_answer(2, &[7], 1);
    scheduler.set_answer(3, &[7, 8, 9], 1);
    scheduler.add(request(4, 3, 90));
    assert_eq!(chunks(&mut scheduler), [(2, 1), (3, 3), (4, 36)], "40 rows in all");
}

#[test]
fn prompts_of_lower_rank_come_first() {
    let mut scheduler = Scheduler::new(Limits { n_rows: 2, ..LIMITS }, 100);
    scheduler.add(request(1, 1, 30));
    scheduler.add(request(2, 1, 30));
    assert_eq!(chunks(&mut scheduler), [(1, 24)]);
    scheduler.add(request(3, 2, 5));
    scheduler.add(request(4, 0, 5));
    assert_eq!(chunks(&mut scheduler), [(1, 6), (2, 18)], "there is no row for it yet");
    scheduler.set_answer(1, &[7], 1);
    scheduler.finish(1);
    assert_eq!(chunks(&mut scheduler), [(4, 5), (2, 12)], "the next question of an earlier group");
}

#[test]
fn what_others_wait_for_is_computed_though_its_asker_has_gone() {
    let mut harness = Harness::new(Limits { n_tokens: 8, ..LIMITS }, 40);
    harness.add(prompt(8, 0, 9), Plan::of(1));
    harness.add(prompt(8, 1, 9), Plan::of(1));
    harness.step();
    harness.cancelled.insert(1);
    harness.drop_cancelled();
    assert_eq!(
        harness.cancelled,
        BTreeSet::from([1]),
        "the second prompt shares what the first one computes"
    );
    harness.drain();
    assert_eq!(
        harness.computed,
        56 + 10 + 8,
        "the shared part once, the second's own, and a step before it is copied"
    );
}

/// Distinct prompt tokens: the size of the prompts' trie.
fn distinct(prompts: &[Vec<u32>]) -> usize {
    let starts = prompts.iter().flat_map(|p| (1..=p.len()).map(move |n| p[..n].to_vec()));
    starts.collect::<BTreeSet<_>>().len()
}

#[test]
fn shared_prompts_are_computed_once_though_all_come_at_once() {
    for n_slots in [None, Some(8)] {
        let mut harness = Harness::new(LIMITS, 400).with_states(n_slots);
        let prompts: Vec<Vec<u32>> = (0..20).map(|own| prompt(8, own, 5)).collect();
        for tokens in &prompts {
            harness.add(tokens.clone(), Plan::of(1));
        }
        harness.drain();
        assert_eq!(harness.computed, distinct(&prompts));
    }
}

#[test]
fn a_repeated_prompt_computes_its_last_token_only() {
    let mut harness = Harness::new(LIMITS, 40);
    harness.add(prompt(6, 1, 9), Plan::of(1));
    harness.drain();
    let before = harness.computed;
    harness.add(prompt(6, 1, 9), Plan::of(1));
    harness.drain();
    assert_eq!(harness.computed - before, 1);
}

#[test]
fn a_sequence_that_fills_the_cache_can_share_part_of_a_block() {
    let mut harness = Harness::new(LIMITS, 2);
    harness.add((0..32).collect(), Plan::of(1));
    harness.drain();
    harness.add((0..24).chain(100..108).collect(), Plan::of(1));
    harness.drain();
}

#[test]
fn the_next_turn_finds_the_answer_that_it_quotes() {
    for n_slots in [None, Some(4)] {
        let mut harness = Harness::new(LIMITS, 40).with_states(n_slots);
        harness.add(prompt(6, 1, 9), Plan::of(21));
        harness.drain();
        let before = harness.computed;
        let answer = (1..=20).map(|i| 1 << 8 | i);
        harness.add(prompt(6, 1, 9).into_iter().chain(answer).chain([5, 6, 7]).collect(), Plan::of(1));
        harness.drain();
        assert_eq!(harness.computed - before, 3);
    }
}

#[test]
fn a_forced_answer_is_found_again_and_half_of_one_is_not_waited_for() {
    for fails_at in [None, Some(0), Some(5)] {
        let mut harness = Harness::new(LIMITS, 40);
        harness.add(prompt(6, 1, 9), Plan { n_answer: 20, n_forced: 20, fails_at });
        harness.step();
        harness.add(prompt(6, 1, 9), Plan::of(1));
        harness.drain();
        let before = harness.computed;
        let answer = (1..=20).map(|i| 1 << 8 | i);
        harness.add(prompt(6, 1, 9).into_iter().chain(answer).chain([5]).collect(), Plan::of(1));
        harness.drain();
        let n_kept = fails_at.map_or(19, |n: usize| n.saturating_sub(1));
        assert_eq!(harness.computed - before, 21 - n_kept);
    }
}

#[test]
fn a_prompt_that_comes_late_computes_its_prefix_once_more_and_leaves_a_snapshot() {
    let mut harness = Harness::new(LIMITS, 400).with_states(8);
    for (own, expected) in [(0, 62), (1, 62), (2, 6), (3, 6)] {
        let before = harness.computed;
        harness.add(prompt(8, own, 5), Plan::of(1));
        harness.drain();
        assert_eq!(harness.computed - before, expected, "prompt {own}");
    }
}

#[test]
fn a_recurrent_model_with_two_slots_runs_one_sequence_at_a_time() {
    let mut harness = Harness::new(LIMITS, 400).with_states(2);
    for own in 0..6 {
        harness.add(prompt(own, own, 5), Plan::of(4));
    }
    while !harness.scheduler.is_idle() {
        harness.step();
        assert!(harness.scheduler.running.len() <= 1);
    }
}

#[test]
fn a_restored_prefix_is_shared_like_a_computed_one() {
    let mut scheduler = Scheduler::new(LIMITS, 12);
    let variant = Variant::default();
    let tokens: Vec<u32> = (0..64).collect();
    let prefix = Prefix { variant, tokens: tokens.clone() };
    assert_eq!(scheduler.stored(&prefix), None);
    let (n_known, stored) = scheduler.restore(&prefix).unwrap();
    assert_eq!((n_known, stored.blocks.len(), stored.state), (0, 4, None));
    assert_eq!(scheduler.stored(&prefix), Some(stored.clone()));
    let branched = Prefix { variant, tokens: [&tokens[..32], &[9; 32]].concat() };
    let (n_known, rest) = scheduler.restore(&branched).unwrap();
    assert_eq!((n_known, rest.blocks.len()), (2, 2));
    assert!(rest.blocks.iter().all(|block| !stored.blocks.contains(block)));
    scheduler.check_integrity().unwrap();
    let long = Prefix { variant, tokens: vec![7; 112] };
    assert_eq!(scheduler.restore(&long), None, "seven blocks where six are free");
    scheduler.add(Request {
        id: 1,
        logits_from: 70,
        ..Request::new([&tokens[..], &[5; 7]].concat(), variant)
    });
    let batch = scheduler.next_batch();
    assert_eq!((batch.chunks[0].position, &batch.chunks[0].blocks[..4]), (64, &stored.blocks[..]));
    scheduler.computed(&batch);
    scheduler.check_integrity().unwrap();
}

#[test]
fn the_state_after_a_prefix_is_kept_and_restored() {
    let variant = Variant::default();
    let tokens: Vec<u32> = (0..32).collect();
    let prefix = Prefix { variant, tokens: tokens.clone() };
    let request =
        || Request { id: 1, logits_from: 39, ..Request::new([&tokens[..], &[5; 8]].concat(), variant) };
    let mut scheduler = Scheduler::new(LIMITS, 12).with_states(4);
    scheduler.keep_state_after(&prefix);
    scheduler.add(request());
    let mut lengths = Vec::new();
    while scheduler.stored(&prefix).is_none() {
        let batch = scheduler.next_batch();
        lengths.push(batch.chunks[0].tokens.len());
        scheduler.computed(&batch);
        scheduler.check_integrity().unwrap();
        assert!(lengths.len() < 9, "{lengths:?}");
    }
    assert_eq!(lengths, [24, 8, 8], "up to the prefix's end, and a step before its state is copied");
    let mut other = Scheduler::new(LIMITS, 12).with_states(4);
    let (n_known, stored) = other.restore(&prefix).unwrap();
    assert_eq!((n_known, stored.blocks.len()), (0, 2));
    other.check_integrity().unwrap();
    other.add(request());
    let batch = other.next_batch();
    assert_eq!((batch.chunks[0].position, batch.state_copies.len()), (32, 1));
    assert_eq!(batch.state_copies[0].0, stored.state.unwrap());
    other.computed(&batch);
    other.check_integrity().unwrap();
}
