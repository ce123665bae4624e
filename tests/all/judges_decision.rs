//! Thresholds on the log-odds of no error: fitted by `tribunal calibrate` on rated translations, read by `fsp` and
//! `gemba-mqm`, and refused where they do not belong.

use std::{fs, path::PathBuf, sync::Arc};

use tribunal::{
    cli::{
        args::{EngineArgs, ModelArgs},
        panel::Seated,
    },
    judges::{Model, Panel, Preset, Settings, registry},
    llm::Sampling,
    segment::Segment,
};

use crate::fakes::{self, Reader, judged, segment, translation};

fn model(sha256: &str) -> Model {
    Model { name: "reader".into(), sha256: sha256.into() }
}

#[expect(clippy::unnecessary_wraps, reason = "the type of a seat")]
fn seat(_: &ModelArgs, _: &EngineArgs, sampling: Sampling) -> anyhow::Result<Seated> {
    Ok(Seated::alone(Panel::new(Arc::new(Reader::default()), sampling), model("5eed")))
}

/// A folder with rated translations: how often each says `gut`, and whether raters found an error.
struct Rated(tempfile::TempDir);

impl Rated {
    fn new(rated: &[(usize, bool)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        let line = |(i, (n_good, has_error)): (usize, &(usize, bool))| {
            let hypothesis = format!("Satz {i}{}", " gut".repeat(*n_good));
            let errors =
                serde_json::json!([{"start": 0, "end": 4, "category": "style/awkward", "severity": "minor"}]);
            serde_json::json!({
                "system_id": "a", "document_id": format!("d{i}"), "segment_id": i, "src_lang": "en", "tgt_lang": "de",
                "source": format!("Sentence {i}"), "hypothesis": hypothesis,
                "errors": if *has_error { errors } else { serde_json::json!([]) },
            })
            .to_string()
        };
        let lines: Vec<String> = rated.iter().enumerate().map(line).collect();
        fs::write(folder.at("rated.jsonl"), lines.join("\n")).unwrap();
        folder
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn calibrate(&self, method: &str, more: &[&str]) -> (Result<String, String>, String) {
        let (input, toml) = (self.at("rated.jsonl"), self.at("fit.toml"));
        let argv = ["tribunal", "calibrate", "--method", method, "--out", toml.to_str().unwrap()];
        let input = ["--input", input.to_str().unwrap()];
        let input = if more.contains(&"-s") { &[][..] } else { &input };
        let argv = argv.iter().chain(input).chain(more).map(|arg| (*arg).to_owned());
        let mut out = Vec::new();
        let code = tribunal::cli::parse(argv).unwrap().run(seat, &mut out);
        let code = code.map(|code| format!("{code:?}")).map_err(|error| error.to_string());
        (code, String::from_utf8(out).unwrap())
    }
}

/// Those with four and more are good, but for one.
const RATED: &[(usize, bool)] = &[(0, true), (1, true), (2, false), (3, true), (4, false), (5, false)];

#[test]
fn calibrate_writes_what_the_judges_read() {
    let rated = Rated::new(RATED);
    for (method, granularity) in [("fsp:shots=0", "seg"), ("gemba-mqm:form=json,shots=0,explain=off", "seg")]
    {
        let (code, printed) = rated.calibrate(method, &["--granularity", granularity]);
        assert_eq!(code, Ok(format!("{:?}", std::process::ExitCode::SUCCESS)));
        // Log-odds are the number of `gut`s less 3: the value lies between 3 and 4 of them, or between 1 and 2.
        assert_eq!(
            printed, "en-de\t-1.5\t0.833 of texts with and without errors decided right, 3 of 6 without\n",
            "{method}"
        );
        let settings = Settings { granularity: Some(granularity.parse().unwrap()), ..Settings::default() };
        let request = format!("{method},threshold={}", rated.at("fit.toml").display());
        let judge = fakes::judge(&request, &settings);
        let reader = Arc::new(Reader::default());
        let panel = Panel::new(reader.clone(), Sampling::default());
        let one = |n_good: usize| segment(0, "Sentence", &format!("Satz{}", " gut".repeat(n_good)));
        let score = |segment: Segment| judged(&judge, &panel, &[segment]).0.remove(0).unwrap().score;
        assert_eq!((score(one(1)).to_bits(), score(one(2)).to_bits()), ((-1f64).to_bits(), 0f64.to_bits()));
        assert_eq!(*reader.forms.lock().unwrap(), ["1 to 10", "null to 0"], "{method}");
        assert_eq!((judge.calls().least, judge.calls().most), (2, 2));
        let signed = judge.signature().method.get("threshold").unwrap().to_owned();
        assert!(signed.len() == 8 && signed != "none", "{signed}");
        assert!(judge.check_models(&|_| model("5eed")).is_ok());
        let other = judge.check_models(&|_| model("0ther")).unwrap_err().to_string();
        assert!(other.contains("fitted with `reader` (sha256 5eed), not `reader` (0ther)"), "{other}");
        assert!(judge.check_input(&[one(0)]).is_ok());
        let other = judge.check_input(&[translation(("zh", "en"), "一", "One")]).unwrap_err().to_string();
        assert!(other.contains("there is no threshold for `zh-en`"), "{other}");
    }
    let text = fs::read_to_string(rated.at("fit.toml")).unwrap();
    let keys: Vec<&str> = text.lines().filter(|line| !line.starts_with("prompts")).collect();
    insta::assert_snapshot!("thresholds", keys.join("\n"));
}

#[test]
fn a_document_is_shown_and_its_segments_are_measured() {
    let rated = Rated::new(RATED);
    let text = fs::read_to_string(rated.at("rated.jsonl")).unwrap();
    let one_document: String = (0..6).fold(text, |text, i| text.replace(&format!("\"d{i}\""), "\"d\""));
    fs::write(rated.at("rated.jsonl"), one_document).unwrap();
    let (code, printed) = rated.calibrate("fsp:shots=0", &[]);
    assert!(code.is_ok() && printed.starts_with("en-de\t-1.5\t0.833"), "{code:?} {printed}");
    let (_, printed) = rated.calibrate("fsp:shots=0", &["--limit", "4", "--systems", "a"]);
    assert!(printed.ends_with("1 of 4 without\n"), "{printed}");
}

#[test]
fn what_cannot_be_fitted_or_used() {
    let rated = Rated::new(RATED);
    let why = |method: &str, more: &[&str]| rated.calibrate(method, more).0.unwrap_err();
    assert!(rated.calibrate("fsp:shots=0", &["--granularity", "seg"]).0.is_ok());
    let file = rated.at("fit.toml").display().to_string();
    let seg = Settings { granularity: Some("seg".parse().unwrap()), ..Settings::default() };
    let refused = |request: &str, settings: &Settings| {
        let error = registry::build(&request.replace("FILE", &file), settings).err().unwrap();
        error.to_string().replace(&file, "FILE")
    };
    let paper = Settings { preset: Preset::Paper, ..seg.clone() };
    let all = [
        why("probe", &[]),
        why("gemba-mqm", &["--granularity", "seg"]),
        why("fsp", &["--granularity", "5doc"]),
        why("fsp", &["--percentile", "10"]),
        why("fsp", &["--systems", "b"]),
        why("fsp", &["-s", "src.txt", "-t", "hyp.txt", "-l", "en-de"]),
        refused("fsp:threshold=FILE", &seg),
        refused("fsp:shots=0,threshold=FILE", &Settings::default()),
        refused("fsp:shots=0,threshold=FILE", &paper),
        refused("gemba-mqm:threshold=FILE", &seg),
        refused("gemba-mqm:form=json,threshold=FILE", &seg),
        refused("fsp:threshold=nowhere.toml", &seg),
    ];
    fs::write(rated.at("fit.toml"), "threshold = 3\n").unwrap();
    let not_one = refused("fsp:threshold=FILE", &seg);
    let perfect = Rated::new(&[(1, false), (2, false)]);
    let none = perfect.calibrate("fsp:shots=0", &[]).0.unwrap_err();
    insta::assert_snapshot!("refused_thresholds", [&all[..], &[not_one, none]].concat().join("\n"));
}
