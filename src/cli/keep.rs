//! `tribunal score --keep`: the hardest sources of a run that rates them, as text. They are selected in
//! `run`.

use anyhow::{Result, bail};

use crate::{
    files,
    judges::Reads,
    run::{Keep, Outcome, Shard, keep::SOURCES},
};

/// Selection of the sources to keep.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Selecting sources (difficulty)")]
pub struct KeepArgs {
    /// Write the hardest sources to kept.txt: `20%` of them, or those rated `7` and above
    #[arg(long, value_name = "TOP%|LEAST")]
    pub keep: Option<Keep>,
}

impl KeepArgs {
    /// Refuses what cannot be selected, before anything is judged.
    ///
    /// # Errors
    /// A method that does not rate sources, a part of a run.
    pub fn check(&self, reads: Reads, shard: Option<Shard>) -> Result<()> {
        if self.keep.is_none() {
            return Ok(());
        }
        if reads != Reads::SourcesOnly {
            bail!("`--keep` needs a method that rates sources\nhint: add `--method difficulty`");
        }
        if shard.is_some_and(|shard| shard != Shard::WHOLE) {
            bail!(
                "`--keep` needs all sources, not those of one shard\nhint: join the shards with `tribunal merge`, then \
                 give this command without `--shard` and with `--out` the merged folder"
            );
        }
        Ok(())
    }

    /// Writes the sources that are kept as text and as a list; returns a note for the user.
    ///
    /// # Errors
    /// Files that cannot be written.
    pub fn write(&self, outcome: &Outcome) -> Result<Option<String>> {
        let Some(keep) = self.keep else { return Ok(None) };
        let sources = keep.choose(&outcome.records()?);
        let [text, list] = SOURCES.map(|name| outcome.dir.join(name));
        // In a run folder a link is replaced, not followed.
        files::replace(&text, |file| file.write_all(sources.text().as_bytes()))?;
        files::replace(&list, |file| file.write_all(&sources.jsonl()))?;
        Ok(Some(format!("{sources}: {}", text.display())))
    }
}
