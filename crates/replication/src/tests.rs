//! Every method in every preset, as the list has them: calls, scales, refusals.

use tribunal_judges::{
    Granularity, Preset, Settings, Unit,
    method::Calls,
    registry::{METHODS, find, scale, unit_noun},
};

use super::build;

/// Stand-ins for published files: the prompts of the authors whose preset `code` reads them from the
/// user's copy.
fn published(method: &str, preset: Preset) -> Option<std::path::PathBuf> {
    let golden = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden"));
    let name = if method.starts_with("m-mad") { "m_mad/code" } else { "himate" };
    let is_read = preset == Preset::Code && ["m-mad", "himate"].iter().any(|own| method.starts_with(own));
    is_read.then(|| golden.join(name))
}

fn refusal(request: &str, settings: &Settings) -> String {
    build(request, settings).err().map(|e| e.to_string()).unwrap_or_default()
}

#[test]
fn every_method_builds_in_every_preset_and_granularity() {
    // The one method that cannot run without examples.
    let rated = tempfile::NamedTempFile::new().unwrap();
    let line = r#"{"source_lang":"A","source":"s","target_lang":"B","target":"t","errors":[],"doc":"DOC"}"#;
    let lines: String = (0..25).map(|doc| line.replace("DOC", &doc.to_string()) + "\n").collect();
    std::fs::write(rated.path(), lines).unwrap();
    for method in METHODS {
        assert!(!method.granularities.is_empty() && method.presets.contains(&Preset::Strict));
        assert!(![method.name, method.summary, method.citation].contains(&""), "{}", method.name);
        assert!(!method.stages.is_empty(), "{}", method.name);
        for preset in method.presets {
            for granularity in method.granularities {
                let shots = (method.name == "gmicl").then(|| rated.path().to_owned());
                let prompts = published(method.name, *preset);
                let granularity = Some(*granularity);
                let settings =
                    Settings { preset: *preset, granularity, shots, prompts, ..Settings::default() };
                // `paper` does not define which errors are discussed: the threshold is fitted.
                let is_fitted = method.name == "himate" && *preset == Preset::Paper;
                let request = if is_fitted { "himate:threshold=0.9" } else { method.name };
                let judge = build(request, &settings).unwrap();
                let signature = judge.signature().all();
                assert_eq!(signature.get("method"), Some(method.name));
                assert_eq!(signature.get("preset"), Some(preset.name()));
                let has_prompts = signature.get("prompts").is_some_and(|hash| hash.len() >= 8);
                assert!(has_prompts || judge.provenance.files.is_empty(), "{}", method.name);
                let is_segment = unit_noun(&signature) == "segment";
                assert_eq!(is_segment, judge.unit == Unit::Segment, "{}", method.name);
            }
        }
    }
}

#[test]
fn calls_follow_options_and_presets() {
    use Preset::{Code, Paper, Strict};
    let calls = |request: &str, preset: Preset| {
        let prompts = published(request, preset);
        let settings = Settings { preset, prompts, ..Settings::default() };
        let Calls { least, typical, most } = build(request, &settings).unwrap().calls();
        assert!(least <= typical && typical <= most, "{request}: {least} {typical} {most}");
        [least, most]
    };
    for (request, preset, expected) in [
        ("m-mad", Strict, [4, 41]),
        ("m-mad:rounds=10", Strict, [4, 125]),
        ("m-mad:rounds=1", Paper, [5, 17]),
        ("m-mad:rounds=10", Code, [4, 125]),
        ("m-mad:skip=stage2", Code, [5, 14]),
        ("m-mad:skip=stage2", Strict, [4, 5]),
        ("m-mad:skip=stage3", Strict, [4, 40]),
        ("m-mad:skip=stage1,rounds=5", Strict, [1, 17]),
        ("m-mad:start=gemba-mqm", Strict, [1, 11]),
        ("m-mad:strategy=deliberation", Strict, [4, 33]),
        ("m-mad:strategy=interactive-review", Strict, [4, 41]),
        ("m-mad:strategy=consultancy-review", Strict, [4, 37]),
        ("rate", Strict, [3, 31]),
        ("rate", Paper, [1, 31]),
        ("rate:rounds=3", Code, [1, 10]),
        ("rate:rounds=3,skip=both", Strict, [3, 7]),
        ("rate:rounds=3,skip=both,expected=on", Strict, [4, 10]),
        ("himate", Strict, [19, 171]),
        ("himate:threshold=0.9", Paper, [19, 133]),
        ("himate:stages=se+sr", Strict, [19, 95]),
        ("himate:stages=se", Strict, [19, 38]),
        ("himate:stages=sa", Strict, [1, 1]),
        ("gemba-mqm", Strict, [1, 1]),
        ("gemba-mqm", Code, [1, 6]),
        ("gemba-da", Strict, [1, 1]),
        ("gemba-sqm:score=expected", Strict, [1, 2]),
        ("gemba-stars", Code, [1, 16]),
        ("gemba-esa", Strict, [1, 2]),
        ("gemba-esa:score=expected", Strict, [1, 3]),
        ("gemba-esa", Code, [2, 12]),
        ("eaprompt", Strict, [1, 2]),
        ("eaprompt:steps=1", Paper, [1, 1]),
        ("fsp:score=expected-da", Strict, [1, 2]),
    ] {
        assert_eq!(calls(request, preset), expected, "{request}, {preset}");
    }
}

#[test]
fn the_scale_is_that_of_the_run() {
    let of = |request: &str, preset: Preset| {
        let settings = Settings { preset, ..Settings::default() };
        let built = build(request, &settings).unwrap();
        scale(&built.method(), &built.signature().all())
    };
    for (request, preset, words) in [
        ("gemba-mqm", Preset::Strict, "negative penalty, -25 to 0, higher is better"),
        ("gemba-mqm:form=json,da=on", Preset::Strict, "0 to 100, higher is better"),
        ("gemba-mqm", Preset::Code, "negative penalty, -25 to 0, higher is better"),
        ("fsp:score=da", Preset::Strict, "0 to 100, higher is better"),
        ("m-mad", Preset::Strict, "negative penalty, 0 is best, higher is better"),
        ("eaprompt", Preset::Strict, "negative penalty, 0 is best, higher is better"),
        ("rubric-mqm", Preset::Strict, "negative points, 0 is best, higher is better"),
        ("rubric-mqm:score=mean", Preset::Strict, "negative points, -100 to 0, higher is better"),
        ("rubric-mqm", Preset::Code, "negative points over 100, 0 is best, higher is better"),
        (
            "rubric-mqm:scenario=gemba",
            Preset::Code,
            "negative penalty over 100, -0.25 to 0, higher is better; raw scores without the minus",
        ),
        ("likelihood:norm=sum", Preset::Strict, "log-probability of the text in nats; higher is better"),
        (
            "likelihood:norm=sum,relative=on",
            Preset::Strict,
            "log-probability in nats, less that of the text alone; higher is better",
        ),
        (
            "difficulty",
            Preset::Strict,
            "negative difficulty, -10 to -1, higher is easier; raw scores without the minus",
        ),
    ] {
        assert_eq!(of(request, preset).to_string(), words, "{request} {preset}");
    }
    let scales = METHODS.iter().flat_map(|method| method.scales.iter().map(move |of| (method, of.0)));
    for (method, options) in scales {
        let known = |option: &str, value: &&&str| match option {
            "preset" => method.presets.iter().any(|preset| preset.name() == **value),
            _ => method.options.iter().any(|choice| choice.name == option && choice.values.contains(*value)),
        };
        for (option, values) in options {
            assert!(values.iter().all(|value| known(option, &value)), "{}: {option}", method.name);
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
            refusal("chrf", &strict),
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
    unknown method `fps`
    hint: did you mean `fsp`? the methods are gemba-mqm, mqm-ape, gemba-da, gemba-sqm, gemba-stars, gemba-classes, gemba-esa, eaprompt, rubric-mqm, fsp, gmicl, gmft, probe, qe, likelihood, remedy, reward, comet, m-mad, himate, rate, difficulty, thinking
    `chrf` is a metric, not a judge
    hint: for a score like MQM use `probe`
    `fsp` has no option `shot`
    hint: did you mean `shots`? its options are shots, explain, score, sentences, omissions, window, reasoning, reasoning-budget
    option `shots` of `fsp` cannot be `5`
    hint: it can be 3 or 0
    `shots` has no value
    hint: write NAME:option=value,option=value
    option `shots` is given twice
    the preset of `fsp` cannot be `code`
    hint: it can be paper or strict
    the granularity of `gemba-da` cannot be `doc`
    hint: it can be seg
    unknown weight preset `gmba`; hint: it can be wmt, wmt-official, gemba, gemba-sum, mmad, mmad-paper, himate, marot, xcomet, rubric-mqm, mqm-ape, gemba-v2
    `explain` and `da` are options of the JSON form; hint: add form=json
    the JSON form has no published code; hint: use preset `paper` or `strict`
    "
    );
}
