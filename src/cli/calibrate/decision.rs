//! `tribunal calibrate --method fsp|gemba-mqm:form=json`: the threshold that decides whether a text has any error, from
//! rated translations. The judge measures log-odds; the data, the loop and the file are here.

use std::{collections::BTreeMap, io::Write, process::ExitCode};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::Args;
use crate::{
    cli::{
        args::InputArgs,
        input,
        panel::{Seat, Seated},
        table::Table,
    },
    files,
    judges::{
        Built, Grouping, Model, Panel, Role, Settings, Unit,
        answers::decision::{self, Threshold, Thresholds},
        in_parallel, registry,
    },
    mqm::Severity,
    segment::Segment,
    tune::rated::{self, Document, Rated},
};

/// What a language pair's rated texts gave.
#[derive(Default)]
struct Tally {
    /// Log-odds of no error, and whether raters found none.
    rated: Vec<(f64, bool)>,
    data: Sha256,
}

/// Segments that are shown together, and which of them are measured.
struct Group {
    segments: Vec<Segment>,
    /// Whether raters found no error; `None` where nobody rated it or it is only shown.
    without_errors: Vec<Option<bool>>,
}

/// Runs it. The exit code is 1 if some texts could not be measured.
///
/// # Errors
/// Data that cannot be read, a method without such a threshold, a language pair in which all texts have errors, or none.
pub fn run(args: &Args, seat: Seat, out: &mut dyn Write) -> Result<ExitCode> {
    let built = judge(args)?;
    let groups = groups(args, &built)?;
    let seated = seat(&args.model, &args.engine, args.sampling.sampling())?;
    let (tallies, n_failed) = measure(&built, &seated.panel, &groups, args.engine.jobs)?;
    let fitted = tallies.into_iter().map(|(pair, tally)| threshold(&built, &seated, pair, tally));
    let thresholds = Thresholds { decision: fitted.collect::<Result<_>>()? };
    let text = toml::to_string(&thresholds).context("the thresholds cannot be written as TOML")?;
    files::write(&args.out, |file| file.write_all(text.as_bytes()))?;
    if args.printed.is_json() {
        writeln!(out, "{:#}", serde_json::to_value(&thresholds)?)?;
    } else if !args.printed.rows(&table(&thresholds), out)? {
        print(&thresholds, out)?;
    }
    Ok(ExitCode::from(u8::from(n_failed > 0)))
}

fn judge(args: &Args) -> Result<Built> {
    let settings = Settings {
        preset: args.preset,
        granularity: args.granularity,
        prompts: args.prompts.clone(),
        shots: args.shots.clone(),
        ..Settings::default()
    };
    let built = registry::build(&args.method, &settings)?;
    if !built.method.options.iter().any(|choice| choice.name == decision::OPTION.name) {
        bail!("`{}` has no threshold to fit; hint: himate, fsp, or gemba-mqm:form=json", built.method.name);
    }
    Ok(built)
}

/// The rated translations as the judge sees them: one by one, or by document.
fn groups(args: &Args, built: &Built) -> Result<Vec<Group>> {
    let input = &args.input;
    let of_document = |document: Document| match built.group() {
        Grouping::Segment => {
            Ok(document.segments.into_iter().map(|rated| group(input, vec![rated])).collect())
        }
        Grouping::Document => Ok(vec![group(input, document.segments)]),
        _ => bail!("a threshold is fitted on segments or documents; hint: `--granularity seg` or `doc`"),
    };
    let groups: Vec<Vec<Group>> = documents(input)?.into_iter().map(of_document).collect::<Result<_>>()?;
    Ok(groups.into_iter().flatten().collect())
}

fn group(input: &InputArgs, rated: Vec<Rated>) -> Group {
    let is_wanted = |segment: &Segment| input.limit.is_none_or(|limit| segment.seg < limit);
    let has_none =
        |rated: &Rated| rated.errors.as_ref().map(|e| e.iter().all(|e| e.severity == Severity::Neutral));
    let without_errors = rated.iter().map(|rated| has_none(rated).filter(|_| is_wanted(&rated.segment)));
    Group {
        without_errors: without_errors.collect(),
        segments: rated.into_iter().map(|rated| rated.segment).collect(),
    }
}

fn documents(input: &InputArgs) -> Result<Vec<Document>> {
    if input.subset.is_some() {
        bail!(
            "`--subset` is for HiMATE's threshold; hint: `--systems` and `--limit` choose rated translations"
        );
    }
    let pair = input.pair.as_ref().map(|pair| (pair.given.clone(), pair.src.clone(), pair.tgt.clone()));
    let mut documents = match (&input.testset, &input.input) {
        (Some(dir), None) => {
            let pair = pair.context("the language pair is missing\nhint: add `-l en-de`")?;
            rated::testset(dir, &[pair])?
        }
        (None, Some(file)) => rated::file(file, pair.as_ref())?,
        _ => bail!(
            "the threshold of this method is fitted on rated translations\nhint: give `--testset DIR -l en-de` with \
             `human-scores/en-de.mqm.RATER.seg.rating`, or `--input` with MQM ratings (TSV or JSONL)"
        ),
    };
    let is_of = |document: &Document| input.systems.is_empty() || input.systems.contains(&document.system);
    if let Some(missing) = input.systems.iter().find(|name| !documents.iter().any(|d| d.system == **name)) {
        bail!("nobody rated translations of `{missing}`");
    }
    documents.retain(is_of);
    if let Some(file) = &input.documents {
        let names = input::document_names(file)?;
        documents.retain(|document| names.contains(&document.doc) || names.contains(&document.name()));
        if documents.is_empty() {
            bail!("`--documents {}` names no document with ratings", file.display());
        }
    }
    Ok(documents)
}

/// Log-odds and ratings by language pair, `jobs` groups at a time; and how many texts failed.
fn measure(
    built: &Built,
    panel: &Panel,
    groups: &[Group],
    jobs: usize,
) -> Result<(BTreeMap<String, Tally>, usize)> {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let mut n_failed = 0;
    for some in groups.chunks(jobs.max(1)) {
        let measured = in_parallel(some, |_, group| {
            let rated = group.without_errors.iter().enumerate().filter(|(_, rated)| rated.is_some());
            let wanted: Vec<usize> = rated.map(|(at, _)| at).collect();
            built.log_odds(&panel.fresh().wanting(&wanted), &group.segments)
        });
        for (group, odds) in some.iter().zip(measured) {
            let Some(odds) = odds else {
                bail!(
                    "as it was asked for, `{}` decides nothing by a threshold; hint: form=json and preset `strict`",
                    built.method.name
                );
            };
            n_failed += tally(&mut tallies, built.unit(), group, odds);
        }
    }
    Ok((tallies, n_failed))
}

/// Enters what was measured of a group; how many of its rated texts failed.
fn tally(
    tallies: &mut BTreeMap<String, Tally>,
    unit: Unit,
    group: &Group,
    odds: Vec<Result<f64, crate::judges::Error>>,
) -> usize {
    let Group { segments, without_errors } = group;
    // A document without errors has them in none of its segments, all of which were rated.
    let whole = || {
        vec![
            without_errors
                .iter()
                .copied()
                .collect::<Option<Vec<_>>>()
                .map(|all| all.iter().all(|none| *none)),
        ]
    };
    let of_units = if unit == Unit::Group { whole() } else { without_errors.clone() };
    let mut n_failed = 0;
    for ((segment, without_errors), odds) in segments.iter().zip(of_units).zip(odds) {
        let Some(without_errors) = without_errors else { continue };
        match odds {
            Ok(odds) => {
                let tally = tallies.entry(decision::pair(segment)).or_default();
                tally.rated.push((odds, without_errors));
                let Segment { system, doc, seg, source, hypothesis, .. } = segment;
                let line = serde_json::json!([system, doc, seg, source, hypothesis, without_errors]);
                tally.data.update(line.to_string());
            }
            Err(error) => {
                n_failed += 1;
                say!("note: `{}` segment {} was left out: {error}", segment.system, segment.seg);
            }
        }
    }
    n_failed
}

fn threshold(built: &Built, seated: &Seated, pair: String, tally: Tally) -> Result<Threshold> {
    let Tally { rated, data } = tally;
    let (texts, without_errors) = (rated.len(), rated.iter().filter(|(_, without)| *without).count());
    let Some((value, accuracy)) = decision::fit(&rated) else {
        bail!(
            "of {texts} rated texts of `{pair}`, {without_errors} have no errors, and no threshold parts them from the \
             others; hint: give more rated translations"
        );
    };
    let Model { name: model, sha256 } = seated.model_of(Role::Annotator);
    let data = data.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let (judge, prompts) = (built.described(), built.materials().prompts);
    Ok(Threshold { pair, judge, prompts, model, sha256, data, texts, without_errors, accuracy, value })
}

fn table(thresholds: &Thresholds) -> Table {
    let mut table = Table::new();
    table.head(["pair", "threshold", "accuracy", "texts", "without errors"]);
    for fitted in &thresholds.decision {
        let Threshold { pair, value, accuracy, texts, without_errors, .. } = fitted;
        let cells = [value.to_string(), accuracy.to_string(), texts.to_string(), without_errors.to_string()];
        table.row(std::iter::once(pair.clone()).chain(cells));
    }
    table
}

fn print(thresholds: &Thresholds, out: &mut dyn Write) -> Result<()> {
    for fitted in &thresholds.decision {
        let Threshold { pair, value, accuracy, texts, without_errors, .. } = fitted;
        writeln!(
            out,
            "{pair}\t{value}\t{accuracy:.3} of texts with and without errors decided right, {without_errors} of {texts} without"
        )?;
    }
    Ok(())
}
