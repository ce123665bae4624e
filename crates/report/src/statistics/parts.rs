//! The optional parts of a meta-evaluation: the name, computation and tables of each. A new part is one more
//! entry of [`PARTS`].

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Error, annotated, answers, significance_table, tables};
use crate::{
    meta::{
        self,
        eval_set::EvalSet,
        evaluate::SetResult,
        parts::{self, Of, Request, human},
        significance::Resampling,
        spans::{counts::Definition, report::SpanReport},
    },
    table::Table,
};

/// An optional part.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub name: &'static str,
    /// A sentence for help texts.
    pub about: &'static str,
    compute: fn(&Context<'_>) -> Result<Findings, Error>,
}

/// Inputs of all parts.
pub struct Context<'a> {
    pub request: Request<'a>,
    pub sets: &'a [EvalSet],
    pub result: &'a SetResult,
    /// The tests of differences between metrics that were made.
    pub significance: Option<Resampling>,
    /// The definitions of span F1 in tables; JSON has all.
    pub span_f1: &'a [Definition],
}

/// Results of a part: fields of a JSON object, and tables with their titles.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    pub json: Map<String, Value>,
    pub tables: Vec<(String, Table)>,
}

/// The parts in the order in which they are printed. `slices` are selected by their criterion alone.
pub const PARTS: [Part; 12] = [
    Part {
        name: "significance",
        about: "Tests of all differences between metrics by permutation, with ranks and clusters",
        compute: |context| {
            let tested =
                context.significance.and_then(|how| significance_table(context.result, how.resamples));
            let title = "differences between metrics: one-sided p of the permutation tests";
            let tables = tested.map(|table| (title.into(), table)).into_iter().collect();
            Ok(Findings { tables, ..Findings::default() })
        },
    },
    Part {
        name: "slices",
        about: "Statistics by slice",
        compute: |context| {
            Ok(found("slices", &parts::slices(&context.request, context.sets)?, tables::slices))
        },
    },
    Part {
        name: "williams",
        about: "Williams' test for every two metrics' Pearson correlations, of systems and of segments",
        compute: |context| {
            let title = "Williams' test: is the better metric's Pearson really greater? (one-sided p)";
            Ok(tabled("williams", title, &context.of_each(parts::williams)?, tables::williams))
        },
    },
    Part {
        name: "calibration",
        about: "Held-out tie calibration, chance level and bootstrap interval of acc-eq",
        compute: |context| {
            let rows = context.of_each(|set| parts::calibration(&context.request, set))?;
            let title = "acc-eq by item: what the fitted threshold is worth";
            Ok(tabled("calibration", title, &rows, tables::calibration))
        },
    },
    Part {
        name: "distributions",
        about: "Distributions of scores, and of errors by severity and type: the raters', and those of runs",
        compute: |context| {
            let title = "scores of rated translations (bins for penalty scores: 0, between, -5 and less)";
            let scores = context.of_each(parts::distributions)?;
            let scores = tabled("distributions", title, &scores, tables::distributions);
            let title = "errors on rated segments: shares by severity and type";
            let errors = context.of_each(|set| parts::rated_errors(&context.request, set))?;
            Ok(scores.and(tabled("errors", title, &errors, tables::errors)))
        },
    },
    Part {
        name: "annotators",
        about: "Agreement of the human raters with each other, and of metrics with each of them",
        compute: annotators,
    },
    Part {
        name: "error-free",
        about: "Detection of error-free segments: MCC at a threshold calibrated on other documents",
        compute: |context| {
            let rows = context.of_each(|set| human::error_free(&context.request, set))?;
            Ok(found("error_free", &rows, |rows| vec![annotated::error_free(rows)]))
        },
    },
    Part {
        name: "testset",
        about: "What the test set holds and how much of it is rated: segments, documents, systems, translations, by domain",
        compute: |context| {
            let title = "what the test set holds, and what is rated of it";
            Ok(tabled("testset", title, &context.of_each(parts::contents)?, tables::contents))
        },
    },
    Part {
        name: "answers",
        about: "How long the answers of run folders are, and how many errors are named per second",
        compute: |context| {
            let title =
                "answers of runs: tokens of all answers about a unit, error spans, and wall-clock time";
            Ok(tabled("answers", title, &answers::Answers::from_runs(context.request.runs)?, answers::table))
        },
    },
    Part {
        name: "latent-weight",
        about: "What a major error should cost, from the errors of the runs among `--scores`, such as one of eaprompt: the \
                weight that makes the first --stat best (seg:acc-eq@item by default)",
        compute: |context| {
            let rows = context.of_each(|set| parts::latent_weights(&context.request, set))?;
            Ok(tabled(
                "latent",
                "what a major error should cost (a minor one costs 1)",
                &rows,
                tables::latent,
            ))
        },
    },
    Part {
        name: "temperature",
        about: "ReMedy's calibration of the runs of `remedy` or `reward` among `--scores`: the temperature of a run's outputs, \
                and means of systems at it",
        compute: |context| {
            let rows = context.of_each(|set| parts::temperatures(&context.request, set))?;
            let title =
                "calibrated outputs of score heads: means of the logistic function at the temperature";
            Ok(tabled("temperature", title, &rows, tables::temperatures))
        },
    },
    Part {
        name: "spans",
        about: "The error spans of the runs among `--scores` beside the raters', with `--by` also on each slice",
        compute: spans,
    },
];

fn spans(context: &Context<'_>) -> Result<Findings, Error> {
    let shown = context.span_f1;
    let parts::Spans { reports, slices, means } = parts::spans(&context.request, context.sets)?;
    let reports = found("spans", &reports, |rows| {
        let title = |of: &Of<SpanReport>| format!("error spans of {} on {}", of.name, of.lp);
        rows.iter().map(|of| (title(of), tables::spans(of, shown))).collect()
    });
    let title = "error spans by slice";
    let slices = tabled("span_slices", title, &slices, |rows| tables::span_slices(rows, shown));
    let title = "error spans: means over language pairs (FSP, Figures 4 and 8)";
    let means = tabled("span_means", title, &means, |rows| tables::span_means(rows, shown));
    Ok(reports.and(slices).and(means))
}

/// Pairs of raters, listed even where no two rated the same segment; then several annotators with scores.
fn annotators(context: &Context<'_>) -> Result<Findings, Error> {
    let pairs = context.of_each(human::pairs)?;
    let (title, table) = match pairs.as_slice() {
        [] => ("agreement of the human raters: no two of them rated the same segment", Table::new()),
        pairs => ("agreement of the human raters", tables::raters(pairs)),
    };
    let agreement = Findings {
        json: Map::from_iter([("annotators".into(), json!(pairs))]),
        tables: vec![(title.into(), table)],
    };
    let several = context.of_each(|set| human::several(&context.request, set))?;
    let several =
        found("several_annotators", &several, |rows| rows.iter().flat_map(annotated::annotators).collect());
    Ok(agreement.and(several))
}

/// Findings as JSON and as tables; nothing where there are none.
fn found<T: Serialize>(key: &str, rows: &[T], tables: impl FnOnce(&[T]) -> Vec<(String, Table)>) -> Findings {
    if rows.is_empty() {
        return Findings::default();
    }
    Findings { json: Map::from_iter([(key.into(), json!(rows))]), tables: tables(rows) }
}

/// Findings with a single table.
fn tabled<T: Serialize>(key: &str, title: &str, rows: &[T], table: impl FnOnce(&[T]) -> Table) -> Findings {
    found(key, rows, |rows| vec![(title.into(), table(rows))])
}

impl Findings {
    fn and(mut self, more: Self) -> Self {
        self.json.extend(more.json);
        self.tables.extend(more.tables);
        self
    }
}

impl Context<'_> {
    /// The findings on each language pair.
    fn of_each<T, Found: IntoIterator<Item = T>>(
        &self,
        find: impl Fn(&EvalSet) -> Result<Found, meta::Error>,
    ) -> Result<Vec<T>, Error> {
        let mut all = Vec::new();
        for set in self.sets {
            all.extend(find(set)?);
        }
        Ok(all)
    }

    /// Computes those of the parts that `is_selected` selects by name.
    ///
    /// # Errors
    /// Files that cannot be read, or scores that do not fit.
    pub fn compute(&self, is_selected: impl Fn(&str) -> bool) -> Result<Findings, Error> {
        let mut selected = PARTS.iter().filter(|part| is_selected(part.name));
        selected.try_fold(Findings::default(), |all, part| Ok(all.and((part.compute)(self)?)))
    }
}
