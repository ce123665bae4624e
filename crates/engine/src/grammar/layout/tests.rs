//! Answers in a layout conform by construction: random walks under the mask, with random weights,
//! against a plain reading of the layout.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tribunal_core::random::SplitMix;

use super::super::shortest;
use super::super::tests::{accepts, random_answer, tiny_vocabulary};
use crate::llm::{Layout, ResponseFormat};

fn texts() -> BTreeMap<String, String> {
    let source = "He said \"wäre\" – or so; 大众点评 👩‍👩‍👧 C:\\temp\tx.\r\nSecond line\u{1}\u{7f}";
    let target = "Er sagte: \u{ab}wäre\u{bb} e\u{301}, 3 < 4 <|im_end|>/\nund so";
    [("source", source), ("target", target), ("none", "\"\n")]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into()
}

fn form(layout: Layout) -> ResponseFormat {
    ResponseFormat::Layout { layout, texts: texts() }
}

/// Blocks of errors by severity, as in GEMBA's answers.
fn blocks(names: &[&str], texts: &[&str]) -> Layout {
    let error = Layout::sequence([
        "\n".into(),
        Layout::one_of(["accuracy/mistranslation", "accuracy/omission", "other"]),
        " - ".into(),
        Layout::quoted(texts.iter().copied()),
    ]);
    let block = |(idx, name): (usize, &&str)| {
        let lead = if idx == 0 { format!("{name}:") } else { format!("\n{name}:") };
        let errors = Layout::one_of(["\nno-error".into(), error.clone().repeat(1, Some(3))]);
        Layout::sequence([lead.into(), errors])
    };
    Layout::Sequence(names.iter().enumerate().map(block).collect())
}

fn span(text: &str, without: &str) -> Layout {
    Layout::Span { texts: vec![text.into()], without: without.into() }
}

/// Layouts of judges, and some that can be read in more than one way.
fn layouts() -> Vec<Layout> {
    vec![
        blocks(&["Critical", "Major", "Minor"], &["source", "target"]),
        blocks(&["Major", "Minor"], &["none", "target"]),
        // The end of a span is marked only by the text that follows, which the span itself may contain.
        Layout::sequence([
            span("target", ""),
            "e".into(),
            span("source", ""),
            " ".into(),
            span("target", ""),
        ]),
        Layout::sequence([
            Layout::Sequence(vec![
                Layout::Matching("[0-9]{1,2}".into()),
                ") ".into(),
                span("target", "\n"),
                Layout::one_of([" /", ";", ""]),
            ])
            .repeat(2, None),
            span("none", "\n").repeat(0, Some(2)),
        ]),
        Layout::one_of([
            span("source", "e ").repeat(1, Some(4)),
            Layout::sequence(["He".into(), span("none", "\"\n")]),
            Layout::sequence(["no".into(), Layout::Sequence(Vec::new()), "-error".into()]),
        ]),
    ]
}

/// The positions at which an answer that the layout begins to read at `from` may end, by plain and slow
/// recursion.
fn ends(layout: &Layout, answer: &str, from: usize) -> BTreeSet<usize> {
    let step = |heads: &BTreeSet<usize>, part: &Layout| -> BTreeSet<usize> {
        heads.iter().flat_map(|&head| ends(part, answer, head)).collect()
    };
    let later = |at: &usize| answer.is_char_boundary(*at);
    match layout {
        Layout::Literal(text) => {
            answer[from..].starts_with(text).then(|| from + text.len()).into_iter().collect()
        }
        Layout::Matching(source) => {
            assert_eq!(source, "[0-9]{1,2}", "the only one here");
            let digits = answer[from..].bytes().take(2).take_while(u8::is_ascii_digit).count();
            (1..=digits).map(|n| from + n).collect()
        }
        Layout::Span { texts: names, without } => {
            let is_span = |at: &usize| {
                let span = &answer[from..*at];
                names.iter().any(|name| texts()[name].contains(span))
                    && !span.contains(|c| without.contains(c))
            };
            (from + 1..=answer.len()).filter(later).filter(is_span).collect()
        }
        Layout::Sequence(parts) => {
            parts.iter().fold(BTreeSet::from([from]), |heads, part| step(&heads, part))
        }
        Layout::OneOf(parts) => parts.iter().flat_map(|part| ends(part, answer, from)).collect(),
        Layout::Repeat { part, min, max } => {
            let mut heads = BTreeSet::from([from]);
            let mut all = BTreeSet::new();
            for n in 0..=max.unwrap_or(answer.len()) {
                if n >= *min {
                    all.extend(&heads);
                }
                heads = step(&heads, part);
            }
            all
        }
    }
}

fn conforms(layout: &Layout, answer: &str) -> bool {
    ends(layout, answer, 0).contains(&answer.len())
}

#[test]
fn ten_thousand_answers_of_random_weights_conform() {
    let mut random = SplitMix(1);
    for layout in layouts() {
        let fresh = tiny_vocabulary().grammar(&form(layout.clone())).unwrap().unwrap();
        for _ in 0..2_000 {
            let (n_free, seed) = (random.draw() as usize % 60, random.draw());
            let answer = random_answer(fresh.clone(), &tiny_vocabulary().tokenizer, n_free, seed);
            assert!(conforms(&layout, &answer), "seed {seed}: {answer:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn a_span_may_come_from_any_text(
        target in "[\\PC\n\" ]{0,12}", n_free in 0..30_usize, seed in any::<u64>(),
    ) {
        let layout = Layout::one_of(["-".into(), Layout::quoted(["target"]).repeat(1, Some(3))]);
        let texts = BTreeMap::from([("target".to_owned(), target.clone())]);
        let form = ResponseFormat::Layout { layout, texts };
        let grammar = tiny_vocabulary().grammar(&form).unwrap().unwrap();
        let answer = random_answer(grammar, &tiny_vocabulary().tokenizer, n_free, seed);
        let is_span = |span: &str| target.contains(span) && !span.is_empty();
        let quoted = answer.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        prop_assert!(quoted.map_or(answer == "-", |spans| spans.split("\"\"").all(is_span)), "{answer:?}");
    }
}

#[test]
fn layouts_of_judges_accept_what_they_print_and_nothing_else() {
    let layout = form(blocks(&["Critical", "Major", "Minor"], &["source", "target"]));
    for good in [
        "Critical:\nno-error\nMajor:\nno-error\nMinor:\nno-error",
        "Critical:\nno-error\nMajor:\naccuracy/mistranslation - \"«wäre» e\u{301}\"\nother - \"or so\"\nMinor:\nno-error",
        "Critical:\nother - \"C:\\temp\tx.\"\nMajor:\nno-error\nMinor:\naccuracy/omission - \"e\u{301}, 3\"",
    ] {
        assert!(accepts(&layout, good), "{good}");
    }
    for bad in [
        "",
        "Critical:\nno-error\nMajor:\nno-error\nMinor:\n",
        "Critical:\nno-error\nMajor:\nno-error\nMinor:\nno-error\n",
        "Critical:\nno-error\nno-error\nMajor:\nno-error\nMinor:\nno-error",
        "Critical:\nother - \"\"\nMajor:\nno-error\nMinor:\nno-error",
        "Critical:\nother - \"no-error\"\nMajor:\nno-error\nMinor:\nno-error",
        "Critical:\nother - \"said \"wäre\"\"\nMajor:\nno-error\nMinor:\nno-error",
        "Critical:\nother - \"/\nund\"\nMajor:\nno-error\nMinor:\nno-error",
        "Critical:\nother - \"e\"\nother - \"e\"\nother - \"e\"\nother - \"e\"\nMajor:\nno-error\nMinor:\nno-error",
    ] {
        assert!(!accepts(&layout, bad), "{bad}");
    }
}

#[test]
fn the_shortest_answer_and_what_is_forced() {
    let layout = form(blocks(&["Major", "Minor"], &["target"]));
    assert_eq!(shortest(&layout).unwrap().unwrap(), "Major:\nno-error\nMinor:\nno-error");
    let tokenizer = &tiny_vocabulary().tokenizer;
    let mut grammar = tiny_vocabulary().grammar(&layout).unwrap().unwrap();
    let forced = grammar.fast_forward(99).unwrap();
    assert_eq!(tokenizer.decode(&forced), "Major:\n", "up to the first choice");
    assert_eq!(forced, tokenizer.encode_data("Major:\n").unwrap(), "as the tokenizer spells it");
    for id in tokenizer.encode_data("other - \"sag").unwrap() {
        grammar.advance(id).unwrap();
    }
    let copied = grammar.copied(99);
    assert!(tokenizer.decode(&copied).starts_with("te: «wäre»"), "{}", tokenizer.decode(&copied));
    assert!(!tokenizer.decode(&copied).contains("und"), "no further than the line");
}

#[test]
fn what_an_empty_text_leaves_out() {
    let only = |text| ResponseFormat::Layout {
        layout: blocks(&["Minor"], &["t"]),
        texts: BTreeMap::from([("t".to_owned(), String::from(text))]),
    };
    assert!(accepts(&only("x"), "Minor:\nother - \"x\""));
    assert!(accepts(&only(""), "Minor:\nno-error") && !accepts(&only(""), "Minor:\nother - \"x\""));
    assert!(accepts(&only("\"\""), "Minor:\nno-error") && !accepts(&only("\"\""), "Minor:\nother - \"\"\""));
}

#[test]
fn what_no_answer_can_satisfy_is_refused() {
    let refused = |layout: Layout| tiny_vocabulary().grammar(&form(layout)).err().unwrap().to_string();
    assert!(refused(span("nothing", "")).contains("`nothing`, which is not given"));
    assert!(refused(Layout::quoted(["none"])).contains("a span must be copied from is empty"));
    assert!(refused(Layout::OneOf(Vec::new())).contains("nothing to choose from"));
    assert!(refused(Layout::from("a").repeat(3, Some(2))).contains("at least 3 times"));
    assert!(refused(Layout::one_of(["a", ""]).repeat(0, None)).contains("repeated may be empty"));
    assert!(refused(Layout::from("a").repeat(0, Some(4))).contains("allows an empty answer"));
    assert!(refused(Layout::Matching("(".into())).contains("the form cannot be compiled"));
}

/// A whole document as the text of spans stays within llguidance's limits.
#[test]
fn a_document_of_spans_can_be_quoted_from() {
    let sentence = "The ministers met again in Vienna on Tuesday; no. 12 said \"perhaps\", others nothing.\n";
    let text = (0..200).map(|i| i.to_string()).collect::<Vec<_>>().join(sentence);
    let form = ResponseFormat::Layout {
        layout: blocks(&["Critical", "Major", "Minor"], &["t"]),
        texts: BTreeMap::from([("t".to_owned(), text)]),
    };
    let mut grammar = tiny_vocabulary().grammar(&form).unwrap().unwrap();
    let answer = "Critical:\nno-error\nMajor:\nother - \"ministers met again in Vienna\"\nother - \"e\"\nMinor:\nno-error";
    let ids = tiny_vocabulary().tokenizer.encode_data(answer).unwrap();
    for &id in &ids {
        let mask = grammar.mask().unwrap();
        assert!(mask[id as usize / 32] >> (id % 32) & 1 == 1 || grammar.matcher.compute_ff_tokens()[0] == id);
        grammar.advance(id).unwrap();
    }
    assert!(grammar.may_stop());
}
