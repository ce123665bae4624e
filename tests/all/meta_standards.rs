//! Task sets on test sets of the shared tasks: which reference, which systems, how many pairs, on which
//! translations. The folders are written here, with as many systems as the real ones, and what is expected
//! can be counted by hand.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::meta_cli::{found, meta, run, testset, write};

const SEGMENTS: usize = 4;

/// A folder of one language pair: `n` systems of falling quality and human translations, which are the best.
struct Pair<'a> {
    lp: &'a str,
    n_systems: usize,
    humans: &'a [&'a str],
}

impl Pair<'_> {
    fn systems(&self) -> Vec<String> {
        let machine = (0..self.n_systems).map(|index| format!("s{index:02}"));
        self.humans.iter().map(|name| (*name).to_owned()).chain(machine).collect()
    }

    /// Texts, documents and human scores; the raters like translations in the order of [`Pair::systems`].
    fn write(&self, dir: &Path) {
        let (lp, text) = (self.lp, "x\n".repeat(SEGMENTS));
        write(&dir.join(format!("documents/{lp}.docs")), &"news d1\n".repeat(SEGMENTS));
        write(&dir.join(format!("sources/{lp}.txt")), &text);
        for human in self.humans {
            write(&dir.join(format!("references/{lp}.{human}.txt")), &text);
        }
        for system in self.systems() {
            write(&dir.join(format!("system-outputs/{lp}/{system}.txt")), &text);
        }
        let all = |_: &str| true;
        write(
            &dir.join(format!("human-scores/{lp}.mqm.seg.score")),
            &self.scores(all, |rank| -(rank as f64)),
        );
    }

    /// A metric that scores the translations for which `has` is true, by their place in the raters' order.
    fn metric(&self, dir: &Path, name: &str, has: impl Fn(&str) -> bool, score: impl Fn(usize) -> f64) {
        let path = dir.join(format!("metric-scores/{}/{name}.seg.score", self.lp));
        write(&path, &self.scores(has, score));
    }

    fn scores(&self, has: impl Fn(&str) -> bool, score: impl Fn(usize) -> f64) -> String {
        let systems = self.systems().into_iter().enumerate().filter(|(_, system)| has(system));
        let column = |(rank, system): (usize, String)| {
            let line = |segment| format!("{system}\t{}\n", score(rank) + 0.1 * segment as f64);
            (0..SEGMENTS).map(line).collect::<String>()
        };
        systems.map(column).collect()
    }
}

/// WMT23's three pairs with as many systems as they had. `COMET` was given every reference; on he-en it takes
/// the other human translation for the worst.
fn wmt23() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("wmt23");
    for (lp, n_systems, humans) in [
        ("en-de", 12, ["refA", "synthetic_ref"]),
        ("he-en", 12, ["refA", "refB"]),
        ("zh-en", 15, ["refA", "synthetic_ref"]),
    ] {
        let pair = Pair { lp, n_systems, humans: &humans };
        pair.write(&root);
        pair.metric(&root, "Kiwi-src", |_| true, |rank| -(rank as f64));
        for human in humans {
            let is_worst = |rank: usize| lp == "he-en" && rank < 2;
            let score = |rank: usize| if is_worst(rank) { -99.0 } else { -(rank as f64) };
            pair.metric(&root, &format!("COMET-{human}"), |system| system != human, score);
        }
    }
    (dir, root)
}

fn json(dir: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&meta(dir, &[arguments, &["--json"]].concat()).unwrap()).unwrap()
}

fn task<'a>(json: &'a Value, statistic: &str, lp: &str) -> &'a Value {
    let tasks = json["result"]["tasks"].as_array().unwrap();
    let is = |task: &&Value| {
        let pairs: Vec<&str> =
            task["pairs"].as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect();
        task["statistic"] == statistic && pairs.join("+") == lp
    };
    tasks.iter().find(is).unwrap_or_else(|| panic!("no {statistic} on {lp}"))
}

fn names(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

const ALL: &str = "en-de+he-en+zh-en";

#[test]
fn wmt23_compares_as_many_systems_as_mt_metrics_eval() {
    let (_dir, root) = wmt23();
    let json = json(&root, &["-l", "en-de,he-en,zh-en", "--task", "wmt23"]);
    // 12 systems on en-de, 12 and refA on he-en, 15 on zh-en: 66 + 78 + 105 pairs.
    let pooled = task(&json, "sys:accuracy", ALL);
    assert_eq!(pooled["values"]["Kiwi"]["Ok"]["n"], 249);
    assert_eq!(pooled["values"]["Kiwi"]["Ok"]["value"], 1.0);
    assert_eq!(pooled["bases"]["Kiwi"]["systems"], serde_json::json!([12, 13, 15]));
    // COMET of refB is wrong about refA against each of twelve systems.
    assert_eq!(pooled["values"]["COMET"]["Ok"]["value"], 237.0 / 249.0);
    for (lp, n) in [("en-de", 12), ("he-en", 13), ("zh-en", 15)] {
        for statistic in ["sys:pearson", "seg:pearson@none", "seg:acc-eq@item"] {
            assert_eq!(task(&json, statistic, lp)["bases"]["COMET"]["systems"][0], n, "{statistic} {lp}");
        }
    }
    let references: Vec<_> = (0..3).map(|i| &json["directions"][i]["reference"]["reference"]).collect();
    assert_eq!(references, ["refA", "refB", "refA"]);
    let others: Vec<_> = (0..3).map(|i| names(&json["directions"][i]["other_references"])).collect();
    assert_eq!(others, [["COMET-synthetic_ref"], ["COMET-refA"], ["COMET-synthetic_ref"]]);
    assert_eq!(json["result"]["average"].as_array().unwrap().len(), 2);
}

#[test]
fn a_reference_can_be_chosen_pair_by_pair() {
    let (_dir, root) = wmt23();
    let arguments = ["-l", "en-de,he-en,zh-en", "--task", "wmt23", "--reference", "he-en=refA"];
    let changed = json(&root, &arguments);
    // Now refB is the thirteenth system of he-en, and nothing else is different.
    let systems = &task(&changed, "sys:accuracy", ALL)["bases"]["COMET"]["systems"];
    assert_eq!(systems, &serde_json::json!([12, 13, 15]));
    assert!(names(&changed["directions"][1]["with_humans"]).contains(&"refB"));
    assert_eq!(names(&changed["directions"][1]["other_references"]), ["COMET-refB"]);
    let told = meta(&root, &["-l", "en-de,he-en", "--task", "wmt23", "--reference", "refB"]).unwrap_err();
    assert!(told.contains("no reference `refB` for `en-de`\nhint: there are refA, synthetic_ref"), "{told}");
    for (reference, expected) in [
        ("zh-en=refA", "the reference `zh-en=refA` is for `zh-en`, which is not evaluated"),
        ("en-de=", "the reference `en-de=` is neither NAME nor LP=NAME"),
    ] {
        let told = meta(&root, &["-l", "en-de", "--reference", reference]).unwrap_err();
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn a_metric_of_another_reference_is_compared_when_it_is_named_in_full() {
    let (_dir, root) = wmt23();
    let stat = ["-l", "en-de", "--stat", "sys:accuracy", "--metrics"];
    let named = json(&root, &[&stat[..], &["COMET,COMET-synthetic_ref"]].concat());
    let values = task(&named, "sys:accuracy", "en-de")["values"].as_object().unwrap();
    assert_eq!(values.keys().collect::<Vec<_>>(), ["COMET", "COMET-synthetic_ref"]);
    std::fs::remove_file(root.join("metric-scores/en-de/COMET-refA.seg.score")).unwrap();
    let told = meta(&root, &[&stat[..], &["COMET"]].concat()).unwrap_err();
    let expected =
        "`COMET` was not given the reference of `en-de`, refA\nhint: name it in full (COMET-synthetic_ref)";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn a_task_set_on_one_pair_is_titled_by_that_pair() {
    let (_dir, root) = wmt23();
    let text = meta(&root, &["-l", "en-de", "--task", "wmt23"]).unwrap();
    insta::assert_snapshot!(text, @r"
    wmt23 · DIR · human scores `mqm`
    en-de: 12 systems in the order of their names, reference refA, 4 of 4 segments rated

              en-de
              sys                seg
    n         12 systems         4 segments
    metric    accuracy  pearson  pearson@none  acc-eq@item
    ──────────────────────────────────────────────────────
    COMET        1.000    1.000         1.000        1.000
    Kiwi         1.000    1.000         1.000        1.000
    length       0.000        -             -        0.000
    random       0.621    0.361         0.203        0.568
    constant     0.000        -             -        0.000

    no average: wmt23 also covers he-en, zh-en
    en-de: not compared, because they were given another reference than refA: COMET-synthetic_ref (--metrics with the full name compares one)
    en-de: system scores are means over all segments, rated or not, for COMET, Kiwi
    acc-eq: each metric has one tie threshold, fitted on these same scores (`--also calibration` shows by how much that flatters it)
    ");
    let told = meta(&root, &["-l", "en-de,en-ru", "--task", "wmt23"]).unwrap_err();
    assert!(told.contains("`wmt23` has no task on `en-ru`\nhint: it has en-de, he-en, zh-en"), "{told}");
}

#[test]
fn a_folder_of_another_name_is_known_by_its_task_set() {
    let (dir, root) = wmt23();
    let other = dir.path().join("my-copy");
    std::fs::rename(root, &other).unwrap();
    let pooled = json(&other, &["-l", "en-de,he-en,zh-en", "--task", "wmt23"]);
    assert_eq!(task(&pooled, "sys:accuracy", ALL)["values"]["Kiwi"]["Ok"]["n"], 249);
    // The reference is only in the task set; without it a message says so.
    let told = meta(&other, &["-l", "he-en", "--stat", "sys:accuracy"]).unwrap();
    let expected = "he-en: this test set is not one of the shared tasks', so refA of refA, refB is taken";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn wmt24_leaves_its_outlier_out_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("wmt24");
    for (lp, humans) in [("en-de", vec!["refA", "refB"]), ("en-es", vec!["refA"]), ("ja-zh", vec!["refA"])] {
        let pair = Pair { lp, n_systems: 4, humans: &humans };
        pair.write(&root);
        pair.metric(&root, "Kiwi-src", |_| true, |rank| -(rank as f64));
        for file in [
            "system-outputs/LP/s03.txt",
            "human-scores/LP.mqm.seg.score",
            "metric-scores/LP/Kiwi-src.seg.score",
        ] {
            let path = root.join(file.replace("LP", lp));
            let text = std::fs::read_to_string(&path).unwrap().replace("s03", "MSLC");
            write(&PathBuf::from(path.display().to_string().replace("s03", "MSLC")), &text);
        }
        std::fs::remove_file(root.join(format!("system-outputs/{lp}/s03.txt"))).unwrap();
    }
    let json = json(&root, &["-l", "en-de,en-es,ja-zh", "--task", "wmt24"]);
    // Three systems, and refA on en-de, whose reference is refB.
    for (lp, n) in [("en-de", 4), ("en-es", 3), ("ja-zh", 3)] {
        assert_eq!(task(&json, "sys:spa", lp)["bases"]["Kiwi"]["systems"][0], n, "{lp}");
    }
    let told = meta(&root, &["-l", "en-es", "--stat", "sys:accuracy"]).unwrap();
    assert!(
        told.contains("en-es: left out as in the shared task, because they are outliers: MSLC"),
        "{told}"
    );
}

#[test]
fn a_metric_with_and_without_a_reference_goes_by_two_names_on_every_pair() {
    let (_dir, root) = wmt23();
    let pair = Pair { lp: "zh-en", n_systems: 15, humans: &["refA"] };
    pair.metric(&root, "COMET-src", |_| true, |rank| -(rank as f64));
    let json = json(&root, &["-l", "en-de,he-en,zh-en", "--task", "wmt23"]);
    let of = |lp: usize| -> Vec<&str> {
        let metrics = json["directions"][lp]["metrics"].as_array().unwrap();
        metrics.iter().map(|metric| metric["name"].as_str().unwrap()).collect()
    };
    assert_eq!((of(0), of(2)), (vec!["COMET", "Kiwi"], vec!["COMET", "COMET-src", "Kiwi"]));
}

#[test]
fn a_test_set_with_nothing_to_compare_is_an_error() {
    let dir = testset();
    for system in ["A", "B", "C"] {
        std::fs::remove_file(dir.path().join(format!("system-outputs/en-de/{system}.txt"))).unwrap();
    }
    let told = meta(dir.path(), &["-l", "en-de"]).unwrap_err();
    let expected = "no system to compare for `en-de`: `system-outputs/en-de` holds refA\nhint: --systems";
    assert!(told.contains(expected), "{told}");
    let dir = testset();
    let none = ["A", "B", "C"].map(|system| format!("{system} None\n").repeat(4)).concat();
    write(&dir.path().join("human-scores/en-de.mqm.seg.score"), &none);
    let told = meta(dir.path(), &["-l", "en-de"]).unwrap_err();
    let expected =
        "the human scores `mqm` of `en-de` rate no translation of A, B, C: there are scores none at all";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn two_systems_have_no_correlation() {
    let dir = testset();
    let arguments = ["--systems", "A,B", "--stat", "sys:accuracy,sys:pearson,sys:spearman,sys:kendall"];
    let json = found(dir.path(), &arguments);
    for statistic in ["sys:pearson", "sys:spearman", "sys:kendall"] {
        let task = task(&json, statistic, "en-de");
        assert_eq!(task["values"]["Good"]["Err"], "two-values", "{statistic}");
        assert_eq!(task["bases"]["Good"]["systems"][0], 2);
    }
    let told = meta(dir.path(), &[&["-l", "en-de"], &arguments[..]].concat()).unwrap();
    assert!(told.contains("n         2 systems\n"), "{told}");
    assert!(
        told.contains("no value for any metric: over two values a correlation is always 1 or -1"),
        "{told}"
    );
}

/// A run that judged the first two segments, of which the first has C wrong.
fn short_run(dir: &Path) -> String {
    let file = dir.join("short.score");
    write(&file, "A 9\nA 8\nA None\nA None\nB 5\nB 8\nB None\nB None\nC 7\nC 1\nC None\nC None\n");
    format!("Short={}", file.display())
}

#[test]
fn metrics_are_compared_on_what_all_of_them_scored() {
    let dir = testset();
    // By the file's own system scores B is best.
    write(&dir.path().join("metric-scores/en-de/Good-src.sys.score"), "A 1\nB 9\nC 0\n");
    let short = short_run(dir.path());
    let arguments = [
        "-l",
        "en-de",
        "--metrics",
        "Good",
        "--scores",
        &short,
        "--stat",
        "sys:accuracy,sys:pearson,seg:pearson@none",
    ];
    let text = meta(dir.path(), &arguments).unwrap();
    insta::assert_snapshot!(text, @r"
    statistics · DIR · human scores `mqm`
    en-de: 3 systems in the order of their names, reference refA, 3 of 4 segments rated

              en-de
              sys                seg
    n         3 systems          2 segments
    metric    accuracy  pearson  pearson@none
    ─────────────────────────────────────────
    Short        1.000    0.992         0.925
    Good         0.667    0.323         0.999
    length       0.000        -         0.047
    random       0.000   -0.997        -0.183
    constant     0.000        -             -

    en-de: 3 of 9 rated translations left out for all metrics, because not every metric scored them: Short lacks 3 (--coverage each judges each metric by what it scored)
    en-de Short: it lacks 3 rated translations: its system scores and the raters' are means over the 2 segments that both scored for every system (--coverage official takes all of both)
    ");
    let json = found(dir.path(), &arguments[2..]);
    // The raters' means are -1/3, -7/3 and -7, Good's file has 1, 9 and 0, whatever Short lacks.
    let r = task(&json, "sys:pearson", "en-de")["values"]["Good"]["Ok"]["value"].as_f64().unwrap();
    let expected = 294.0 / (1896.0 * 438.0_f64).sqrt();
    assert!((r - expected).abs() < 1e-12, "{r} is not {expected}");
    assert_eq!(json["directions"][0]["compared"]["left_out"], 3);
    assert_eq!(task(&json, "seg:pearson@none", "en-de")["bases"]["Good"]["translations"], 6);
}

#[test]
fn each_metric_can_be_judged_by_what_it_scored() {
    let dir = testset();
    let short = short_run(dir.path());
    let arguments = [
        "-l",
        "en-de",
        "--metrics",
        "Good",
        "--scores",
        &short,
        "--stat",
        "seg:pearson@none",
        "--coverage",
        "each",
    ];
    let text = meta(dir.path(), &arguments).unwrap();
    insta::assert_snapshot!(text, @r"
    statistics · DIR · human scores `mqm`
    en-de: 3 systems in the order of their names, reference refA, 3 of 4 segments rated

              en-de
              seg
    n         2 to 3 segments
    metric       pearson@none
    ─────────────────────────
    Good                0.994
    Short           0.925 n=2
    length              0.169
    random             -0.339
    constant                -

    en-de Short: 3 of 9 rated translations without a score, not counted for it (--coverage each)
    ");
    let told = meta(dir.path(), &["-l", "en-de", "--coverage", "some"]).unwrap_err();
    assert!(told.contains("unknown coverage `some`\nhint: it can be common, each"), "{told}");
}

#[test]
fn system_scores_alone_are_compared_whatever_others_lack() {
    let dir = testset();
    write(&dir.path().join("metric-scores/en-de/Whole-src.sys.score"), "A 3\nB 2\nC 1\n");
    let short = short_run(dir.path());
    let arguments = ["--metrics", "Good,Whole", "--scores", &short, "--stat", "sys:accuracy"];
    let json = found(dir.path(), &arguments);
    let values = &task(&json, "sys:accuracy", "en-de")["values"];
    assert_eq!(values["Whole"]["Ok"]["value"], 1.0);
    assert_eq!(values["Good"]["Ok"]["value"], 1.0);
    let complete = found(dir.path(), &arguments[..2]);
    assert_eq!(task(&complete, "sys:accuracy", "en-de")["values"]["Whole"]["Ok"]["value"], 1.0);
}

#[test]
fn metrics_without_a_common_translation_are_refused() {
    let dir = testset();
    let other = dir.path().join("other.score");
    write(&other, "A None\nA None\nA 1\nA 1\nB None\nB None\nB 1\nB 1\nC None\nC None\nC 1\nC 1\n");
    let (short, other) = (short_run(dir.path()), format!("Other={}", other.display()));
    let told = meta(dir.path(), &["-l", "en-de", "--scores", &short, "--scores", &other]).unwrap_err();
    let expected =
        "no translation of `en-de` is scored by every metric: of 9 rated ones Other lacks 6, Short lacks 3";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn baselines_of_the_texts_are_computed_on_all_of_them() {
    let dir = testset();
    write(&dir.path().join("system-outputs/en-de/C.txt"), "eins\nzwei Worte\nunsinn\nunsinn\n");
    let short = short_run(dir.path());
    let arguments = ["--metrics", "none", "--lexical", "chrf", "--stat", "sys:pearson"];
    // C is only bad where the run has no score.
    let json = found(dir.path(), &[&arguments[..], &["--scores", &short]].concat());
    let of =
        |json: &Value| task(json, "sys:pearson", "en-de")["values"]["chrf"]["Ok"]["value"].as_f64().unwrap();
    assert!(of(&json) > 0.9 && (of(&json) - of(&found(dir.path(), &arguments))).abs() < 1e-12);
}

#[test]
fn the_exit_code_of_a_test_set_without_systems_is_two() {
    let dir = testset();
    let testset = dir.path().display().to_string();
    std::fs::remove_dir_all(dir.path().join("system-outputs/en-de")).unwrap();
    std::fs::create_dir(dir.path().join("system-outputs/en-de")).unwrap();
    let told = run(&["meta", "--testset", &testset, "-l", "en-de"]).unwrap_err();
    assert!(told.contains("`system-outputs/en-de` holds nothing"), "{told}");
}

/// RATE's acc-t is over all pairs of translations, of different sources too, and its Meta the mean with it.
#[test]
fn the_acc_t_of_rate_is_the_authors_and_said_to_be() {
    let dir = testset();
    let asked = ["-l", "en-de", "--task", "rate"];
    let text = meta(dir.path(), &asked).unwrap();
    assert!(
        text.contains("neither it nor the average can be compared with anyone else's acc-t or Meta"),
        "{text}"
    );
    let json: Value =
        serde_json::from_str(&meta(dir.path(), &[&asked[..], &["--json"]].concat()).unwrap()).unwrap();
    let tasks = json["result"]["tasks"].as_array().unwrap();
    let counted: Vec<&Value> = tasks.iter().filter(|task| task["counted"] == true).collect();
    let names: Vec<&str> = counted.iter().map(|task| task["statistic"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "sys:accuracy",
            "sys:pearson",
            "sys:spearman",
            "seg:acc-eq@none",
            "seg:pearson@none",
            "seg:spearman@none"
        ]
    );
    assert_eq!(counted[3]["values"]["Good"]["Ok"]["n"], 1, "one group of nine translations");
    let values = counted.iter().map(|task| task["values"]["Good"]["Ok"]["value"].as_f64().unwrap());
    let mean = values.sum::<f64>() / 6.0;
    let average = json["result"]["average"].as_array().unwrap();
    let good = average.iter().find(|ranked| ranked["name"] == "Good").unwrap();
    assert!((good["value"].as_f64().unwrap() - mean).abs() < 1e-12);
    assert!(tasks.iter().any(|task| task["statistic"] == "seg:acc-eq@item" && task["counted"] == false));
}
