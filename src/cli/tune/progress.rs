//! What a training says while it runs: a table on standard error, lines of JSON in a file, and a plot. The file and the
//! plot hold no times, so that the same training gives the same bytes.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::Result;
use serde_json::Value;

use super::{
    held::Figures,
    judged::{SHOWN, mean},
};
use crate::{
    files,
    meta::plot::curves,
    tune::{self, train::Event},
};

/// Seconds between two lines of the table.
const EVERY_S: f64 = 20.0;

const FILE: &str = "progress.jsonl";

/// Names of events in the file: the first two as [`Event`] writes them.
const STEP: &str = "step";
const HELD_OUT: &str = "held-out";
const JUDGED: &str = "judged";

/// How far the lower layers are.
#[derive(Default)]
pub struct Rows {
    begun: Option<Instant>,
    said: Option<Instant>,
}

impl Rows {
    /// Says so, now and then.
    pub fn tell(&mut self, done: usize, all: usize) {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let is_due = self.said.is_none_or(|said| said.elapsed().as_secs_f64() > EVERY_S);
        if is_due || done == all {
            self.said = Some(Instant::now());
            say!("lower layers: {done} of {all} tokens after {:.0} s", begun.elapsed().as_secs_f64());
        }
    }
}

/// The table, and the file beside it.
pub struct Table {
    path: PathBuf,
    n_steps: usize,
    begun: Instant,
    said: Option<Instant>,
    first_step: Option<usize>,
    rows: usize,
    /// The step of the last line that is there already.
    last: Option<(usize, usize)>,
}

impl Table {
    /// Goes on with the file of a folder.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn open(folder: &Path, n_steps: usize) -> Result<Self> {
        let path = folder.join(FILE);
        let text = fs::read_to_string(&path).unwrap_or_default();
        // A line that was cut off is written again.
        let whole: Vec<&str> = text.split_inclusive('\n').filter(|line| line.ends_with('\n')).collect();
        let last = whole.last().and_then(|line| place(&serde_json::from_str(line).ok()?));
        tune::state::replace(&path, whole.concat().as_bytes())?;
        say!("{:>7}  {:>8}  {:>9}  {:>8}  {:>9}  {:>8}", "step", "loss", "rate", "norm", "tokens/s", "left");
        Ok(Self { path, n_steps, begun: Instant::now(), said: None, first_step: None, rows: 0, last })
    }

    /// Takes an event.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn tell(&mut self, event: &Event) -> Result<(), tune::Error> {
        match event {
            Event::Step { step, loss, rate, norm, rows } => {
                let first = *self.first_step.get_or_insert(*step);
                self.rows += rows;
                let seconds = self.begun.elapsed().as_secs_f64();
                if self.said.is_none_or(|said| said.elapsed().as_secs_f64() > EVERY_S) {
                    self.said = Some(Instant::now());
                    let pace = self.rows as f64 / seconds;
                    let left = seconds / (step - first + 1) as f64 * (self.n_steps - step) as f64 / 60.0;
                    say!("{step:>7}  {loss:>8.4}  {rate:>9.1e}  {norm:>8.3}  {pace:>9.0}  {left:>6.0} m");
                }
            }
            Event::HeldOut { step, loss, is_best } => {
                let mark = if *is_best { "the lowest so far" } else { "" };
                say!("{step:>7}  {loss:>8.4}  held out  {mark}");
            }
        }
        self.write(&serde_json::to_value(event).expect("numbers can be written"))
    }

    /// Takes what came of judging held-out translations after a step.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn judged(&mut self, step: usize, figures: &Figures) -> Result<(), tune::Error> {
        let shown = SHOWN.iter().map(|name| match mean(figures, name) {
            Some(value) => format!("{name} {value:.3}"),
            None => format!("{name} -"),
        });
        say!("{step:>7}  held-out translations: {}", shown.collect::<Vec<_>>().join(", "));
        self.write(&serde_json::json!({ "event": JUDGED, "step": step, "figures": figures }))
    }

    fn write(&mut self, line: &Value) -> Result<(), tune::Error> {
        if place(line).is_some_and(|place| self.last.is_some_and(|last| place <= last)) {
            // A step that was taken again after a pause gives the same line.
            return Ok(());
        }
        let io = |source| tune::Error::Io { path: self.path.clone(), source };
        let mut file = files::append(&self.path).map_err(|error| io(error.source))?;
        writeln!(file, "{line}").map_err(io)
    }
}

/// Where a line stands: its step, and what it is about, in the order in which it is measured.
fn place(line: &Value) -> Option<(usize, usize)> {
    let step = line.get("step")?.as_u64()? as usize;
    let event = line.get("event")?.as_str()?;
    Some((step, [STEP, HELD_OUT, JUDGED].iter().position(|known| *known == event)?))
}

/// Draws the losses of a folder's file, and what came of judging held-out translations.
///
/// # Errors
/// The files cannot be read or written.
pub fn plot(folder: &Path) -> Result<()> {
    let text = fs::read_to_string(folder.join(FILE))?;
    let lines: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let of = |event: &str| -> Vec<(f64, f64)> {
        let lines = lines.iter().filter(|line| line["event"] == event);
        lines.filter_map(|line| Some((line["step"].as_f64()?, line["loss"].as_f64()?))).collect()
    };
    let (steps, held_out) = (of(STEP), of(HELD_OUT));
    let names = ("step", "loss");
    let svg = curves("Training", names, &[("each step", &steps), ("held-out examples", &held_out)]);
    tune::state::replace(&folder.join("loss.svg"), svg.as_bytes())?;
    let judged = |name: &str| -> Vec<(f64, f64)> {
        let lines = lines.iter().filter(|line| line["event"] == JUDGED);
        let value = |line: &Value| mean(&serde_json::from_value(line["figures"].clone()).ok()?, name);
        lines.filter_map(|line| Some((line["step"].as_f64()?, value(line)?))).collect()
    };
    let shown = SHOWN.map(|name| (name, judged(name)));
    if shown.iter().any(|(_, points)| !points.is_empty()) {
        let lines = shown.each_ref().map(|(name, points)| (*name, points.as_slice()));
        let names = ("step", "mean over language pairs");
        let svg = curves("Held-out translations", names, &lines);
        tune::state::replace(&folder.join("held_out.svg"), svg.as_bytes())?;
    }
    Ok(())
}
