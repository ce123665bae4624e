//! How long a model takes to read, measured at two depths: attention compares each token with all before it, so that a
//! pace measured at the start of prompts says little of their ends.

use std::time::Instant;

use super::{Reads, TIME, side_by_side};
use crate::{
    judges::Question,
    llm::{Chat, Form, Llm, Sampling, Speaker, Usage},
    run::plan::Computed,
};

/// Words of a text of our own: some hundred tokens, whatever the tokenizer.
const WORDS: usize = 120;

/// The most texts that are read side by side.
const MOST: usize = 64;

/// Texts that take less together than this part of the time are read with more at once, as a run would.
const TOO_SHORT: f64 = 1.0 / 16.0;

/// What was read, and in how many seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Taken {
    read: Computed,
    seconds: f64,
}

impl Taken {
    fn add(&mut self, other: Self) {
        self.read += other.read;
        self.seconds += other.seconds;
    }
}

/// How long the model takes to read. `None` when it does not answer.
pub fn measured(llm: &dyn Llm, examples: &[Question]) -> Option<Reads> {
    let (start, deep) = at_two_depths(llm, examples)?;
    let reads = solved(start, deep);
    let weighed: Vec<&Question> = examples.iter().filter(|question| !question.given().is_empty()).collect();
    if weighed.is_empty() {
        return Some(reads);
    }
    // More is computed of texts that are weighed than of a prompt.
    let taken = of_weighing(llm, &weighed)?;
    let attention = taken.read.pairs as f64 * reads.pair;
    let token = (taken.seconds - attention).max(0.0) / taken.read.tokens.max(1) as f64;
    Some(Reads { token, ..reads })
}

/// The times of a token and of a pair that both measurements have. Where the second has no greater share of pairs, or
/// took no longer for its tokens, the pairs take none.
fn solved(start: Taken, deep: Taken) -> Reads {
    let [n, n_deep] = [start, deep].map(|taken| taken.read.tokens as f64);
    let [pairs, pairs_deep] = [start, deep].map(|taken| taken.read.pairs as f64);
    let of_pairs = n * pairs_deep - n_deep * pairs;
    let pair = if of_pairs > 0.0 { (n * deep.seconds - n_deep * start.seconds) / of_pairs } else { 0.0 };
    if pair > 0.0 && start.seconds > pairs * pair {
        return Reads { token: (start.seconds - pairs * pair) / n, pair };
    }
    Reads { token: (start.seconds + deep.seconds) / (n + n_deep).max(1.0), pair: 0.0 }
}

/// Texts of our own, read where a prompt starts and behind the longest question that leaves room for them, in turns, so
/// that both are measured while the machine is equally busy.
fn at_two_depths(llm: &dyn Llm, examples: &[Question]) -> Option<(Taken, Taken)> {
    let mut texts = 0..;
    let mut read = |before: &Chat, n: usize| {
        let chats: Vec<Chat> = texts.by_ref().take(n).map(|number| behind(before, &text(number))).collect();
        taken(n, |at| usage(llm, &chats[at]))
    };
    let nothing = Chat::raw("");
    read(&nothing, 1)?;
    let mut longest: Vec<&Chat> = examples.iter().map(|question| &question.chat).collect();
    longest.sort_by_cached_key(|chat| std::cmp::Reverse(llm.count(chat).unwrap_or(0)));
    // The first time a question itself may be new.
    let before = longest.into_iter().find(|chat| read(chat, 1).is_some())?;
    let (mut n, mut sums, begun) = (1, (Taken::default(), Taken::default()), Instant::now());
    loop {
        let (start, deep) = (read(&nothing, n)?, read(before, n)?);
        let seconds = start.seconds + deep.seconds;
        if seconds < TIME.as_secs_f64() * TOO_SHORT && n < MOST {
            n *= 4;
            continue;
        }
        sums.0.add(start);
        sums.1.add(deep);
        if begun.elapsed().as_secs_f64() + seconds > TIME.as_secs_f64() {
            return Some(sums);
        }
    }
}

/// Questions that weigh texts, behind a word of our own so that nothing of them is known. The first is read alone, to
/// see how many there is time for.
fn of_weighing(llm: &dyn Llm, questions: &[&Question]) -> Option<Taken> {
    let read = |some: &[&Question]| {
        taken(some.len(), |at| {
            let chat = in_front("7919 ", &some[at].chat);
            let weighed = llm.weigh(&chat, some[at].given()).ok()?;
            Some(weighed.iter().map(|weighed| computed(&weighed.usage)).sum())
        })
    };
    let (first, others) = questions.split_first()?;
    let mut sum = read(&[*first])?;
    let room = (TIME.as_secs_f64() / sum.seconds.max(1e-3)) as usize;
    let others = &others[..others.len().min(room)];
    if !others.is_empty() {
        // Side by side, as in the run.
        sum = read(others)?;
    }
    Some(sum)
}

/// Does something that reads so many times at once.
fn taken(n: usize, read: impl Fn(usize) -> Option<Computed> + Sync) -> Option<Taken> {
    let start = Instant::now();
    let read = side_by_side(n, read)?.into_iter().sum();
    Some(Taken { read, seconds: start.elapsed().as_secs_f64() })
}

/// Reads a prompt.
fn usage(llm: &dyn Llm, chat: &Chat) -> Option<Computed> {
    let sampling = Sampling { max_tokens: 1, ..Sampling::default() };
    Some(computed(&llm.ask(chat, &Form::Text, &sampling).ok()?.usage))
}

fn computed(usage: &Usage) -> Computed {
    Computed::last(usage.computed, usage.computed + usage.cached)
}

/// Text that no other begins with.
fn text(number: usize) -> String {
    let words = (0..WORDS).map(|word| (word * 7919 % 1009).to_string());
    std::iter::once(format!("{number} in all:")).chain(words).collect::<Vec<_>>().join(" ")
}

/// A chat with more text behind what is said last.
fn behind(chat: &Chat, text: &str) -> Chat {
    let mut chat = chat.clone();
    match (&mut chat.raw, chat.turns.iter_mut().rfind(|turn| turn.role != Speaker::Assistant)) {
        (Some(raw), _) => *raw = format!("{raw}\n{text}"),
        (None, Some(turn)) => turn.content = format!("{}\n{text}", turn.content),
        (None, None) => chat = chat.user(text),
    }
    chat
}

/// A chat with more text in front of what is said first.
fn in_front(text: &str, chat: &Chat) -> Chat {
    let mut chat = chat.clone();
    match (&mut chat.raw, chat.turns.first_mut()) {
        (Some(raw), _) => raw.insert_str(0, text),
        (None, Some(turn)) => turn.content.insert_str(0, text),
        (None, None) => {}
    }
    chat
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(start: (usize, usize), deep: (usize, usize), seconds: (f64, f64), expected: (f64, f64)) {
        let taken = |(tokens, pairs), seconds| Taken { read: Computed { tokens, pairs }, seconds };
        let Reads { token, pair } = solved(taken(start, seconds.0), taken(deep, seconds.1));
        assert!((token - expected.0).abs() < 1e-9 && (pair - expected.1).abs() < 1e-9, "{token} {pair}");
    }

    #[test]
    fn tokens_and_pairs_have_times_of_their_own() {
        // 100 tokens of 2 s each, pairs of 0.1 s: 500 of them at the start, 10,500 behind 100 others.
        check((100, 500), (100, 10_500), (200.0 + 50.0, 200.0 + 1050.0), (2.0, 0.1));
        check((100, 500), (200, 21_000), (200.0 + 50.0, 400.0 + 2100.0), (2.0, 0.1));
        // Where nothing stands in front, or it takes no time, a token takes what it took.
        check((100, 500), (100, 500), (200.0, 220.0), (2.1, 0.0));
        check((100, 500), (100, 10_500), (200.0, 180.0), (1.9, 0.0));
    }

    #[test]
    fn texts_stand_behind_what_is_said_last_and_in_front_of_what_is_said_first() {
        let chat = Chat::default().system("Be strict.").user("Judge this.");
        let contents = |chat: &Chat| chat.turns.iter().map(|turn| turn.content.clone()).collect::<Vec<_>>();
        assert_eq!(contents(&behind(&chat, "more")), ["Be strict.", "Judge this.\nmore"]);
        assert_eq!(contents(&in_front("0 ", &chat)), ["0 Be strict.", "Judge this."]);
        assert_eq!(behind(&Chat::plain("A"), "more"), Chat::plain("A\nmore"));
        assert_eq!(in_front("0 ", &Chat::raw("A")), Chat::raw("0 A"));
        assert_ne!(text(1)[..6], text(2)[..6]);
    }
}
