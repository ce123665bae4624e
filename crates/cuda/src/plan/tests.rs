//! A padded step's numbers that equal those of the last one; padding has no effect.

use super::{Layout, NOT_STORED, Plan, Room};
use crate::work_tiles::Limits;
use tribunal_model::{BLOCK, Config, Part, Step, weights::Weights};

const LIMITS: Limits = Limits {
    multiprocessors: 132,
    shared_bytes: 227 << 10,
    splits: 10_000,
    cascade: true,
    new_tma: false,
    merges: false,
};

fn config() -> Config {
    let folder =
        std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("models/tiny/gemma3");
    Weights::open(&folder).unwrap().config().clone()
}

/// Sequences of these lengths that each compute their last `n` tokens, with logits.
fn decoding(lengths: &[usize], n: usize) -> Step {
    let mut next = 0;
    let own = |&length: &usize| {
        let first = next;
        next += length.div_ceil(BLOCK) as u32;
        (first..next).collect()
    };
    let blocks: Vec<Vec<u32>> = lengths.iter().map(own).collect();
    let tokens = vec![7; n];
    let part = |(&length, blocks)| Part {
        tokens: &tokens,
        position: length - n,
        blocks,
        logits_from: 0,
        states_from: n,
        adapter: None,
        state: None,
    };
    Step::new(lengths.iter().zip(blocks.iter().map(Vec::as_slice)).map(part), Vec::new())
}

fn layout(lengths: &[usize], n: usize) -> Layout {
    Plan::new(&decoding(lengths, n), &config(), LIMITS, true).layout.expect("a padded step")
}

#[test]
fn rows_are_rounded_up_by_half_at_most_where_they_cost_time() {
    let rounded = [1, 2, 3, 5, 12, 16, 17, 24, 25, 33, 48, 49, 100, 129, 193, 256];
    let expected = [1, 2, 4, 8, 16, 16, 24, 24, 32, 48, 48, 64, 128, 192, 256, 256];
    assert_eq!(rounded.map(|n| Room::Padded.rows(n)), expected);
    assert_eq!(rounded.map(|n| Room::Exact.rows(n)), rounded);
    for n in 17..=256 {
        assert!(2 * Room::Padded.rows(n) <= 3 * n, "{n}");
    }
}

#[test]
fn steps_that_differ_in_their_numbers_alone_have_one_layout() {
    let a = layout(&[40, 41, 300, 7, 9], 1);
    assert_eq!(a, layout(&[290, 3, 8, 60, 61], 1), "another order and other lengths, the same pieces");
    let six = layout(&[40, 41, 300, 7, 9, 12], 1);
    assert_eq!(six, layout(&[40, 41, 300, 7, 9, 12, 3, 5], 1), "six rows fill eight places, their items too");
    assert_ne!(a, layout(&[40, 41, 300, 7], 1), "four rows");
    assert_ne!(a, layout(&[40, 41, 2000, 7, 9], 1), "more splits than are rounded up to");
}

#[test]
fn padding_is_stored_nowhere_and_attends_to_nothing() {
    let config = config();
    let plan = Plan::new(&decoding(&[40, 41, 300, 7, 9], 1), &config, LIMITS, true);
    assert_eq!((plan.n_rows, plan.n_wanted), (8, 5));
    let numbers = |at: super::At, n: usize| plan.numbers.values[at.0..at.0 + n].to_vec();
    assert_eq!(numbers(plan.slots, 8)[5..], [NOT_STORED.cast_signed(); 3]);
    assert_eq!(numbers(plan.tokens, 8), [7, 7, 7, 7, 7, 0, 0, 0]);
    for attention in [&plan.all.global, &plan.all.local] {
        assert_eq!(numbers(attention.split_starts, 8)[5..], [-1; 3]);
        for (launches, width) in [(&attention.rows, 2), (&attention.splits, 4)] {
            for launch in launches {
                assert!(launch.n_work_tiles.is_power_of_two());
                let items = numbers(launch.work_tiles, launch.n_work_tiles * width);
                let filled = items.chunks(width).filter(|item| item[1] > 0).count();
                assert!(filled > launch.n_work_tiles / 2, "{filled} of {}", launch.n_work_tiles);
            }
        }
    }
}

/// The step of [`decoding`] with adapters on the sequences from `first` on, every second one the same.
fn adapted(lengths: &[usize], first: usize) -> Step {
    let mut step = decoding(lengths, 1);
    for (sequence, adapter) in step.adapters.iter_mut().enumerate().skip(first) {
        *adapter = Some(sequence as u32 % 2);
    }
    step
}

#[test]
fn rows_of_one_adapter_stand_in_items_and_steps_without_have_none() {
    let plan = |step: &Step| Plan::new(step, &config(), LIMITS, true);
    let numbers = |plan: &Plan, at: super::At, n: usize| plan.numbers.values[at.0..at.0 + n].to_vec();
    let lengths = [9; 24];
    let some = plan(&adapted(&lengths, 5));
    // Rows 6, 8, .. 22 take the first adapter and 5, 7, .. 23 the second: two items each.
    assert_eq!(some.adapted.n_items, 4);
    let items = numbers(&some, some.adapted.items, 4 * 9);
    assert_eq!(items[..9], [0, 6, 8, 10, 12, 14, 16, 18, 20]);
    assert_eq!(items[9..18], [0, 22, -1, -1, -1, -1, -1, -1, -1]);
    assert_eq!(items[18..27], [1, 5, 7, 9, 11, 13, 15, 17, 19]);
    assert_eq!(items[27..], [1, 21, 23, -1, -1, -1, -1, -1, -1]);
    let three = plan(&adapted(&lengths[..20], 3));
    assert_eq!(three.adapted.n_items, 4, "three are rounded up");
    assert_eq!(numbers(&three, three.adapted.items, 4 * 9)[27..], [-1; 9]);

    let none = plan(&decoding(&lengths, 1));
    assert_eq!(none.adapted.n_items, 0);
    assert_ne!(none.layout, some.layout);
    assert_eq!(some.layout, plan(&adapted(&lengths, 6)).layout, "other rows, as many items");
    assert_ne!(some.layout, plan(&adapted(&lengths, 23)).layout, "one item");
}

#[test]
fn prompts_and_large_steps_are_not_padded() {
    let config = config();
    let prompt: Vec<u32> = (0..40).collect();
    let blocks = [0, 1, 2];
    let part = Part {
        tokens: &prompt,
        position: 0,
        blocks: &blocks,
        logits_from: 39,
        states_from: prompt.len(),
        adapter: None,
        state: None,
    };
    let plan = Plan::new(&Step::new([part], Vec::new()), &config, LIMITS, true);
    assert!(plan.layout.is_none() && !plan.takes_all());
    let large = decoding(&[3; 257], 1);
    assert!(Plan::new(&large, &config, LIMITS, true).layout.is_none());
    let exact = Plan::new(&decoding(&[40, 41, 300], 1), &config, LIMITS, false);
    assert!(exact.layout.is_none() && exact.n_rows == 3);
}
