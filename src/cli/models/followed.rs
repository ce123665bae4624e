//! Progress of a pull on standard error: a bar for each file on a terminal, elsewhere lines with the bytes
//! that have arrived.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    console::wrap,
    files,
    hub::{Error, origin::Item, pull::Watch},
};

/// A line is printed for each further part of so many of a file, where no bar is drawn.
const PARTS: u64 = 10;

/// The longest that nothing is printed while bytes arrive.
const SILENCE: Duration = Duration::from_secs(30);

/// A pull that is followed.
pub struct Followed {
    redraws: bool,
    bar: Option<ProgressBar>,
    file: Arriving,
}

/// A file that arrives without a bar.
struct Arriving {
    size: Option<u64>,
    n_present: u64,
    /// Parts that a line has been printed for.
    parts: u64,
    last: Instant,
}

impl Arriving {
    fn new(size: Option<u64>, n_present: u64) -> Self {
        let parts = size.map_or(0, |size| n_present * PARTS / size.max(1));
        Self { size, n_present, parts, last: Instant::now() }
    }

    /// Counts bytes and returns the progress text that is due, if any. The end of a file is reported
    /// elsewhere.
    fn advance(&mut self, n_bytes: u64) -> Option<String> {
        self.n_present += n_bytes;
        let parts = self.size.map_or(0, |size| self.n_present * PARTS / size.max(1));
        let is_due = parts > self.parts || self.last.elapsed() >= SILENCE;
        if !is_due || self.size == Some(self.n_present) {
            return None;
        }
        (self.parts, self.last) = (parts, Instant::now());
        let present = files::size(self.n_present);
        Some(self.size.map_or_else(
            || format!("  {present}"),
            |size| format!("  {present} of {} ({}%)", files::size(size), self.n_present * 100 / size.max(1)),
        ))
    }
}

impl Followed {
    /// With a bar where standard error is a terminal that can redraw one.
    pub fn on_stderr() -> Self {
        Self { redraws: wrap::stderr_redraws(), bar: None, file: Arriving::new(None, 0) }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) if !bar.is_finished() => bar.suspend(|| say!("{line}")),
            _ => say!("{line}"),
        }
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Watch for Followed {
    fn trying(&mut self, origin: &str) {
        self.say(&format!("trying {origin}"));
    }

    fn gave_up(&mut self, _origin: &str, error: &Error) {
        self.clear();
        self.say(&format!("that did not work: {error}"));
    }

    fn began(&mut self, item: &Item, n_present: u64) {
        let size = item.size.map_or("unknown size".into(), files::size);
        let present =
            if n_present > 0 { format!(", {} already here", files::size(n_present)) } else { String::new() };
        self.say(&format!("fetching {} ({size}{present})", item.path));
        self.file = Arriving::new(item.size, n_present);
        if !self.redraws {
            return;
        }
        let style = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
        let bar = ProgressBar::new(item.size.unwrap_or(0));
        bar.set_style(style.expect("the template is constant and tested by use"));
        bar.set_position(n_present);
        bar.enable_steady_tick(Duration::from_millis(500));
        self.bar = Some(bar);
    }

    fn advanced(&mut self, n_bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(n_bytes);
        } else if let Some(line) = self.file.advance(n_bytes) {
            self.say(&line);
        }
    }

    fn finished(&mut self, item: &Item) {
        self.clear();
        self.say(&format!("{} is complete", item.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(size: Option<u64>, n_present: u64, pieces: &[u64]) -> Vec<String> {
        let mut file = Arriving::new(size, n_present);
        pieces.iter().filter_map(|piece| file.advance(*piece)).collect()
    }

    #[test]
    fn without_a_terminal_each_tenth_of_a_file_is_a_line() {
        const MIB: u64 = 1 << 20;
        let all = lines(Some(20 * MIB), 0, &[MIB; 20]);
        assert_eq!(all.len(), 9, "none at the very end: {all:?}");
        assert_eq!(all[0], "  2.00 MiB of 20.00 MiB (10%)");
        // Parts of an archive arrive at once.
        let jumps = lines(Some(20 * MIB), 0, &[5 * MIB; 4]);
        assert_eq!(jumps.len(), 3, "{jumps:?}");
        assert!(jumps[1].ends_with("(50%)"));
        // The kept part of an earlier pull is not reported again.
        assert_eq!(lines(Some(20 * MIB), 10 * MIB, &[MIB]), Vec::<String>::new());
        assert_eq!(lines(None, 0, &[MIB; 9]), Vec::<String>::new());
        assert_eq!(lines(Some(0), 0, &[0]), Vec::<String>::new());
    }
}
