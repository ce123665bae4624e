//! `tribunal report`: run folders and human annotations on one HTML page, from the page in `report::page` and
//! the statistics of `meta`.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Result, bail};

use super::{cite, compare, output::spare_runs, raters};
use crate::{
    eval::Pair,
    files,
    judges::registry,
    meta::{judgements::Judgements, testset::TestSet},
    report::{
        as_verdicts, health,
        page::{
            self, Conversations, Data, Judge, Ranking, gold,
            judges::{self, Statistics},
            statistics::MAX_COMPARED,
        },
    },
    run::{self, Record, RunFile, calls, finish, trained_on},
    signature::Signature,
};

/// Lay out verdicts on one self-contained page.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Run folders, `verdicts.jsonl` files, and MQM TSVs of human raters; several are shown side by side
    #[arg(required = true, value_name = "DIR|FILE")]
    pub runs: Vec<PathBuf>,
    /// The page, which loads nothing from anywhere; default: beside the first input, with `.html` after its
    /// name
    #[arg(long, value_name = "FILE.html")]
    pub out: Option<PathBuf>,
    /// The languages of human annotations and of the test set; default: those of the first run
    #[arg(short = 'l', long = "language-pair", visible_alias = "lp", value_name = "SRC-TGT")]
    pub pair: Option<Pair>,
    /// A folder in the layout of mt-metrics-eval whose human scores are shown beside the judges
    #[arg(long, value_name = "DIR")]
    pub testset: Option<PathBuf>,
    /// Which human scores: the NAME of `LP.NAME.seg.score`
    #[arg(long, default_value = "mqm", value_name = "NAME", requires = "testset")]
    pub gold: String,
    /// Bootstrap and randomization resamples
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub resamples: usize,
    /// Random seed
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub seed: u64,
}

/// Calls, or texts, of more bytes than this make a page that some browsers cannot open.
const MOST_BYTES: u64 = 512 << 20;

/// Runs `tribunal report`.
///
/// # Errors
/// Runs that cannot be read or not be shown side by side, a page that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    let is_twice = |(idx, path): &(usize, &PathBuf)| args.runs[..*idx].contains(path);
    if let Some((_, twice)) = args.runs.iter().enumerate().find(is_twice) {
        bail!("`{}` is given twice\nhint: one run alone makes a page too", twice.display());
    }
    let page = args.out.clone().unwrap_or_else(|| beside(&args.runs[0]));
    spare_runs(&page)?;
    let pairs = pairs(args)?;
    let (pair, domains) = (pairs.first().cloned(), domains(args, &pairs)?);
    let how = Statistics { domains: &domains, resamples: args.resamples.max(1), seed: args.seed };
    let mut judges: Vec<Judge> =
        args.runs.iter().map(|path| judge(args, how, path, pair.as_ref())).collect::<Result<_>>()?;
    let folders: Vec<String> = args.runs.iter().map(|path| name(&args.runs, path)).collect();
    judges::distinguish(&mut judges, &folders);
    let mut inputs = inputs(&args.runs, &judges, pair.as_ref())?;
    if let Some(dir) = &args.testset {
        let raters = raters_of(args, how, dir, &pairs, &judges)?;
        inputs.push(Judgements::new(&raters.name, as_verdicts(&raters.records))?);
        judges.push(raters);
        let named = args.runs.iter().zip(&judges).map(|(path, judge)| (judge.name.as_str(), path.clone()));
        for warning in trained_on::warnings(named) {
            say!("warning: {warning}");
        }
    }
    for judge in judges.iter().filter(|judge| judge.n_systems() > MAX_COMPARED) {
        say!(
            "note: `{}` has verdicts on {} systems, which are not tested against each other (more than {MAX_COMPARED})",
            judge.name,
            judge.n_systems()
        );
    }
    let agreements = judges::agreements(&inputs)?;
    let data = Data::new(&judges, &agreements, &domains)?;
    check_size(data.n_text_bytes() as u64)?;
    let mut conversations = Conversations::default();
    if embeds(args)? {
        for (number, dir) in args.runs.iter().enumerate().filter(|(_, path)| path.is_dir()) {
            conversations.add(number, dir, &data)?;
        }
    }
    let html = page::html(&judges::title(&judges), &data, &conversations);
    files::write(&page, |file| file.write_all(html.as_bytes()))?;
    if files::is_stream(&page) {
        return Ok(ExitCode::SUCCESS);
    }
    let (n_sources, n_translations) = (data.n_rows(), data.n_translations());
    writeln!(
        out,
        "{}: {n_translations} translation{} of {n_sources} source{}, {}",
        page.display(),
        if n_translations == 1 { "" } else { "s" },
        if n_sources == 1 { "" } else { "s" },
        files::size(html.len() as u64)
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The default of `--out`: `out/mine.html` for the run in `out/mine`.
fn beside(input: &Path) -> PathBuf {
    let Some(name) = input.file_name() else { return "report.html".into() };
    let mut name = name.to_os_string();
    name.push(".html");
    input.with_file_name(name)
}

/// The verdicts to compare; the annotations of raters have been read.
fn inputs(paths: &[PathBuf], judges: &[Judge], pair: Option<&Pair>) -> Result<Vec<Judgements>> {
    let of = || paths.iter().zip(judges);
    let unread: Vec<PathBuf> = of().filter(|(_, judge)| !judge.human).map(|(path, _)| path.clone()).collect();
    let mut read = compare::Input::read_all(&unread, pair)?.into_iter();
    let input = |(path, judge): (&PathBuf, &Judge)| {
        if judge.human {
            return Ok(Judgements::new(&path.display().to_string(), as_verdicts(&judge.records))?);
        }
        Ok(read.next().expect("as many inputs as paths").judgements)
    };
    of().map(input).collect()
}

/// Refuses texts that would make a page which no browser opens.
fn check_size(bytes: u64) -> Result<()> {
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    bail!(
        "the texts of these verdicts have {}, and browsers open no page with more than {}\nhint: `tribunal show` \
         prints verdicts one by one, `tribunal export` writes them as a table",
        files::size(bytes),
        files::size(MOST_BYTES)
    )
}

/// The selected languages, which the runs must have judged; else those of the runs.
fn pairs(args: &Args) -> Result<Vec<Pair>> {
    let judged = pairs_of(&args.runs)?;
    let Some(chosen) = &args.pair else { return Ok(judged) };
    if judged.is_empty() || judged.iter().any(|pair| (&pair.src, &pair.tgt) == (&chosen.src, &chosen.tgt)) {
        return Ok(vec![chosen.clone()]);
    }
    let known: Vec<&str> = judged.iter().map(|pair| pair.name.as_str()).collect();
    bail!(
        "`-l {}`: there is no verdict on this pair\nhint: the runs judged {}",
        chosen.name,
        known.join(", ")
    )
}

/// The languages of the runs, in the order in which they name them.
fn pairs_of(runs: &[PathBuf]) -> Result<Vec<Pair>> {
    let mut pairs: Vec<Pair> = Vec::new();
    for path in runs.iter().filter(|path| path.is_dir() || !raters::is_annotations(path)) {
        for record in run::verdicts(path)? {
            let record = record?;
            let is_same = |pair: &Pair| (&pair.src, &pair.tgt) == (&record.src_lang, &record.tgt_lang);
            if !pairs.iter().any(is_same) {
                let spelling = record.pair();
                pairs.push(Pair { name: spelling, src: record.src_lang, tgt: record.tgt_lang });
            }
        }
    }
    Ok(pairs)
}

/// The domain of each document in the test set's folder; none without one.
fn domains(args: &Args, pairs: &[Pair]) -> Result<BTreeMap<String, String>> {
    let Some(dir) = &args.testset else { return Ok(BTreeMap::new()) };
    let mut domains = BTreeMap::new();
    for pair in pairs {
        let places = TestSet::of_languages(dir, (&pair.src, &pair.tgt), &pair.name)?.places;
        domains.extend(places.into_iter().map(|place| (place.doc, place.domain)));
    }
    let distinct = domains.values().collect::<BTreeSet<_>>().len();
    Ok(if distinct > 1 { domains } else { BTreeMap::new() })
}

fn judge(args: &Args, how: Statistics<'_>, path: &Path, pair: Option<&Pair>) -> Result<Judge> {
    let records = raters::records(path, pair)?;
    if records.is_empty() {
        bail!("`{}` holds no verdict", path.display());
    }
    let run = path.join("run.json").is_file().then(|| RunFile::read(path)).transpose()?;
    let human = path.is_file() && raters::is_annotations(path);
    let signature = run.as_ref().map(|run| &run.signature);
    let is_weighed = |signature: &Signature| signature.get("weights").is_some();
    let method = signature.and_then(registry::of_signature);
    let noun = signature.map_or("segment", registry::unit_noun);
    let mut judge = Judge::new(signature.map_or_else(|| name(&args.runs, path), called), records, noun, how);
    let systems = run.as_ref().map(|run| run.systems.clone()).unwrap_or_default();
    let ranking = match method {
        Some(method) if !method.ranks_systems() => Ranking::InputOrder,
        _ => Ranking::ByMean,
    };
    if ranking == Ranking::InputOrder {
        judge.slices.iter_mut().for_each(|slice| slice.unrank(&systems));
    }
    Ok(Judge {
        ranking,
        systems,
        cautions: run.as_ref().map_or_else(Vec::new, RunFile::all_cautions),
        human,
        marks: human
            || signature.is_none_or(is_weighed)
            || judge.records.iter().any(|r| !r.errors.is_empty()),
        signature: signature.map(ToString::to_string),
        citation: run.as_ref().map(|run| cite::of(path, run)).transpose()?.map(|citation| citation.paragraph),
        warning: finish::read_summary(path).and_then(|summary| health::warning(&summary.health)),
        about: method
            .zip(signature)
            .map_or_else(Vec::new, |(m, signed)| m.about(registry::scale(&m, signed))),
        ..judge
    })
}

/// A judge by its method and its model.
fn called(signature: &Signature) -> String {
    let of = |key: &str| signature.get(key).unwrap_or("?");
    let adapter = signature.get("adapter").map_or_else(String::new, |adapter| format!("+{adapter}"));
    format!("{}, {}{adapter}", of("method"), of("model"))
}

/// The raters of a test set, on the translations that were judged.
fn raters_of(
    args: &Args,
    how: Statistics<'_>,
    dir: &Path,
    pairs: &[Pair],
    judges: &[Judge],
) -> Result<Judge> {
    if pairs.is_empty() {
        bail!("`--testset` needs a language pair\nhint: add `-l en-de`");
    }
    let judged: Vec<Record> = judges.iter().flat_map(|judge| judge.records.iter().cloned()).collect();
    let (mut records, mut has_ratings) = (Vec::new(), true);
    for pair in pairs {
        let found = gold::records(dir, (&pair.src, &pair.tgt), &pair.name, &args.gold, &judged)?;
        has_ratings &= found.has_ratings;
        records.extend(found.records);
    }
    let folder = dir.canonicalize().unwrap_or_else(|_| dir.into());
    let folder = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let noun = judges.first().map_or("segment", |judge| judge.noun);
    let name = folder.map_or_else(|| args.gold.clone(), |folder| format!("{} of {folder}", args.gold));
    Ok(Judge { human: true, marks: has_ratings, ..Judge::new(name, records, noun, how) })
}

/// The last part of the path, or all of it where another input has the same.
fn name(all: &[PathBuf], path: &Path) -> String {
    let last = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let is_alone = all.iter().filter(|other| last(other) == last(path)).count() == 1;
    last(path).filter(|_| is_alone).unwrap_or_else(|| path.display().to_string())
}

fn embeds(args: &Args) -> Result<bool> {
    let mut bytes = 0;
    for dir in &args.runs {
        bytes += calls::size(dir)?;
    }
    if bytes > MOST_BYTES {
        say!(
            "note: the page goes without its {} of conversations; hint: `tribunal show` has them",
            files::size(bytes)
        );
        return Ok(false);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_without_a_name_lies_beside_the_run() {
        for (input, page) in [
            ("out/mine", "out/mine.html"),
            ("out/v1.2/", "out/v1.2.html"),
            ("..", "report.html"),
            (".", "report.html"),
        ] {
            assert_eq!(beside(Path::new(input)), Path::new(page), "{input}");
        }
    }
}
