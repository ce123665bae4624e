//! A self-contained HTML page with the verdicts, rendered by a script in the browser. Its files are in
//! `page/`; its data is assembled here, from verdicts and the statistics of `meta`.

use std::{collections::BTreeMap, fmt::Write};

use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};

mod calls;
mod data;
pub mod gold;
pub mod judges;
mod pack;
pub mod statistics;

pub use calls::Conversations;
pub use data::Data;

use crate::{
    plain::plain,
    run::{self, Record},
};

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &[&str] = &[
    include_str!("page/data.js"),
    include_str!("page/text.js"),
    include_str!("page/overview.js"),
    include_str!("page/segments.js"),
    include_str!("page/detail.js"),
    include_str!("page/main.js"),
];

/// One judge, or the human raters.
#[derive(Clone, Debug)]
pub struct Judge {
    pub name: String,
    /// The noun for what a verdict is about.
    pub noun: &'static str,
    pub human: bool,
    pub signature: Option<String>,
    /// A paragraph about its run for a paper.
    pub citation: Option<String>,
    /// Warning about the scores.
    pub warning: Option<String>,
    /// Checks of the systems' translations before any model call: a sentence for each system with units that
    /// are not translations, as in `Record::warning` of each unit.
    pub warnings: Vec<String>,
    /// Description of its method: its scale, the meaning of its marks.
    pub about: Vec<String>,
    /// Cautions about the scores (`run::cautions`).
    pub cautions: Vec<String>,
    pub ranking: Ranking,
    /// The systems in the order of its input; empty where that is not known.
    pub systems: Vec<String>,
    /// True if it marks errors: some judges have scores alone, and of some human scores the ratings are lost.
    pub marks: bool,
    pub records: Vec<Record>,
    /// Contents of the overview: by language pair, and by domain where the domains are known.
    pub slices: Vec<Slice>,
}

/// The order in which the overview has a judge's systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ranking {
    /// From the best mean to the worst, with clusters and intervals.
    ByMean,
    /// Order of the input: the means do not rank systems.
    InputOrder,
}

/// The systems on a part of the translations that is never pooled with another one.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Slice {
    /// Source and target language.
    pub pair: (String, String),
    /// `None` for the whole pair.
    pub domain: Option<String>,
    /// Systems from the best to the worst, or in the order of the input.
    pub standings: Vec<Standing>,
    pub contests: Vec<PairTest>,
    /// Units that every system has a score on, which standings and contests are over; `None` where each
    /// system has its own.
    pub common: Option<usize>,
}

impl Slice {
    /// Takes ranks and contests away and puts the systems into an order, those that it does not name last and
    /// by name: for judges whose means do not rank systems.
    pub fn unrank(&mut self, systems: &[String]) {
        self.contests.clear();
        self.standings.iter_mut().for_each(|standing| standing.rank = None);
        let places: BTreeMap<&str, usize> = systems.iter().map(String::as_str).zip(0..).collect();
        let place = |name: &str| places.get(name).copied().unwrap_or(usize::MAX);
        self.standings.sort_by_cached_key(|standing| (place(&standing.system), standing.system.clone()));
    }
}

/// The place of a system.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Standing {
    pub system: String,
    /// Mean over the common units; higher is better; `None` without any.
    pub score: Option<f64>,
    /// Ends of the 95% interval.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Cluster of systems that are not significantly different, from 1.
    pub rank: Option<usize>,
    pub units: usize,
    /// Units without a verdict.
    pub missing: usize,
    /// Number of units without a verdict because the translation is empty.
    pub empty: usize,
    /// Errors per unit with a verdict, worst severity first.
    pub severities: [f64; 4],
}

/// Two systems on the units of both.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct PairTest {
    pub a: String,
    pub b: String,
    /// Units on which the first has the higher score, the same, the lower.
    pub wins: usize,
    pub ties: usize,
    pub losses: usize,
    /// Mean score of the first less that of the second.
    pub difference: f64,
    /// Two-sided.
    pub p: f64,
}

/// Two judges on the same translations.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Agreement {
    /// Their positions in the list of judges.
    pub first: usize,
    pub second: usize,
    /// The language pair of the translations, such as `en-de`; agreement is never pooled over pairs.
    pub pair: String,
    pub units: usize,
    pub kendall: Option<f64>,
    /// Share of pairs of systems that both put in the same order.
    pub same_order: Option<f64>,
    /// F1 of the characters that both mark.
    pub span_f1: Option<f64>,
}

/// Error of making a page.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "`{first}` and `{second}` judged different translations of `{system}` for the same source ({place})\nhint: judges \
         are shown side by side on the same input; make a report for each"
    )]
    OtherText { first: String, second: String, system: String, place: String },
    #[error(transparent)]
    Calls(#[from] run::Error),
}

/// The whole page.
pub fn html(title: &str, data: &Data<'_>, conversations: &Conversations) -> String {
    let script = SCRIPT.concat();
    // The script may run, nothing else may: whatever a text tries to be, the browser blocks it.
    let hash = format!("sha256-{}", STANDARD.encode(Sha256::digest(format!("\n{script}\n"))));
    let mut embedded = element("data", &data.packed(conversations.block(), &conversations.judges()));
    for (block, packed) in conversations.packed() {
        embedded += &element(&format!("calls-{block}"), &packed);
    }
    let parts = [
        ("@TITLE@", shown(title)),
        ("@UNIT@", data.noun().to_owned()),
        ("@UNITS@", units(data.noun())),
        ("@VERSION@", env!("CARGO_PKG_VERSION").to_owned()),
        ("@SCRIPT_HASH@", hash),
        ("@STYLE@", STYLE.to_owned()),
        ("@DATA@", embedded),
        ("@SCRIPT@", script),
    ];
    filled(PAGE, &parts)
}

/// Data in an element that browsers do not run.
fn element(id: &str, packed: &str) -> String {
    format!("<script type=\"application/x-tribunal\" id=\"{id}\">{packed}</script>\n")
}

/// A template with its marks filled from left to right, so that nothing that is filled in is looked at again.
fn filled(template: &str, parts: &[(&str, String)]) -> String {
    let (mut out, mut tail) = (String::new(), template);
    loop {
        let next = parts.iter().filter_map(|(mark, value)| Some((tail.find(mark)?, mark, value))).min();
        let Some((at, mark, value)) = next else { break };
        let _ = write!(out, "{}{value}", &tail[..at]);
        tail = &tail[at + mark.len()..];
    }
    out + tail
}

/// The title of a list: `Segments`.
fn units(noun: &str) -> String {
    format!("{}{}s", noun[..1].to_uppercase(), &noun[1..])
}

/// A name as text of the page, with control characters and changes of direction spelled out.
fn shown(name: &str) -> String {
    escaped(&plain(name))
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judge_whose_means_rank_no_systems_has_no_ranks() {
        let standing = |system: &str, score| Standing {
            system: system.into(),
            score: Some(score),
            low: None,
            high: None,
            rank: Some(1),
            units: 2,
            missing: 0,
            empty: 0,
            severities: [0.0; 4],
        };
        let pair = ("en".to_owned(), "de".to_owned());
        let standings = ["a", "b", "c", "d"].map(|system| standing(system, -1.0)).into();
        let mut slice = Slice { pair, domain: None, standings, contests: Vec::new(), common: Some(2) };
        slice.unrank(&["c".to_owned(), "a".to_owned()]);
        assert!(slice.standings.iter().all(|standing| (standing.rank, standing.score) == (None, Some(-1.0))));
        let order: Vec<&str> = slice.standings.iter().map(|standing| standing.system.as_str()).collect();
        assert_eq!(order, ["c", "a", "b", "d"], "the order of the input, then by name");
    }

    #[test]
    fn what_is_filled_in_is_not_looked_at_again() {
        let parts = [("@A@", "@B@".to_owned()), ("@B@", "x".to_owned())];
        assert_eq!(filled("1 @A@ 2 @B@ 3 @A@", &parts), "1 @B@ 2 x 3 @B@");
        assert_eq!(shown("a\u{1b}[2J\u{202e}<"), "a\\u{1b}[2J\\u{202e}&lt;");
        assert_eq!(escaped("<b a='\"'>&"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;");
    }
}
