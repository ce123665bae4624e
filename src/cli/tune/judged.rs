//! What an adapter is worth while it trains: it judges some held-out translations as `tribunal score` will, on the
//! engine.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use anyhow::Result;

use super::{
    held::{Figures, Held},
    panel,
};
use crate::{
    engine::Engine,
    judges::{Judge, Panel},
    llm::Sampling,
    mqm::weights::{self, Weights},
    segment::Segment,
    tune::{
        draw,
        lora::Adapters,
        rated::{Document, Rated, by_source},
    },
};

/// Translations of held-out sources, and who judges them.
pub struct Jury<'a> {
    found: &'a panel::Found,
    judge: &'a dyn Judge,
    weights: &'static Weights,
    translations: Vec<&'a Rated>,
}

impl<'a> Jury<'a> {
    /// A jury on about `n` translations: of held-out sources in an order drawn by the seed, all translations of each.
    /// `None` when there are to be none, or nothing is rated.
    ///
    /// # Errors
    /// The weights `wmt` are missing, which would be a fault of ours.
    pub fn new(
        (found, judge): (&'a panel::Found, &'a dyn Judge),
        held_out: &'a [Document],
        (n, seed): (usize, u64),
    ) -> Result<Option<Self>> {
        let mut sources = by_source(held_out);
        draw::shuffle(seed, 1, &mut sources);
        let mut translations = Vec::new();
        for source in sources {
            if translations.len() >= n {
                break;
            }
            translations.extend(source);
        }
        let jury = Self { found, judge, weights: weights::find("wmt")?, translations };
        Ok(Some(jury).filter(|jury| !jury.translations.is_empty()))
    }

    /// How well adapters judge, by language pair. Translations without a verdict are counted and left out.
    ///
    /// # Errors
    /// The adapter cannot be written beside the training's state, or the model cannot be run with it.
    pub fn measure(&self, adapters: &Adapters, folder: &Path) -> Result<Figures> {
        let dir = folder.join("trial");
        std::fs::create_dir_all(&dir)?;
        adapters.export(&self.found.name)?.write(&dir)?;
        let mut options = self.found.options.clone();
        options.adapters = vec![dir.clone()];
        let engine = Engine::open(&self.found.weights, &options)?.with_adapter(Some(0));
        std::fs::remove_dir_all(&dir)?;
        let panel = Panel::new(Arc::new(engine), Sampling::default());
        let segments: Vec<Segment> = self.translations.iter().map(|rated| rated.segment.clone()).collect();
        let verdicts = self.judge.judge(&panel, &segments);
        let mut held: BTreeMap<String, (Held, usize)> = BTreeMap::new();
        for (rated, verdict) in self.translations.iter().zip(&verdicts) {
            let pair = format!("{}-{}", rated.segment.src_lang, rated.segment.tgt_lang);
            let (held, missing) = held.entry(pair).or_default();
            match verdict {
                Ok(verdict) => held.add(rated, verdict, self.weights),
                Err(_) => *missing += 1,
            }
        }
        let figures = |(held, missing): (Held, usize)| {
            let mut figures = held.figures();
            figures.insert("without a verdict".into(), missing as f64);
            figures
        };
        Ok(held.into_iter().map(|(pair, held)| (pair, figures(held))).collect())
    }
}

/// The mean of a figure over language pairs; `None` when it is defined in none.
pub fn mean(figures: &Figures, name: &str) -> Option<f64> {
    let values: Vec<f64> = figures.values().filter_map(|pair| pair.get(name).copied()).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The figures that are shown while a training runs.
pub const SHOWN: [&str; 3] = ["acc-t", "pearson", "span f1"];
