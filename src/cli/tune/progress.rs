//! What a training says while it runs: a table on standard error, lines of JSON in a file, and a plot. The file and the
//! plot hold no times, so that the same training gives the same bytes.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::Result;
use serde_json::Value;

use crate::{
    meta::plot::curves,
    tune::{self, train::Event},
};

/// Seconds between two lines of the table.
const EVERY_S: f64 = 20.0;

const FILE: &str = "progress.jsonl";

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
    last: Option<(usize, bool)>,
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
        self.write(event)
    }

    fn write(&mut self, event: &Event) -> Result<(), tune::Error> {
        let line = serde_json::to_value(event).expect("numbers can be written");
        if place(&line).is_some_and(|place| self.last.is_some_and(|last| place <= last)) {
            // A step that was taken again after a pause gives the same line.
            return Ok(());
        }
        let io = |source| tune::Error::Io { path: self.path.clone(), source };
        let mut file = OpenOptions::new().append(true).open(&self.path).map_err(io)?;
        writeln!(file, "{line}").map_err(io)
    }
}

/// Where a line stands: its step, and whether it is about held-out examples, which comes after.
fn place(line: &Value) -> Option<(usize, bool)> {
    let step = line.get("step")?.as_u64()? as usize;
    Some((step, line.get("event")?.as_str()? == "held-out"))
}

/// Draws the losses of a folder's file.
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
    let (steps, held_out) = (of("step"), of("held-out"));
    let names = ("step", "loss (nats a token)");
    let svg = curves("Training", names, &[("each step", &steps), ("held-out examples", &held_out)]);
    tune::state::replace(&folder.join("loss.svg"), svg.as_bytes())?;
    Ok(())
}
