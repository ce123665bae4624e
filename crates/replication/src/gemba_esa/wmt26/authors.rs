//! The prompts of WMT 2026's baseline, read from the user's copy of its repository. The repository has no
//! licence, so its texts are not part of this program. Nothing is asked here.

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;
use tribunal_core::{
    files,
    segment::{Lang, Segment},
};
use tribunal_judges::{gemba_esa::wmt26::GENERAL, literals, setup};

/// The error for a missing file, with the repository that has it.
fn not_at_hand(file: String) -> setup::Error {
    setup::Error::AuthorsPrompts {
        what: file,
        repository: "https://github.com/Ammonsh/WMT26-QE-baselines",
        folder: "WMT26-QE-baselines",
    }
}

/// The file of the repository that has the texts, and its function that builds the question of Stage 1.
const FILE: &str = "qe_utils.py";
const BUILDER: &str = "build_stage1_prompt";

/// The texts of `qe_utils.py`, with their placeholders.
pub struct Texts {
    pub system: String,
    /// Requirements by domain.
    domains: BTreeMap<String, String>,
    /// Stage 1: the whole question, and its fixed part.
    spans: String,
    annotation: String,
    /// Stage 2.
    score: String,
    /// Languages with their names, in the order of the file.
    pairs: Vec<[(Lang, String); 2]>,
}

/// The names of a pair's languages.
pub type Names<'a> = [&'a str; 2];

impl Texts {
    /// Reads the file in this folder.
    ///
    /// # Errors
    /// No folder, no such file in it, or one that lacks a text.
    pub fn read(prompts: Option<&Path>) -> setup::Result<Self> {
        let Some(folder) = prompts else {
            let reason = "preset `code` of `gemba-esa:edition=wmt26` sends its authors' own prompts, which are \
                          published without a licence and so are not part of tribunal";
            return Err(not_at_hand(reason.into()));
        };
        let path = folder.join(FILE);
        let text = files::text::read(&path).map_err(|e| {
            not_at_hand(format!("cannot read `{}`, a file of WMT 2026's baseline: {e}", path.display()))
        })?;
        let fault = |reason: String| setup::Error::Prompt { file: path.display().to_string(), reason };
        let texts =
            Self::parse(&text).map_err(|name| fault(format!("it does not define `{name}` as expected")))?;
        let names = ["", ""];
        let is_whole = texts.spans(names, "", ("", "")).is_some()
            && texts.score(names, "", ("", ""), "").is_some()
            && texts.domains.contains_key(GENERAL);
        if is_whole { Ok(texts) } else { Err(fault("its prompts have other places to fill in".into())) }
    }

    /// The texts of a file, or the name of what is missing.
    fn parse(file: &str) -> Result<Self, &'static str> {
        let value = |name: &'static str| literals::literal_after(file, &format!("\n{name} =")).ok_or(name);
        let text = |name: &'static str| value(name)?.as_str().map(str::to_owned).ok_or(name);
        let builder = file.find(&format!("def {BUILDER}")).ok_or(BUILDER)?;
        let spans = literals::literal_after(&file[builder..], "return").ok_or(BUILDER)?;
        Ok(Self {
            system: text("SYSTEM_PROMPT")?,
            domains: serde_json::from_value(value("DOMAIN_REQUIREMENTS")?)
                .map_err(|_| "DOMAIN_REQUIREMENTS")?,
            spans: spans.as_str().ok_or(BUILDER)?.to_owned(),
            annotation: text("_STAGE1_ANNOTATION_BODY")?,
            score: text("_STAGE2_SCORING_BODY")?,
            pairs: pairs(&value("TARGET_PAIRS")?).ok_or("TARGET_PAIRS")?,
        })
    }

    /// All texts, for the signature.
    pub fn all(&self) -> Vec<&str> {
        let mut all = vec![&*self.system, &self.spans, &self.annotation, &self.score];
        all.extend(self.domains.iter().flat_map(|(domain, text)| [domain.as_str(), text.as_str()]));
        all.extend(self.pairs.iter().flatten().map(|(_, name)| name.as_str()));
        all
    }

    /// The names of a segment's languages: of the pair with the same codes, or else of the first with the
    /// same languages, one with the same script or region before others.
    pub fn names(&self, segment: &Segment) -> Option<Names<'_>> {
        let languages = [&segment.src_lang, &segment.tgt_lang];
        let is_alike = |pair: &&[(Lang, String); 2]| {
            pair.iter().zip(languages).all(|((lang, _), language)| lang.language() == language.language())
        };
        let shared = |pair: &&[(Lang, String); 2]| -> usize {
            pair.iter().zip(languages).map(|((lang, _), language)| shared_parts(lang, language)).sum()
        };
        let alike: Vec<_> = self.pairs.iter().filter(is_alike).collect();
        let most = alike.iter().map(&shared).max()?;
        let pair = alike.into_iter().find(|pair| shared(pair) == most)?;
        Some([&pair[0].1, &pair[1].1])
    }

    /// The pairs that have names.
    pub fn pairs(&self) -> String {
        let pairs = self.pairs.iter().map(|[(src, _), (tgt, _)]| format!("{src}-{tgt}"));
        pairs.collect::<Vec<_>>().join(", ")
    }

    /// The question of Stage 1. A domain without requirements has the general ones.
    pub fn spans(&self, names: Names, domain: &str, texts: (&str, &str)) -> Option<String> {
        let annotation = ("_STAGE1_ANNOTATION_BODY", &*self.annotation);
        fill(&self.spans, names, self.requirements(domain), texts, annotation)
    }

    /// The question of Stage 2.
    pub fn score(&self, names: Names, domain: &str, texts: (&str, &str), spans: &str) -> Option<String> {
        fill(&self.score, names, self.requirements(domain), texts, ("error_spans", spans))
    }

    fn requirements(&self, domain: &str) -> &str {
        self.domains.get(domain).or_else(|| self.domains.get(GENERAL)).map_or("", String::as_str)
    }
}

/// A prompt with the values that both questions use, and one more text; `None` if it uses others.
fn fill(
    prompt: &str,
    [src, tgt]: Names,
    requirements: &str,
    (source, target): (&str, &str),
    names: (&str, &str),
) -> Option<String> {
    let values = [
        ("src_name", src),
        ("tgt_name", tgt),
        ("src_text", source),
        ("hyp_text", target),
        ("domain_req", requirements),
        names,
    ];
    literals::interpolate(prompt, &values)
}

/// Pairs whose codes are those of languages.
fn pairs(value: &Value) -> Option<Vec<[(Lang, String); 2]>> {
    let language = |pair: &Value, code: &str, name: &str| {
        let name = pair.get(name)?.as_str()?.to_owned();
        Some((Lang::parse(pair.get(code)?.as_str()?).ok()?, name))
    };
    let of = |pair: &Value| {
        Some([language(pair, "src_code", "src_name")?, language(pair, "tgt_code", "tgt_name")?])
    };
    let pairs: Vec<_> = value.as_object()?.values().filter_map(of).collect();
    Some(pairs).filter(|pairs| !pairs.is_empty())
}

/// Number of parts of one code (script, region) that are in the other.
fn shared_parts(a: &Lang, b: &Lang) -> usize {
    let parts = |lang: &Lang| lang.code().split('_').skip(1).map(str::to_owned).collect::<Vec<_>>();
    let of_b = parts(b);
    parts(a).iter().filter(|part| of_b.contains(part)).count()
}
