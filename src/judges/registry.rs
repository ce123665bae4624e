//! The judges that exist, what each is, and how one is made from its name. It holds no method's logic.

use serde::Serialize;

use super::{
    Judge, difficulty, eaprompt, fsp, gemba_da, gemba_esa, gemba_mqm, gemba_scales, gmicl, himate, m_mad,
    rate, rubric_mqm,
    setup::{self, Choice, Granularity, Options, Preset, Settings},
    thinking,
};

/// All methods, in the order of `tribunal methods list`. A new judge is one more line here.
pub const METHODS: &[&Method] = &[
    &gemba_mqm::METHOD,
    &gemba_da::METHOD,
    &gemba_scales::SQM,
    &gemba_scales::STARS,
    &gemba_scales::CLASSES,
    &gemba_esa::METHOD,
    &eaprompt::METHOD,
    &rubric_mqm::METHOD,
    &fsp::METHOD,
    &gmicl::METHOD,
    &m_mad::METHOD,
    &himate::METHOD,
    &rate::METHOD,
    &difficulty::METHOD,
    &thinking::METHOD,
];

/// What `tribunal methods show` says of a method.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Method {
    pub name: &'static str,
    pub summary: &'static str,
    pub citation: &'static str,
    /// The questions it asks, in order.
    pub stages: &'static [&'static str],
    /// The roles of a [`super::Panel`] that it uses.
    pub roles: &'static [&'static str],
    pub calls: Calls,
    /// The scale of `raw` and its direction.
    pub scale: &'static str,
    /// What one prompt may see, the default first.
    pub granularities: &'static [Granularity],
    pub presets: &'static [Preset],
    /// The severity weights that it uses by default; `None` when it weighs nothing.
    pub weights: Option<&'static str>,
    pub options: &'static [Choice],
    #[serde(skip)]
    pub(super) build: Build,
}

/// Makes a judge as it was asked for.
pub(super) type Build = fn(&Settings, &Options) -> Result<Box<dyn Judge>, setup::Error>;

/// Model calls for one unit of judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Calls {
    pub least: usize,
    pub typical: usize,
    pub most: usize,
}

impl Calls {
    /// Exactly this many.
    #[must_use]
    pub const fn exactly(n: usize) -> Self {
        Self { least: n, typical: n, most: n }
    }
}

/// The method of this name; `gemba_mqm` and `GEMBA-MQM` are `gemba-mqm`.
///
/// # Errors
/// [`setup::Error::Method`], which lists the methods and names the nearest.
pub fn find(name: &str) -> Result<&'static Method, setup::Error> {
    let plain = name.trim().to_lowercase().replace('_', "-");
    METHODS.iter().find(|method| method.name == plain).copied().ok_or_else(|| setup::Error::Method {
        name: name.into(),
        known: METHODS.iter().map(|method| method.name).collect::<Vec<_>>().join(", "),
        nearest: setup::nearest(&plain, METHODS.iter().map(|method| method.name)),
    })
}

/// The judge that `NAME[:option=value,...]` asks for.
///
/// # Errors
/// [`setup::Error`]: an unknown name, option or value, a preset or granularity that the method does not have,
/// or prompts and shots that cannot be used.
pub fn build(request: &str, settings: &Settings) -> Result<Box<dyn Judge>, setup::Error> {
    let (name, options) = request.split_once(':').unwrap_or((request, ""));
    let method = find(name)?;
    let options = Options::parse(method, options)?;
    if !method.presets.contains(&settings.preset) {
        return Err(setup::Error::Value {
            option: format!("the preset of `{}`", method.name),
            value: settings.preset.to_string(),
            known: method.presets.iter().map(|p| p.name()).collect::<Vec<_>>().join(", "),
        });
    }
    if let Some(asked) = settings.granularity.filter(|g| !method.granularities.contains(g)) {
        return Err(setup::Error::Value {
            option: format!("the granularity of `{}`", method.name),
            value: asked.to_string(),
            known: method.granularities.iter().map(|g| g.name()).collect::<Vec<_>>().join(", "),
        });
    }
    (method.build)(settings, &options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(request: &str, settings: &Settings) -> String {
        build(request, settings).err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn every_method_builds_in_every_preset_and_granularity() {
        // The one method without examples of its own.
        let rated = tempfile::NamedTempFile::new().unwrap();
        let line =
            r#"{"source_lang":"A","source":"s","target_lang":"B","target":"t","errors":[],"doc":"DOC"}"#;
        let lines: String = (0..25).map(|doc| line.replace("DOC", &doc.to_string()) + "\n").collect();
        std::fs::write(rated.path(), lines).unwrap();
        for method in METHODS {
            assert!(!method.granularities.is_empty() && method.presets.contains(&Preset::Strict));
            for preset in method.presets {
                for granularity in method.granularities {
                    let shots = (method.name == "gmicl").then(|| rated.path().to_owned());
                    let granularity = Some(*granularity);
                    let settings = Settings { preset: *preset, granularity, shots, ..Settings::default() };
                    let judge = build(method.name, &settings).unwrap();
                    let signature = judge.signature();
                    assert_eq!(signature[0], ("method", method.name.to_owned()));
                    assert!(signature.contains(&("preset", preset.to_string())));
                    assert!(signature.iter().any(|(key, _)| *key == "prompts"));
                }
            }
        }
    }

    #[test]
    fn spellings_of_names() {
        assert_eq!(find("GEMBA_MQM").unwrap().name, "gemba-mqm");
        assert!(build("gemba_mqm:form=json, shots=0,da=on", &Settings::default()).is_ok());
    }

    #[test]
    fn what_is_wrong_with_a_request() {
        let strict = Settings::default();
        insta::assert_snapshot!(
            [
                refusal("fps", &strict),
                refusal("comet", &strict),
                refusal("fsp:shot=0", &strict),
                refusal("fsp:shots=5", &strict),
                refusal("fsp:shots", &strict),
                refusal("fsp:shots=0,shots=3", &strict),
                refusal("fsp", &Settings { preset: Preset::Code, ..Settings::default() }),
                refusal("gemba-da", &Settings { granularity: Some(Granularity::Doc), ..Settings::default() }),
                refusal("fsp", &Settings { weights: Some("gmba".into()), ..Settings::default() }),
                refusal("gemba-mqm:da=on", &strict),
                refusal("gemba-mqm:form=json", &Settings { preset: Preset::Code, ..Settings::default() }),
            ]
            .join("\n"),
            @"
        no method is called `fps`; did you mean `fsp`?; hint: gemba-mqm, gemba-da, gemba-sqm, gemba-stars, gemba-classes, gemba-esa, eaprompt, rubric-mqm, fsp, gmicl, m-mad, himate, rate, difficulty, thinking
        no method is called `comet`; hint: gemba-mqm, gemba-da, gemba-sqm, gemba-stars, gemba-classes, gemba-esa, eaprompt, rubric-mqm, fsp, gmicl, m-mad, himate, rate, difficulty, thinking
        `fsp` has no option `shot`; did you mean `shots`?; hint: its options are shots, explain, score, sentences, omissions, window
        option `shots` cannot be `5`; hint: 3, 0
        `shots` is no option; hint: write NAME:option=value,option=value
        option `shots` is given twice
        the preset of `fsp` cannot be `code`; hint: paper, strict
        the granularity of `gemba-da` cannot be `doc`; hint: seg
        no weight preset is called `gmba`; hint: wmt, wmt-official, gemba, mmad, himate, marot, xcomet, rubric-mqm
        `explain` and `da` are options of the JSON form; hint: add form=json
        the JSON form has no published code; hint: use preset `paper` or `strict`
        "
        );
    }
}
