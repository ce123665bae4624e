//! Thresholds: fitting, writing, reading and rejecting them.

use tribunal::judges::himate::calibration::{Threshold, Thresholds};

use super::*;

/// A panel for `tribunal calibrate`.
#[expect(clippy::unnecessary_wraps, reason = "the type of a seat")]
fn seat(_: &ModelSpec, _: &Resources, sampling: Sampling) -> tribunal::eval::Result<Models> {
    let cast = Cast::new()
        .sure(&[COMPARE, "Accuracy/"], &[("A", &[-0.5, -0.25])])
        .sure(&[COMPARE], &[("B", &[-2.0])])
        .on(&[CORRECT], &[r#"{"correction": "Er saß am Ufer."}"#])
        .on(&[EVALUATE, "Silence"], &[r#"{"errors": []}"#])
        .on(&[EVALUATE, "Nonsense", "Fluency/Spelling"], &["nonsense"])
        .on(&[EVALUATE, "Accuracy/Mistranslation"], &[&found("Major", "Bank", "")])
        .on(&[EVALUATE, "Style/Awkward"], &[&found("Minor", "auf", "")])
        .on(&[EVALUATE], &[r#"{"errors": []}"#]);
    let model = Model { name: "scripted".into(), sha256: "5eed".into() };
    Ok(Models::alone(Panel::new(Arc::new(cast), sampling), model))
}

#[test]
fn calibrate_writes_what_the_judge_reads() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(path("src"), "He sat on the bank.\nNonsense.\nHe sat.\n").unwrap();
    std::fs::write(path("mt"), "Er saß auf der Bank.\nUnsinn auf der Bank.\nEr saß auf der Bank.\n").unwrap();
    let run = |extra: &[&str]| {
        let mut out = Vec::new();
        let (source, mt, toml) = (path("src"), path("mt"), path("fit.toml"));
        let argv = ["tribunal", "calibrate", "-s", &source, "-t", &mt, "-l", "en-de", "--out", &toml];
        let asked = ["--method", "himate:comparison=asked"];
        let argv = argv.iter().chain(&asked).chain(extra).map(|arg| (*arg).to_owned());
        let code = tribunal::cli::parse(argv).unwrap().run(seat, &mut out).map_err(|e| e.to_string());
        (format!("{code:?}"), String::from_utf8(out).unwrap())
    };
    let (code, printed) = run(&["--limit", "1"]);
    assert_eq!(code, format!("{:?}", Ok::<_, String>(ExitCode::SUCCESS)));
    // Of -2 and -0.75 the 60th percentile, and each by itself.
    assert_eq!(
        printed,
        "en-de\tall\t-1.25\tprobability 0.2865, percentile 60 of 2 answers on 1 segments\n\
         en-de\taccuracy/mistranslation\t-0.75\tprobability 0.4724, percentile 60 of 1 answers on 1 segments\n\
         en-de\tstyle/awkward\t-2\tprobability 0.1353, percentile 60 of 1 answers on 1 segments\n"
    );
    let text = std::fs::read_to_string(path("fit.toml")).unwrap();
    let hash = HiMate::new(&Settings::default(), &Options::read(&METHOD.parse_options("").unwrap())).unwrap();
    insta::assert_snapshot!("himate_calibration", text.replace(hash.prompts_hash(), "HASH"));
    let fitted = judge(&format!("comparison=asked,calibration={}", path("fit.toml")), Preset::Strict);
    let trained = fitted.trained_on.as_ref().expect("a calibration has sources");
    let known = ["he sat on the bank.", "Nonsense."].map(|source| trained.knows(source));
    assert_eq!(known, [true, false], "only the first segment was calibrated on");
    let (verdicts, calls) = cast(CORRECTED, -0.7).judge(&fitted, &[bank()]);
    assert_eq!((verdicts[0].is_ok(), calls.len()), (true, 21), "above the threshold nobody discusses");
    // The subtype's own threshold counts, and what lies on it is discussed.
    let at = talk(cast(CORRECTED, -0.75), &[&opinion("yes", "Minor")], &[&consent("yes")]);
    assert_eq!(at.judge(&fitted, &[bank()]).1.len(), 23);

    let with = |sha256: &str| {
        fitted.protocol().check_models(&|_| Model { name: "scripted".into(), sha256: sha256.into() })
    };
    assert!(with("5eed").is_ok());
    let other = with("0ther").unwrap_err().to_string();
    assert!(other.contains("fitted with `scripted` (sha256 5eed), not `scripted` (0ther)"), "{other}");

    let (code, printed) = run(&["--percentile", "0"]);
    assert_eq!(code, format!("{:?}", Ok::<_, String>(ExitCode::from(1))), "a segment is left out");
    assert!(
        printed.starts_with("en-de\tall\t-2\t") && printed.contains("of 4 answers on 2 segments\n"),
        "{printed}"
    );
    std::fs::write(path("src"), "Silence.\n").unwrap();
    std::fs::write(path("mt"), "Stille.\n").unwrap();
    assert!(run(&[]).0.contains("no error was found and corrected in the segments of `en-de`"));
}

#[test]
fn options_that_do_not_go_together_and_calibrations() {
    let settings = Settings::default();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("himate.toml");
    let refusal = |options: &str| {
        let error =
            tribunal::replication::build(&format!("himate:{options}"), &settings).err().unwrap().to_string();
        error.replace(&dir.path().display().to_string(), "DIR") + "\n"
    };
    let mut text: String = [
        "threshold=1.5",
        "threshold=-1",
        "stages=se,threshold=0.5",
        "stages=sa,calibration=x",
        "threshold=0.5,calibration=x",
    ]
    .map(refusal)
    .concat();
    let file = format!("calibration={}", path.display());
    text += &refusal(&file);
    std::fs::write(&path, "threshold = 3\n").unwrap();
    text += &refusal(&file);
    let strict = HiMate::new(&settings, &Options::read(&METHOD.parse_options("").unwrap())).unwrap();
    let entry = |pair: &str, prompts: &str, value: f64| {
        format!(
            "[[threshold]]\npair = \"{pair}\"\nmodel = \"m\"\nsha256 = \"0\"\npreset = \"strict\"\nprompts = \"{prompts}\"\nconfidence = \"sum\"\ncomparison = \"weighed\"\npercentile = 60.0\nsegments = 2\nanswers = 5\nvalue = {value:?}\n\n"
        )
    };
    std::fs::write(&path, entry("en-de", "other", -1.0)).unwrap();
    text += &refusal(&file);
    std::fs::write(&path, entry("en-de", strict.prompts_hash(), -0.4)).unwrap();
    text += &refusal(&format!("{file},confidence=mean"));
    text += &refusal(&format!("{file},comparison=asked"));
    text = text.replace(strict.prompts_hash(), "HASH");
    insta::assert_snapshot!("himate_refusals", text);

    // The pair of the segment decides: -0.4 for German, nothing for the rest.
    let fitted = judge(&file, Preset::Strict);
    for (logprob, n_calls) in [(-0.3, 22), (-0.5, 24)] {
        let cast = cast(CORRECTED, logprob)
            .on(&[TIER1], &[&opinion("yes", "Minor")])
            .on(&[TIER2], &[&consent("yes")]);
        let (verdicts, calls) = cast.judge(&fitted, &[bank()]);
        assert_eq!((calls.len(), verdicts[0].is_ok()), (n_calls, true));
    }
    let (verdicts, calls) = Cast::new().judge(&fitted, &[translation(("fr", "de"), "a", "b")]);
    assert!(calls.is_empty() && show(&verdicts[0]).contains("no threshold for `fr-de`"));
    let threshold = |judge: &Built| judge.signature().method.get("calibration").unwrap().to_owned();
    let before = threshold(&fitted);
    assert!(before.len() == 8 && before != "none", "{before}");
    std::fs::write(&path, entry("en-de", strict.prompts_hash(), -0.45)).unwrap();
    assert_ne!(threshold(&judge(&file, Preset::Strict)), before, "the signature names the file's content");
}

/// A file from a version with one threshold for all subtypes is read as such.
#[test]
fn a_threshold_without_a_subtype_is_for_all() {
    let entry = |subtype: &str, value: f64| Threshold {
        pair: "en-de".into(),
        subtype: subtype.into(),
        model: "m".into(),
        sha256: "0".into(),
        preset: "strict".into(),
        prompts: "p".into(),
        confidence: "sum".into(),
        comparison: "weighed".into(),
        percentile: 60.0,
        segments: 1,
        answers: 1,
        value,
        sources: Vec::new(),
    };
    let fitted = Thresholds { threshold: vec![entry("", -1.0), entry("accuracy/addition", -2.0)] };
    let text = fitted.to_toml().unwrap();
    assert!(!text.contains("subtype = \"\""), "{text}");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("fit.toml"), &text).unwrap();
    let (read, _) = Thresholds::read(&dir.path().join("fit.toml")).unwrap();
    assert_eq!(read, fitted);
    let value = |pair, subtype: &str| read.for_subtype(&translation(pair, "a", "b"), subtype);
    assert_eq!(value(("en", "de"), "accuracy/addition"), Some(-2.0));
    assert_eq!(value(("en", "de"), "style/awkward"), Some(-1.0));
    assert_eq!(value(("fr", "de"), "accuracy/addition"), None);
}

#[test]
fn confidences_of_a_validation_set() {
    let strict =
        HiMate::new(&Settings::default(), &Options::read(&METHOD.parse_options("comparison=asked").unwrap()))
            .unwrap();
    let cast = Cast::new()
        .sure(&[COMPARE, "Accuracy/"], &[("A", &[-0.5, -0.25])])
        .sure(&[COMPARE], &[("B", &[-2.0])])
        .on(&[CORRECT], &[r#"{"correction": "Er saß am Ufer."}"#])
        .on(&[EVALUATE, "Accuracy/Mistranslation"], &[&found("Major", "Bank", "")])
        .on(&[EVALUATE, "Style/Awkward"], &[&found("Minor", "auf", "")])
        .on(&[EVALUATE], &[r#"{"errors": []}"#]);
    let panel = Panel::new(Arc::new(cast), Sampling::default());
    let confidences = strict.confidences(&panel, &bank()).unwrap();
    let expected = [("accuracy/mistranslation", -0.75), ("style/awkward", -2.0)];
    assert_eq!(
        confidences,
        expected.map(|(path, value)| (path.to_owned(), value)),
        "dropped errors count too"
    );
}

/// A comparison weighed in both orders is as sure as the mean of both.
#[test]
fn confidences_of_weighed_comparisons() {
    let strict =
        HiMate::new(&Settings::default(), &Options::read(&METHOD.parse_options("").unwrap())).unwrap();
    let first = format!("A for \"{CORRECTED}\"");
    let cast = Cast::new()
        .sure(&[COMPARE, &first], &[("A", &[0.9f64.ln()])])
        .sure(&[COMPARE], &[("A", &[0.5f64.ln()])])
        .on(&[CORRECT], &[r#"{"correction": "Er saß am Ufer."}"#])
        .on(&[EVALUATE, "Accuracy/Mistranslation"], &[&found("Major", "Bank", "")])
        .on(&[EVALUATE], &[r#"{"errors": []}"#]);
    let panel = Panel::new(Arc::new(cast), Sampling::default());
    let confidences = strict.confidences(&panel, &bank()).unwrap();
    assert_eq!(confidences.len(), 1);
    assert!((confidences[0].1 - 0.7f64.ln()).abs() < 1e-12, "{confidences:?}");
}
