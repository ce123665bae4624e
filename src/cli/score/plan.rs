//! `tribunal score --dry-run`: what a run would take, printed. Counting is in `run::plan`; for a model that is not on
//! this machine yet, characters are counted in the place of tokens, by a rule of thumb.

use std::{
    io::{IsTerminal as _, Write},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::{
    card::{self, Card},
    cli::{
        fits::{self, Room},
        output::{Cells, Format, Printed},
        panel::{LoadedModels, ModelLoader},
        prepare::{self, Begun, Prepared, Run},
        score::Args,
        table::Table,
        wrap,
    },
    engine::DeviceError,
    judges::Panel,
    llm::{Chat, Counter, Error as Refusal, Form, Llm, Reply, Sampling, Scored, Stop},
    run::{
        self, Plan, RunConfig, Show,
        plan::{Amount, Counting, plan_within},
        trial::Trial,
    },
    signature::Signature,
};

/// How long prompts are counted.
const COUNTING: Duration = Duration::from_secs(8);

/// How long groups are judged for, as far as rounds of them can be foreseen.
const TRIAL: Duration = Duration::from_secs(10);

/// The most that both take together, once the model is loaded.
const LIMIT: Duration = Duration::from_secs(20);

/// A plan and all that is printed with it.
struct Planned {
    plan: Plan,
    trial: Trial,
    /// Memory and hours.
    estimates: Vec<(String, String)>,
    notes: Vec<String>,
    /// `None` where the model's files, which are part of it, are not here.
    signature: Option<Signature>,
}

/// Says what the run would take, without making it.
///
/// # Errors
/// A model that can neither be run nor pulled, and prompts that cannot be counted.
pub fn run(prepared: &Prepared<'_>, begun: &Begun, load: ModelLoader, out: &mut dyn Write) -> Result<()> {
    let args = prepared.args;
    let planned = match load(&args.model, &args.engine, args.sampling.sampling()) {
        Ok(models) => counted(prepared, begun, &models)?,
        Err(error) => match (error.downcast_ref::<card::Error>(), error.downcast_ref::<DeviceError>()) {
            (Some(card::Error::NotPulled { name, .. }), _) => guessed(
                prepared,
                &card::find(name)?,
                &format!("`{name}` is not on this machine"),
                &format!(
                    "\nhint: `tribunal models pull {name}`, then plan again: tokens are counted, memory is known, and a few groups \
                     say how long the rest takes"
                ),
                "not known without the model",
            )?,
            // A run for a machine with a GPU is planned on one without.
            (_, Some(DeviceError::NotBuilt(_) | DeviceError::NoDevice { .. })) => {
                let card = card::find(&args.model.model).map_err(|_| error)?;
                guessed(prepared, &card, "there is no GPU here to try the run on", "", NOT_HERE)?
            }
            _ => return Err(error),
        },
    };
    planned.print(args.run.format, args.run.cells, out)
}

/// Counted with the models themselves, and tried out on a few groups.
fn counted(prepared: &Prepared<'_>, begun: &Begun, models: &LoadedModels) -> Result<Planned> {
    let start = Instant::now();
    let run = Run::prepare(prepared, models, begun)?;
    let mut plan = planned(prepared, &models.panel)?;
    let args = prepared.args;
    if !args.run.quiet {
        say!("note: judging a few groups to see how long they take");
    }
    let mut trial = tried(&run, begun, &plan, LIMIT.saturating_sub(start.elapsed()))?;
    trial.expected = trial.expected.map(|scaled| plan.expect(scaled));
    let mut estimates = (models.memory)();
    if args.run.device_memory.is_some() {
        estimates.extend(card::find(&args.model.model).ok().and_then(|card| on_a_gpu(&card, args)));
    }
    match trial.seconds_left {
        Some(seconds) if trial.kept < trial.groups => estimates.push(("time".to_owned(), time(seconds))),
        Some(_) => estimates.push(("time".to_owned(), "everything is judged already".to_owned())),
        None if trial.is_cut => estimates.push(("time".to_owned(), format!("not known: {CUT}"))),
        None => {}
    }
    let mut notes = plan.notes();
    notes.extend(prepare::warnings(prepared, models));
    if trial.expected.is_some() {
        notes.push(format!("expected: {} of {} groups, scaled to all", trial.kept, trial.groups));
    }
    if trial.is_cut && trial.judged > 0 {
        notes.push(format!(
            "stopped after {} s, with {} of {} groups judged: the time is extrapolated from these",
            LIMIT.as_secs(),
            trial.judged,
            trial.groups
        ));
    }
    notes.push(format!(
        "what was judged is kept in `{}`, and the run goes on from there",
        run.config.out.display()
    ));
    Ok(Planned { plan, trial, estimates, notes, signature: Some(run.signature) })
}

/// Judges a few groups, for so long at the most.
fn tried(run: &Run<'_>, begun: &Begun, plan: &Plan, time: Duration) -> Result<Trial> {
    let is_counted = plan.counted == plan.groups;
    let distinct = plan.least.distinct_tokens.filter(|_| plan.is_fixed && is_counted);
    // Without a terminal the notes are enough.
    let is_shown = run.config.progress != Show::Auto || std::io::stderr().is_terminal();
    let progress = if is_shown { run.config.progress } else { Show::Off };
    let stop = Stop::default();
    let config = RunConfig { progress, stop: stop.clone(), ..run.config.clone() };
    let trial = limited(time, [&begun.stop, &stop], || run.task().trial(&config, TRIAL.min(time), distinct))?;
    if begun.stop.is_said() {
        return Err(run::Error::Interrupted(begun.writing.hold().clone()).into());
    }
    Ok(trial)
}

/// Why a trial says nothing of the time.
const CUT: &str = "no group was finished within 20 s";

/// Does work until it is done, for so long at the most, or until the outer word is given: then the inner one is, which the
/// work heeds.
fn limited<T>(time: Duration, [outer, inner]: [&Stop; 2], work: impl FnOnce() -> T) -> T {
    let (start, is_over) = (Instant::now(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if start.elapsed() >= time || outer.is_said() {
                    return inner.say();
                }
                std::thread::park_timeout(WATCH);
            }
        });
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        watch.thread().unpark();
        done
    })
}

/// How often the time is looked at.
const WATCH: Duration = Duration::from_millis(100);

/// A time in words, exact enough to be compared with a clock.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 600.0 => format!("about {s:.0} s"),
        s if s < 6.0 * 3600.0 => format!("about {:.0} min", s / 60.0),
        s => format!("about {:.1} hours", s / 3600.0),
    }
}

/// The time of a run for a GPU, where there is none.
const NOT_HERE: &str = "not known for this device; there, `--dry-run` tries a few groups, and `tribunal bench fsp` measures \
                        segments a second";

/// Guessed from characters: nobody can be asked, for this reason; `hint` is a line of its own, or empty; `time` says why
/// there is none.
fn guessed(prepared: &Prepared<'_>, card: &Card, why: &str, hint: &str, time: &str) -> Result<Planned> {
    let plan = planned(prepared, &Panel::new(Arc::new(Characters), prepared.args.sampling.sampling()))?;
    let mut notes = plan.notes();
    notes.push(format!(
        "{why}: tokens are guessed from the characters of the prompts, for most languages to within a third; answers \
         are counted by their budgets alone{hint}"
    ));
    let time = Some(("time".to_owned(), time.to_owned()));
    let estimates = weights(card).into_iter().chain(on_a_gpu(card, prepared.args)).chain(time).collect();
    Ok(Planned { plan, trial: Trial::default(), estimates, notes, signature: None })
}

/// What the model takes of a GPU, with the context that is asked for, and whether the one that is thought of has it; `None`
/// where the card does not know its sizes.
fn on_a_gpu(card: &Card, args: &Args) -> Option<(String, String)> {
    let room = Room::find(args.run.device_memory);
    let need = fits::within(card, args.engine.context.unwrap_or(card.context))?;
    Some(("on a GPU".to_owned(), format!("{}; {}", fits::sum(&need), room.verdict(&need))))
}

/// What the run takes with the models of this panel, without one question asked.
fn planned(prepared: &Prepared<'_>, panel: &Panel) -> Result<Plan> {
    let Prepared { args, judged, built, .. } = prepared;
    let config = &prepare::chosen(args, judged, PathBuf::new());
    let is_shown = !args.run.quiet && !matches!(args.run.progress, Show::Off | Show::Json);
    // It is seen on a terminal alone.
    let bar = if is_shown { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    bar.enable_steady_tick(Duration::from_millis(500));
    let shown = |done: usize, of: usize| bar.set_message(format!("counting prompts: {done} of {of} groups"));
    let counting = Counting { config, time: Some(COUNTING), shown: &shown };
    let plan = plan_within(panel, &built.judge, built.calls(), &judged.input.segments, &counting);
    bar.finish_and_clear();
    Ok(plan?)
}

/// The memory for the weights: their files' size, or two bytes for each of the parameters that the card states.
fn weights(card: &Card) -> Option<(String, String)> {
    let billions = || card.parameters.strip_suffix('B')?.parse::<f64>().ok();
    let bytes = card.size().map(|bytes| bytes as f64).or_else(|| Some(billions()? * 2e9))?;
    Some(("weights, as the model card says".into(), format!("{:.2} GiB", bytes / f64::from(1 << 30))))
}

impl Planned {
    fn print(&self, format: Format, cells: Cells, out: &mut dyn Write) -> Result<()> {
        let mut amounts = self.plan.amounts(self.trial.expected).into_iter();
        let mut table = Table::new();
        amounts.next().into_iter().for_each(|head| table.head(head));
        amounts.for_each(|row| table.row(row));
        if format == Format::Json {
            writeln!(out, "{:#}", self.json())?;
            return Ok(());
        }
        if Printed::new(format, cells).rows(&table, out)? {
            return Ok(());
        }
        let width = wrap::stdout_columns();
        let own = self.plan.rows().into_iter().map(|(name, value)| (name.to_owned(), value));
        let rows: Vec<_> = own.chain(self.estimates.iter().cloned()).collect();
        write!(out, "{}", wrap::fields(&rows, width))?;
        writeln!(out, "\n{}", columns(self.plan.amounts(self.trial.expected)).to_string().trim_end())?;
        for note in &self.notes {
            writeln!(out, "{}", width.map_or_else(|| note.clone(), |width| wrap::message(note, width)))?;
        }
        if let Some(signature) = &self.signature {
            writeln!(out, "\n{signature}")?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let Plan { segments, groups, counted, units, least, most, longest_prompt, longest_call, .. } =
            &self.plan;
        let Trial { judged, kept, expected, seconds_left, .. } = &self.trial;
        let amount = |amount: &Amount| {
            let Amount { calls, prompt_tokens, distinct_tokens, answer_tokens } = amount;
            json!({
                "calls": calls, "prompt_tokens": prompt_tokens, "distinct_prompt_tokens": distinct_tokens,
                "answer_tokens": answer_tokens,
            })
        };
        let estimates: serde_json::Map<String, Value> =
            self.estimates.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({
            "segments": segments, "groups": groups, "groups_counted": counted, "verdicts": units, "longest_prompt": longest_prompt,
            "longest_call": longest_call, "least": amount(least), "expected": expected.as_ref().map(amount),
            "most": amount(most), "groups_judged": judged, "groups_kept": kept, "seconds_left": seconds_left, "estimates": estimates, "notes": self.notes,
            "signature": self.signature.as_ref().map(ToString::to_string),
        })
    }
}

/// Rows with names on the left and values on the right.
fn columns(rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    rows.into_iter().for_each(|row| table.row(row));
    table
}

/// Counts tokens by what a character of each script takes, and answers nothing.
struct Characters;

impl Characters {
    /// Tokens that the chat template puts around a turn.
    const OF_A_TURN: f64 = 5.0;

    /// What a character takes with the tokenizers of Qwen 2.5 and Gemma 3, on WMT 2023's texts and our prompts. Those
    /// of Qwen are right to a quarter for English, German, Chinese, Japanese, Russian, Arabic and Thai, and a third
    /// too low for Hindi.
    fn tokens(text: &str) -> f64 {
        let of = |c: char| match u32::from(c) {
            0..0x80 => 0.24,
            // Letters with accents, and punctuation.
            0x80..0x370 | 0x1e00..0x2070 => 0.7,
            // Greek, Cyrillic, Armenian, Hebrew, Arabic.
            0x370..0x700 => 0.38,
            _ => 0.72,
        };
        text.chars().map(of).sum()
    }

    fn refusal() -> Refusal {
        Refusal::Engine("the model is not on this machine".into())
    }
}

impl Llm for Characters {
    fn ask(&self, _: &Chat, _: &Form, _: &Sampling) -> Result<Reply, Refusal> {
        Err(Self::refusal())
    }

    fn score_continuations(&self, _: &Chat, _: &[String]) -> Result<Vec<Scored>, Refusal> {
        Err(Self::refusal())
    }

    fn counter(&self) -> Option<&dyn Counter> {
        Some(self)
    }
}

impl Counter for Characters {
    fn count(&self, chat: &Chat) -> Result<usize, Refusal> {
        let of_turns =
            chat.turns().iter().map(|turn| Self::tokens(&turn.content) + Self::OF_A_TURN).sum::<f64>();
        let tokens = chat.untemplated().map_or(of_turns, Self::tokens) + Self::tokens(&chat.prefill);
        Ok(tokens.ceil() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_scripts() {
        // Beside each: what Qwen 2.5's tokenizer makes of it.
        for (text, tokens) in [
            ("The town council voted on Tuesday to close the old bridge for repairs until spring.", 16),
            ("议会星期二投票决定关闭旧桥进行维修。", 12),
            ("Городской совет проголосовал во вторник за закрытие старого моста на ремонт до весны.", 27),
        ] {
            let guessed = Characters::tokens(text) / f64::from(tokens);
            assert!((0.67..1.5).contains(&guessed), "{text}: {guessed}");
        }
    }

    #[test]
    fn weights_by_the_card() {
        let of = |name: &str| weights(&card::find(name).unwrap()).map(|(_, size)| size);
        assert_eq!(of("qwen2.5-7b-instruct").as_deref(), Some("14.17 GiB"));
        assert_eq!(of("smollm2-135m-instruct").as_deref(), Some("0.09 GiB"));
    }
}
