//! Stage 1 of M-MAD: annotations by an agent for each dimension with its shots (Figures 11 to 18), by one
//! agent for all, or by GEMBA-MQM (Table 5). The later stages are in the parent.

use super::{
    First, Options, Shots, Skipped,
    annotation::{Annotation, DIMENSIONS},
    demos,
};
use crate::{
    Panel, Result,
    declaration::SingleQuestion,
    gemba_mqm,
    literals::SourceFile,
    pair::Texts,
    prompt::{File, Prompts, file},
    segment::Segment,
    setup::{self, Preset, Settings},
    shots::{self, Shot},
};

/// The shots by dimension, in the order of [`DIMENSIONS`].
const SHOTS_ZH_EN: [File; 4] = [
    file!("m_mad/shots.zh-en.accuracy.jsonl"),
    file!("m_mad/shots.zh-en.fluency.jsonl"),
    file!("m_mad/shots.zh-en.terminology.jsonl"),
    file!("m_mad/shots.zh-en.style.jsonl"),
];
const SHOTS_EN_DE: [File; 4] = [
    file!("m_mad/shots.en-de.accuracy.jsonl"),
    file!("m_mad/shots.en-de.fluency.jsonl"),
    file!("m_mad/shots.en-de.terminology.jsonl"),
    file!("m_mad/shots.en-de.style.jsonl"),
];

/// Figures 14 and 17 as printed: their annotations stand in the wrong shots.
const PRINTED_ZH_EN_STYLE: File = file!("m_mad/printed.zh-en.style.jsonl");
const PRINTED_EN_DE_TERMINOLOGY: File = file!("m_mad/printed.en-de.terminology.jsonl");

/// The annotators of Stage 1.
pub(super) enum Start {
    /// The agents of [`DIMENSIONS`], each with its shots.
    Agents(ShotsByAgent),
    /// One agent for all dimensions, with the shots of all.
    Coupled(ShotsByAgent),
    Gemba(Box<SingleQuestion>),
}

/// A list of shots for each agent.
pub(super) struct ShotsByAgent {
    /// For sources in Chinese.
    zh_en: Vec<Vec<Shot>>,
    /// For all other sources.
    default: Vec<Vec<Shot>>,
}

impl Start {
    /// Reads the shots, or GEMBA-MQM's settings.
    ///
    /// # Errors
    /// Shots that cannot be read, and the errors of [`gemba_mqm::question`].
    pub fn new(prompts: &Prompts, settings: &Settings, options: &Options) -> setup::Result<Self> {
        if *options.start == First::Gemba {
            return Ok(Self::Gemba(Box::new(gemba(settings)?)));
        }
        let files = shots_files(settings, options)?;
        let load = |(idx, file)| load(prompts, settings, file, idx % DIMENSIONS.len());
        let loaded: Vec<Vec<Shot>> = files.iter().enumerate().map(load).collect::<Result<_, _>>()?;
        let (zh_en, default) = loaded.split_at(loaded.len().min(DIMENSIONS.len()));
        let default = if default.is_empty() { zh_en } else { default };
        if *options.skip == Some(Skipped::Stage1) {
            let by_agent = ShotsByAgent { zh_en: vec![union(zh_en)], default: vec![union(default)] };
            return Ok(Self::Coupled(by_agent));
        }
        Ok(Self::Agents(ShotsByAgent { zh_en: zh_en.to_vec(), default: default.to_vec() }))
    }

    /// The shots of the agent at an index for this segment; none without such an agent.
    pub fn shots(&self, segment: &Segment, idx: usize) -> &[Shot] {
        let (Self::Agents(by_agent) | Self::Coupled(by_agent)) = self else { return &[] };
        let is_chinese = segment.src_lang.language() == "zh";
        let agents = if is_chinese { &by_agent.zh_en } else { &by_agent.default };
        agents.get(idx).map_or(&[], Vec::as_slice)
    }
}

/// The shots of one dimension: those of a file, or their part of the authors' Python file.
fn load(prompts: &Prompts, settings: &Settings, file: &File, idx: usize) -> setup::Result<Vec<Shot>> {
    match settings.shots.as_ref().filter(|path| path.extension().is_some_and(|e| e == "py")) {
        Some(path) => {
            let text = prompts.render(*file, ()).map_err(setup::Error::from_prompt)?;
            let mut agents = demos::read(&SourceFile { name: path.display().to_string(), text })?;
            Ok(agents[idx].drain(..).map(|demo| demo.shot).collect())
        }
        None => shots::load(prompts, Some(*file), settings),
    }
}

/// The union of the lists: each segment once, with the errors of all dimensions, at the position of its last
/// occurrence.
fn union(lists: &[Vec<Shot>]) -> Vec<Shot> {
    let mut all: Vec<Shot> = Vec::new();
    for shot in lists.iter().flatten() {
        let known = all.iter().position(|other| other.source == shot.source && other.target == shot.target);
        let mut merged =
            known.map_or_else(|| Shot { errors: Vec::new(), ..shot.clone() }, |at| all.remove(at));
        for error in &shot.errors {
            if !merged.errors.contains(error) {
                merged.errors.push(error.clone());
            }
        }
        all.push(merged);
    }
    all
}

/// Table 5: the debate starts from GEMBA-MQM's errors.
pub(super) fn from_gemba(
    gemba: &SingleQuestion,
    panel: &Panel,
    segment: &Segment,
) -> Result<Vec<Annotation>> {
    let verdict = gemba.judge_unit(panel, &Texts::of(segment))?;
    Ok(verdict.errors.iter().map(Annotation::new).collect())
}

/// GEMBA-MQM with the user's prompts where there are some for it; it only annotates, so it has no weights.
fn gemba(settings: &Settings) -> setup::Result<SingleQuestion> {
    let prompts = settings.prompts.clone().filter(|dir| dir.join("gemba_mqm").exists());
    let settings = Settings { prompts, weights: None, ..settings.clone() };
    let options = gemba_mqm::Options::read(&gemba_mqm::METHOD.parse_options("")?);
    gemba_mqm::question(&settings, &options)
}

/// The files of shots that Stage 1 needs; a user's file replaces each.
pub(super) fn shots_files(settings: &Settings, options: &Options) -> setup::Result<Vec<File>> {
    if *options.shots == Shots::HeEn && settings.shots.is_none() {
        let reason = "the shots `he-en` are published without a licence and so are not part of tribunal; hint: \
                      git clone https://github.com/SU-JIAYUAN/M-MAD and add \
                      --shots M-MAD/code/few_shot_demos_he.py";
        return Err(setup::Error::Conflict(reason.into()));
    }
    if !settings.has_shots(*options.shots != Shots::None)? || *options.start != First::Agents {
        return Ok(Vec::new());
    }
    let (mut zh_en, mut en_de) = (SHOTS_ZH_EN, SHOTS_EN_DE);
    if settings.preset == Preset::Paper {
        (zh_en[3], en_de[2]) = (PRINTED_ZH_EN_STYLE, PRINTED_EN_DE_TERMINOLOGY);
    }
    Ok(match *options.shots {
        // A user's file is read once for each agent, for any language.
        _ if settings.shots.is_some() => en_de.to_vec(),
        Shots::ZhEn => zh_en.to_vec(),
        Shots::EnDe => en_de.to_vec(),
        _ => [zh_en, en_de].concat(),
    })
}
