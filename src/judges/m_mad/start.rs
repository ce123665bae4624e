//! Who annotates first in M-MAD: an agent for each dimension with its shots (Figures 11 to 18), one agent for
//! all, or GEMBA-MQM (Table 5). It asks nothing of the later stages.

use super::annotation::{Annotation, DIMENSIONS};
use crate::{
    judges::{
        Error, Panel,
        gemba_mqm::{self, GembaMqm},
        prompt::{File, Prompts},
        setup::{self, Options, Settings},
        shots::{self, Shot},
    },
    segment::Segment,
};

/// The printed shots, by dimension in the order of [`DIMENSIONS`].
const SHOTS_ZH_EN: [File; 4] = [
    File { name: "m_mad/shots.zh-en.accuracy.jsonl", text: include_str!("shots.zh-en.accuracy.jsonl") },
    File { name: "m_mad/shots.zh-en.fluency.jsonl", text: include_str!("shots.zh-en.fluency.jsonl") },
    File { name: "m_mad/shots.zh-en.terminology.jsonl", text: include_str!("shots.zh-en.terminology.jsonl") },
    File { name: "m_mad/shots.zh-en.style.jsonl", text: include_str!("shots.zh-en.style.jsonl") },
];
const SHOTS_EN_DE: [File; 4] = [
    File { name: "m_mad/shots.en-de.accuracy.jsonl", text: include_str!("shots.en-de.accuracy.jsonl") },
    File { name: "m_mad/shots.en-de.fluency.jsonl", text: include_str!("shots.en-de.fluency.jsonl") },
    File { name: "m_mad/shots.en-de.terminology.jsonl", text: include_str!("shots.en-de.terminology.jsonl") },
    File { name: "m_mad/shots.en-de.style.jsonl", text: include_str!("shots.en-de.style.jsonl") },
];

/// Who annotates first.
pub(super) enum Start {
    /// The agents of [`DIMENSIONS`], each with its shots: those for Chinese sources, and those for others.
    Agents {
        zh_en: [Vec<Shot>; 4],
        en_de: [Vec<Shot>; 4],
    },
    /// One agent for all dimensions.
    Coupled {
        shots: Vec<Shot>,
    },
    Gemba(Box<GembaMqm>),
}

impl Start {
    /// Reads the shots, or GEMBA-MQM's settings.
    ///
    /// # Errors
    /// Shots that cannot be read, and what [`GembaMqm::new`] names.
    pub fn new(prompts: &Prompts, settings: &Settings, options: &Options) -> Result<Self, setup::Error> {
        if options.get("start") == "gemba-mqm" {
            return Ok(Self::Gemba(Box::new(gemba(settings)?)));
        }
        let files = shots_files(settings, options)?;
        let load = |file: &File| shots::load(prompts, Some(*file), settings);
        let mut loaded: Vec<Vec<Shot>> = files.iter().map(load).collect::<Result<_, _>>()?;
        if options.get("skip") == "stage1" {
            return Ok(Self::Coupled { shots: loaded.pop().unwrap_or_default() });
        }
        Ok(agents(&loaded))
    }

    /// The shots of one dimension for this segment.
    pub fn shots(&self, segment: &Segment, dimension: usize) -> &[Shot] {
        match self {
            Self::Agents { zh_en, .. } if segment.src_lang.language() == "zh" => &zh_en[dimension],
            Self::Agents { en_de, .. } => &en_de[dimension],
            Self::Coupled { shots } => shots,
            Self::Gemba(_) => &[],
        }
    }
}

/// Table 5: the debate starts from what GEMBA-MQM found.
pub(super) fn from_gemba(
    gemba: &GembaMqm,
    panel: &Panel,
    segment: &Segment,
) -> Result<Vec<Annotation>, Error> {
    let verdict = gemba.judge_segment(panel, segment)?;
    Ok(verdict.errors.iter().map(Annotation::of).collect())
}

/// GEMBA-MQM with the user's prompts where there are some for it; it only annotates, so it has no weights.
fn gemba(settings: &Settings) -> Result<GembaMqm, setup::Error> {
    let prompts = settings.prompts.clone().filter(|dir| dir.join("gemba_mqm").exists());
    let settings = Settings { prompts, weights: None, ..settings.clone() };
    GembaMqm::new(&settings, &Options::parse(&gemba_mqm::METHOD, "")?)
}

/// The shots that Stage 1 needs; a user's file takes the place of each.
pub(super) fn shots_files(settings: &Settings, options: &Options) -> Result<Vec<File>, setup::Error> {
    let is_coupled = options.get("skip") == "stage1";
    let has_own = options.get("start") == "agents" && (!is_coupled || settings.shots.is_some());
    if !options.has_shots(settings)? || !has_own {
        return Ok(Vec::new());
    }
    Ok(match options.get("shots") {
        _ if is_coupled => SHOTS_EN_DE[..1].to_vec(),
        "zh-en" => SHOTS_ZH_EN.to_vec(),
        "en-de" => SHOTS_EN_DE.to_vec(),
        _ => [SHOTS_ZH_EN, SHOTS_EN_DE].concat(),
    })
}

/// The sets of shots: two when both were loaded, else one for all sources, or none.
fn agents(loaded: &[Vec<Shot>]) -> Start {
    let set = |from: usize| std::array::from_fn(|i| loaded.get(from + i).cloned().unwrap_or_default());
    let others = if loaded.len() > DIMENSIONS.len() { DIMENSIONS.len() } else { 0 };
    Start::Agents { zh_en: set(0), en_de: set(others) }
}
