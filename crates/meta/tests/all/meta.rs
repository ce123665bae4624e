//! Meta-evaluation against values of scipy, numpy, sacreBLEU and mt-metrics-eval, and against the tables of
//! the papers. The real data are read from `TRIBUNAL_DATA`; without it those tests print so and pass.

use crate::real::{not_checked, published_data};

use std::collections::BTreeMap;

use serde_json::Value;
use tribunal_meta::agreement::Agreement;
use tribunal_meta::align::Aligned;
use tribunal_meta::annotators;
use tribunal_meta::average::{Coefficient, Grouping, average, groups, pearson_of_differences};
use tribunal_meta::contents::{Contents, Counts};
use tribunal_meta::correlation::{Correlation, Undefined, kendall_b, kendall_c, pearson, spearman};
use tribunal_meta::eval_set::EvalSet;
use tribunal_meta::evaluate::{self, SetResult};
use tribunal_meta::lexical::{Bleu, Chrf, Tokenizer};
use tribunal_meta::pairs::kendall_like;
use tribunal_meta::probability::student_t_tail;
use tribunal_meta::scores::{Scores, SystemScoreOrigin};
use tribunal_meta::selection::{Brought, Selection};
use tribunal_meta::significance::Resampling;
use tribunal_meta::spa::{Signs, soft_pairwise_accuracy};
use tribunal_meta::suspect;
use tribunal_meta::task::TaskSet;
use tribunal_meta::temperature::temperature;
use tribunal_meta::ties::TieTable;

fn golden() -> Value {
    serde_json::from_str(include_str!("../../../../tests/golden/meta.json")).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

pub fn close(found: f64, expected: f64, tolerance: f64, reason: &str) {
    assert!((found - expected).abs() <= tolerance, "{reason}: {found} is not {expected}");
}

#[test]
fn correlations_equal_scipy() {
    type Function = fn(&[f64], &[f64]) -> Result<Correlation, Undefined>;
    let functions: [(&str, Function); 4] =
        [("pearson", pearson), ("spearman", spearman), ("kendall_b", kendall_b), ("kendall_c", kendall_c)];
    for case in golden()["correlations"].as_array().unwrap() {
        let (gold, metric) = (numbers(&case["gold"]), numbers(&case["metric"]));
        for (name, function) in functions {
            let found = function(&gold, &metric).unwrap();
            let expected = numbers(&case[name]);
            let reason = format!("{name} of {} values", gold.len());
            close(found.value, expected[0], 1e-12, &reason);
            // A correlation of one up to rounding leaves a p-value of the rounding's size.
            close(found.p, expected[1], 1e-7, &reason);
        }
    }
}

#[test]
fn temperatures_of_score_heads_equal_scipy() {
    let golden = golden();
    let cases = golden["temperatures"].as_array().unwrap();
    assert_eq!(cases.len(), 5);
    for case in cases {
        let expected = case["temperature"].as_f64().unwrap();
        close(temperature(&numbers(&case["outputs"])).unwrap(), expected, 1e-12, "temperature");
    }
    assert_eq!(temperature(&[1.0]), Err(Undefined::TooFew));
    assert_eq!(temperature(&[1.0; 9]), Err(Undefined::ConstantMetric));
}

/// `REMEDY` names a clone of <https://github.com/Smu-Tan/Remedy> at 6f1519c.
#[test]
fn temperatures_of_score_heads_are_those_published() {
    let Some(clone) = std::env::var_os("REMEDY").map(std::path::PathBuf::from) else { return };
    let published = [
        ("DA", "cs-uk", "refA", 1.5),
        ("DA", "de-en", "refA", 1.2),
        ("DA", "en-cs", "refA", 1.5),
        ("DA", "en-de", "refA", 1.5),
        ("DA", "en-ja", "refA", 1.2),
        ("DA", "en-zh", "refA", 0.35),
        ("DA", "ja-en", "refA", 1.2),
        ("DA", "zh-en", "refA", 1.2),
        ("MQM", "he-en", "refB", 1.2),
    ];
    for (set, lp, reference, expected) in published {
        let outputs = |name: &str| -> Vec<f64> {
            let file = clone.join(format!("wmt/wmt23/{set}/{name}/{lp}/REMEDY-9b-{reference}.seg.score"));
            let text = std::fs::read_to_string(file).unwrap();
            text.lines().map(|line| line.split_whitespace().nth(1).unwrap().parse().unwrap()).collect()
        };
        let raw = outputs("REMEDY-9b");
        close(temperature(&raw).unwrap(), expected, 1e-12, lp);
        for (raw, calibrated) in raw.iter().zip(outputs("REMEDY-9b-calibration")) {
            close(1.0 / (1.0 + (-raw / expected).exp()), calibrated, 1e-12, lp);
        }
    }
}

#[test]
fn student_tails_equal_scipy() {
    for case in golden()["student_t_tails"].as_array().unwrap() {
        let [t, dof, expected] = numbers(case)[..] else { panic!("not a triple") };
        close(student_t_tail(t, dof), expected, 1e-12, &format!("t({t}, {dof})"));
    }
}

#[test]
fn p_values_of_soft_accuracy_equal_numpy_bit_for_bit() {
    let golden = &golden()["soft"];
    let rows: Vec<Vec<f64>> = golden["scores"].as_array().unwrap().iter().map(numbers).collect();
    let scores: Vec<f32> = rows.iter().flatten().map(|x| *x as f32).collect();
    assert_eq!(Signs::new(rows[0].len()).p_values(&scores, rows.len()), numbers(&golden["p_values"]));
}

#[test]
fn lexical_scores_equal_sacrebleu() {
    let golden = &golden()["lexical"];
    let texts = |key: &str| -> Vec<String> {
        golden[key].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let (hypotheses, references) = (texts("hypotheses"), texts("references"));
    let pairs = || hypotheses.iter().map(String::as_str).zip(references.iter().map(String::as_str));
    for (name, expected) in golden["bleu"].as_object().unwrap() {
        let bleu = Bleu(Tokenizer::named(name).unwrap());
        for (text, tokens) in hypotheses.iter().zip(expected["tokens"].as_array().unwrap()) {
            assert_eq!(bleu.0.apply(text), tokens.as_str().unwrap(), "{name}");
        }
        close(bleu.corpus(pairs()), expected["corpus"].as_f64().unwrap(), 1e-9, name);
        for ((hypothesis, reference), expected) in pairs().zip(numbers(&expected["sentences"])) {
            close(bleu.sentence(hypothesis, reference), expected, 1e-9, hypothesis);
        }
    }
    for (name, word_order) in [("chrF2", 0), ("chrF2++", 2)] {
        let chrf = Chrf { word_order };
        let expected = &golden["chrf"][name];
        close(chrf.corpus(pairs()), expected["corpus"].as_f64().unwrap(), 1e-9, name);
        for ((hypothesis, reference), expected) in pairs().zip(numbers(&expected["sentences"])) {
            close(chrf.sentence(hypothesis, reference), expected, 1e-9, hypothesis);
        }
    }
}

/// Check values that mt-metrics-eval computed on five systems and seven segments, beside the data.
fn reference_values() -> Option<(Value, Aligned)> {
    let path = published_data()?.join("../fixtures/mtme_fixture.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        not_checked("there are no reference values of mt-metrics-eval beside TRIBUNAL_DATA");
        return None;
    };
    let values: Value = serde_json::from_str(&text).unwrap();
    let cells = |key: &str| -> Vec<Option<f64>> {
        let rows = values["input"][key].as_array().unwrap();
        rows.iter().flat_map(|row| row.as_array().unwrap()).map(Value::as_f64).collect()
    };
    let systems = (0..5).map(|system| format!("s{system}")).collect();
    let scores = Aligned { systems, n_segments: 7, gold: cells("gold"), metric: cells("metric") };
    Some((values, scores))
}

#[test]
fn averaged_coefficients_equal_mt_metrics_eval() {
    let Some((values, scores)) = reference_values() else { return };
    let coefficients = [
        ("pearson", Coefficient::Pearson),
        ("spearman", Coefficient::Spearman),
        ("kendall_b", Coefficient::KendallB),
        ("kendall_c", Coefficient::KendallC),
        ("KendallVariants.b", Coefficient::KendallB),
        ("KendallVariants.23", Coefficient::Tau23 { epsilon: 0.0 }),
        ("KendallVariants.acc23", Coefficient::Acc23 { epsilon: 0.0 }),
        ("KendallVariants.acc23.eps10", Coefficient::Acc23 { epsilon: 10.0 }),
    ];
    for (grouping, by) in [(Grouping::None, "none"), (Grouping::Sys, "sys"), (Grouping::Item, "item")] {
        for (name, coefficient) in coefficients {
            let reason = format!("{name}.{by}");
            let expected = numbers(&values[&reason]);
            let found = average(&scores, grouping, coefficient).unwrap();
            close(found.value, expected[0], 1e-12, &reason);
            close(found.n_groups as f64, expected[2], 0.0, &reason);
            if !name.starts_with("KendallVariants") {
                // A row whose correlation rounds to one leaves a p-value of the rounding's size there.
                close(found.p.unwrap(), expected[1], 1e-7, &reason);
            }
        }
        let table = TieTable::new(&scores, grouping);
        let fit = table.calibrate(&table.whole()).unwrap();
        close(fit.accuracy, values[format!("TiesOpt.acc23.{by}")]["tau"].as_f64().unwrap(), 1e-9, by);
        close(fit.epsilon, values[format!("TiesOpt.acc23.{by}")]["eps"].as_f64().unwrap(), 0.0, by);
        close(fit.tau(), values[format!("TiesOpt.23.{by}")]["tau"].as_f64().unwrap(), 1e-9, by);
        close(fit.epsilon, values[format!("TiesOpt.23.{by}")]["eps"].as_f64().unwrap(), 0.0, by);
    }
}

#[test]
fn the_other_statistics_equal_mt_metrics_eval() {
    let Some((values, scores)) = reference_values() else { return };
    let differences = pearson_of_differences(&scores).unwrap();
    let expected = numbers(&values["pearson_pdp.item"]);
    close(differences.value, expected[0], 1e-12, "pdp");
    close(differences.p.unwrap(), expected[1], 1e-9 * expected[1], "pdp p");
    // Recorded under the name of threshold 25, but the value is the one that leaves out the gold ties alone.
    let (value, pairs) = kendall_like(&groups(&scores, Grouping::Item), 1.0).unwrap();
    let expected = numbers(&values["kendall_like25.item"]);
    close(value, expected[0], 1e-12, "Kendall-like");
    close(pairs as f64, expected[2], 0.0, "Kendall-like pairs");
    let means = scores.system_means();
    let agreement = Agreement::from_systems(&means);
    assert_eq!(agreement.pairs, values["sys_pairwise_accuracy"]["pairs"].as_u64().unwrap());
    let soft = soft_pairwise_accuracy(&scores).unwrap();
    assert_eq!(
        (soft.n_segments, soft.n_dropped),
        (5, 2),
        "segments that a system lacks are dropped, not shifted"
    );
    let filled = Aligned { gold: scores.gold.iter().map(|g| g.or(Some(0.0))).collect(), ..scores };
    close(
        soft_pairwise_accuracy(&filled).unwrap().value,
        values["SPA.none_as_0"].as_f64().unwrap(),
        1e-9,
        "SPA",
    );
}

pub fn eval_set(lp: &str, scores: &[(&str, &str)]) -> Option<EvalSet> {
    let testset = published_data()?.join("wmt23");
    let bring = |(name, pattern): &(&str, &str)| Brought {
        verdicts: None,
        name: (*name).to_owned(),
        pattern: testset.join(pattern).display().to_string(),
        negate: false,
    };
    let selection = Selection {
        gold: "mqm".parse().unwrap(),
        brought: scores.iter().map(bring).collect(),
        ..Selection::default()
    };
    Some(EvalSet::load(&testset, lp, &selection).unwrap())
}

fn value(result: &SetResult, pairs: &str, statistic: &str, metric: &str) -> f64 {
    let task = result.tasks.iter().find(|task| task.pairs.join("+") == pairs && task.statistic == statistic);
    task.unwrap_or_else(|| panic!("no {statistic} on {pairs}")).values[metric].unwrap().value
}

/// M-MAD, Table 2: Meta, then accuracy, Pearson, acc-t and segment Pearson on zh-en and on en-de. One cell is
/// not the printed one: XCOMET-Ensemble's last is printed 0.675, and its Meta only agrees with 0.695.
const MMAD_TABLE_2: [(&str, [f64; 9]); 14] = [
    ("chrF", [0.695, 0.762, 0.809, 0.485, 0.063, 0.818, 0.866, 0.519, 0.232]),
    ("BLEU", [0.703, 0.781, 0.734, 0.472, 0.119, 0.894, 0.917, 0.520, 0.192]),
    ("BERTscore", [0.736, 0.857, 0.810, 0.499, 0.236, 0.879, 0.891, 0.528, 0.325]),
    ("MaTESe", [0.778, 0.914, 0.889, 0.479, 0.511, 0.848, 0.918, 0.528, 0.554]),
    ("COMET", [0.781, 0.857, 0.898, 0.514, 0.396, 0.970, 0.990, 0.574, 0.432]),
    ("BLEURT-20", [0.782, 0.857, 0.880, 0.518, 0.378, 0.970, 0.990, 0.572, 0.484]),
    ("MetricX-23", [0.808, 0.895, 0.873, 0.531, 0.625, 0.909, 0.977, 0.603, 0.585]),
    ("XCOMET-Ensemble", [0.826, 0.905, 0.927, 0.543, 0.650, 0.939, 0.980, 0.604, 0.695]),
    ("CometKiwi", [0.793, 0.876, 0.963, 0.525, 0.442, 0.985, 0.946, 0.569, 0.475]),
    ("MetricX-23-QE", [0.806, 0.867, 0.859, 0.527, 0.647, 0.924, 0.969, 0.596, 0.626]),
    ("XCOMET-QE-Ensemble", [0.818, 0.886, 0.892, 0.533, 0.647, 0.955, 0.974, 0.588, 0.679]),
    ("EAPrompt", [0.772, 0.876, 0.907, 0.452, 0.516, 0.939, 0.962, 0.471, 0.520]),
    ("GEMBA-MQM", [0.784, 0.933, 0.986, 0.472, 0.475, 0.970, 0.973, 0.474, 0.429]),
    ("M-MAD", [0.814, 0.933, 0.987, 0.517, 0.577, 0.970, 0.979, 0.555, 0.552]),
];

#[test]
fn table_2_of_m_mad_is_reproduced() {
    let scores = [
        ("M-MAD", "m-mad-scores/M-MAD_{lp}.{level}.score"),
        ("EAPrompt", "m-mad-scores/EAPrompt_{lp}.{level}.score"),
        ("GEMBA-MQM", "m-mad-scores/GEMBA-MQM_{lp}.{level}.score"),
    ];
    let Some(en_de) = eval_set("en-de", &scores) else { return };
    let zh_en = eval_set("zh-en", &scores).unwrap();
    let set = TaskSet::named("mmad", &["en-de".to_owned(), "zh-en".to_owned()]).unwrap();
    let result = evaluate::run(&set, &[en_de, zh_en], None).unwrap();
    for (metric, printed) in MMAD_TABLE_2 {
        let average = result.average.iter().find(|ranked| ranked.name == metric).unwrap().value;
        close(average, printed[0], 0.0005, &format!("{metric} Meta"));
        for (pair, cells) in ["zh-en", "en-de"].iter().zip(printed[1..].chunks(4)) {
            let statistics = ["sys:accuracy", "sys:pearson", "seg:acc-eq@item", "seg:pearson@none"];
            for (statistic, printed) in statistics.iter().zip(cells) {
                let found = value(&result, pair, statistic, metric);
                close(found, *printed, 0.000_501, &format!("{metric} {pair} {statistic}"));
            }
        }
    }
}

#[test]
fn table_6_of_m_mad_maps_pearson_before_it_averages() {
    let scores = [("M-MAD", "m-mad-scores/M-MAD_{lp}.{level}.score")];
    let Some(zh_en) = eval_set("zh-en", &scores) else { return };
    let set = TaskSet::named("mmad", &["zh-en".to_owned()]).unwrap();
    let result = evaluate::run(&set, &[zh_en], None).unwrap();
    let meta = result.average.iter().find(|ranked| ranked.name == "M-MAD").unwrap().value;
    close(meta, 0.808, 0.0005, "Meta");
}

#[test]
fn table_5_of_rate_is_reproduced() {
    let Some(en_de) = eval_set("en-de", &[("RATE", "rate-scores/rate-src.{level}.score")]) else { return };
    let set = TaskSet::named("rate", &["en-de".to_owned()]).unwrap();
    let result = evaluate::run(&set, &[en_de], None).unwrap();
    for (statistic, printed) in
        [("sys:accuracy", 98.5), ("sys:pearson", 99.0), ("seg:acc-eq@item", 52.3), ("seg:pearson@none", 38.9)]
    {
        close(100.0 * value(&result, "en-de", statistic, "RATE"), printed, 0.0501, statistic);
    }
    // The acc-t of their Table 3 pairs translations of different sources.
    close(100.0 * value(&result, "en-de", "seg:acc-eq@none", "RATE"), 54.21, 0.01, "as in Table 3");
}

#[test]
fn a_task_set_without_all_its_data_has_no_average() {
    let Some(en_de) = eval_set("en-de", &[]) else { return };
    let set = TaskSet::named("wmt23", &[]).unwrap();
    let result = evaluate::run(&set, &[en_de], None).unwrap();
    assert!(result.average.is_empty());
    assert!(result.missing.iter().any(|task| task == "sys:pearson he-en"), "{:?}", result.missing);
}

#[test]
fn bleu_and_chrf_of_the_shared_task_are_recomputed() {
    let Some(en_de) = eval_set("en-de", &[]) else { return };
    let references = en_de.testset.reference("refA").unwrap();
    for system in ["GPT4-5shot", "NLLB_Greedy"] {
        let outputs = en_de.testset.output(system).unwrap();
        for (name, score) in [
            ("BLEU", (|h: &str, r: &str| Bleu(Tokenizer::V13a).sentence(h, r)) as fn(&str, &str) -> f64),
            ("chrF", |h, r| Chrf::default().sentence(h, r)),
        ] {
            let recorded = &en_de.metric(name).unwrap().segments.as_ref().unwrap()[system];
            for (index, (output, reference)) in outputs.iter().zip(&references).enumerate() {
                let expected = recorded[index].unwrap();
                close(score(output, reference), expected, 1e-6, &format!("{name} {system} {index}"));
            }
        }
    }
}

#[test]
fn computed_baselines_equal_those_of_the_shared_task() {
    let Some(dir) = published_data() else { return };
    let selection = Selection {
        gold: "mqm".parse().unwrap(),
        metrics: vec!["BLEU".into(), "chrF".into()],
        lexical: ["bleu", "chrf"].map(|name| name.parse().unwrap()).to_vec(),
        ..Selection::default()
    };
    for lp in ["en-de", "zh-en"] {
        let eval_set = EvalSet::load(&dir.join("wmt23"), lp, &selection).unwrap();
        for (computed, recorded) in [("bleu:13a", "BLEU"), ("chrf", "chrF")] {
            let (computed, recorded) =
                (eval_set.metric(computed).unwrap(), eval_set.metric(recorded).unwrap());
            for system in &eval_set.machine {
                let (ours, theirs) = (computed.systems[system].unwrap(), recorded.systems[system].unwrap());
                close(ours, theirs, 1e-6, &format!("{} {lp} {system}", recorded.name));
            }
        }
    }
}

#[test]
fn human_scores_are_the_means_of_the_raters() {
    let Some(zh_en) = eval_set("zh-en", &[]) else { return };
    let systems: Vec<String> = zh_en.machine.iter().cloned().collect();
    let annotators = zh_en.gold_source.annotators(&zh_en.testset).unwrap();
    assert_eq!(annotators.len(), 8);
    let gold = zh_en.gold.segments.as_ref().unwrap();
    let mut rated = 0;
    for system in &systems {
        for (segment, gold) in gold[system].iter().enumerate() {
            let scores: Vec<f64> =
                annotators.iter().filter_map(|rater| rater.scores[system][segment]).collect();
            assert_eq!(gold.is_some(), !scores.is_empty(), "{system} {segment}");
            if let Some(gold) = gold {
                close(
                    scores.iter().sum::<f64>() / scores.len() as f64,
                    *gold,
                    1e-9,
                    &format!("{system} {segment}"),
                );
                rated += 1;
            }
        }
    }
    assert_eq!(rated, 17_655);
    // Eighteen segments went to all raters.
    let pairs = annotators::agreement(&annotators, &systems);
    assert!(pairs.len() == 28 && pairs.iter().all(|pair| pair.shared == 18));
}

/// M-MAD, Table 11, and FSP's Appendix B.3 (as far as the folder has its pairs: no he-en).
#[test]
fn contents_of_wmt23_are_those_of_the_papers() {
    let counts = |segments, documents, five_documents| Counts { segments, documents, five_documents };
    let mut rated = Counts::default();
    for (lp, segments, documents, systems, translated) in [
        ("en-de", 557, 192, 14, counts(7798, 192 * 14, 39 * 14)),
        ("zh-en", 1976, 179, 17, counts(33592, 179 * 17, 36 * 17)),
    ] {
        let Some(eval_set) = eval_set(lp, &[]) else { return };
        let rows = Contents::from_testset(&eval_set.testset, &eval_set.gold).unwrap();
        let [all, domains @ ..] = &rows[..] else { panic!("nothing of {lp}") };
        assert_eq!((all.segments, all.documents, all.systems.len()), (segments, documents, systems), "{lp}");
        assert_eq!(all.translated, translated, "{lp}");
        assert!(domains.len() > 2 && domains.iter().all(|row| row.domain.is_some()));
        let sum = |count: fn(&Contents) -> usize| domains.iter().map(count).sum::<usize>();
        assert_eq!((sum(|row| row.segments), sum(|row| row.rated.segments)), (segments, all.rated.segments));
        assert_eq!(sum(|row| row.rated_segments), all.rated_segments);
        rated.segments += all.rated.segments;
        rated.documents += all.rated.documents;
        rated.five_documents += all.rated.five_documents;
    }
    assert_eq!(rated, counts(24_812, 5334, 1066));
}

/// `tests/golden/pooled_significance.json`: accuracy pooled over two language pairs is tested on one
/// standardised vector.
#[test]
fn tests_of_pooled_accuracy_equal_those_of_mt_metrics_eval() {
    let golden: Value =
        serde_json::from_str(include_str!("../../../../tests/golden/pooled_significance.json")).unwrap();
    let (Some(en_de), Some(zh_en)) = (eval_set("en-de", &[]), eval_set("zh-en", &[])) else { return };
    let pairs = ["en-de", "zh-en"].map(str::to_owned);
    let mut set = TaskSet::named("mmad", &pairs).unwrap();
    set.tasks.truncate(1);
    set.beside.clear();
    let resampling = Resampling { resamples: 10_000, seed: 0 };
    let result = evaluate::run(&set, &[en_de, zh_en], Some(resampling)).unwrap();
    let found = result.tasks[0].contest.as_ref().unwrap().p_values();
    let plain = |name: &str| name.trim_end_matches("-refA").trim_end_matches("-src").to_owned();
    let found: BTreeMap<(String, String), f64> =
        found.into_iter().map(|((better, worse), p)| ((plain(&better), plain(&worse)), p)).collect();
    let (mut n, mut flipped) = (0, 0);
    for case in golden["comparisons"].as_array().unwrap() {
        let name = |key: &str| case[key].as_str().unwrap().to_owned();
        let [p, p_apart] = ["p", "p_apart"].map(|key| case[key].as_f64().unwrap());
        let ours = found[&(name("better"), name("worse"))];
        // Both are drawn: five deviations of the difference of two shares of 10,000.
        let noise = 5.0 * (2.0 * p * (1.0 - p) / 10_000.0).sqrt() + 5e-4;
        close(ours, p, noise, &format!("{} against {}", name("better"), name("worse")));
        n += 1;
        // Two are so near 0.05 that a draw decides.
        flipped += usize::from((ours <= 0.05) != (p_apart <= 0.05) && (p - 0.05).abs() > 0.01);
    }
    assert_eq!((n, flipped), (78, 11), "decisions that standardising each pair by itself turns");
}

#[test]
fn known_mistakes_are_recognised() {
    let scores =
        [("RATE", "rate-scores/rate-src.{level}.score"), ("M-MAD", "m-mad-scores/M-MAD_{lp}.{level}.score")];
    let Some(mut en_de) = eval_set("en-de", &scores) else { return };
    en_de.machine = ["AIRC", "GPT4-5shot", "NLLB_Greedy", "ONLINE-B"].map(str::to_owned).into();
    let flipped = en_de.metric("COMET").unwrap().clone().negated();
    en_de.metrics.push(Scores { name: "COMET-flipped".into(), ..flipped });
    let system_origin = SystemScoreOrigin::MeanOfSegments;
    let means = en_de.metric("M-MAD").unwrap().clone();
    en_de.metrics.push(Scores { name: "M-MAD-means".into(), system_origin, ..means });
    let mut uneven = Scores { name: "RATE-uneven".into(), ..en_de.metric("RATE").unwrap().clone() };
    let scored =
        uneven.segments.as_mut().unwrap().get_mut("AIRC").unwrap().iter_mut().find(|score| score.is_some());
    let lost = scored.unwrap().take().unwrap();
    *uneven.systems.get_mut("AIRC").unwrap().as_mut().unwrap() -= lost;
    en_de.metrics.push(uneven);
    let warnings = |name: &str| {
        let metric = en_de.metrics.iter().find(|metric| metric.name.starts_with(name)).unwrap();
        let found = suspect::suspicions(&en_de, metric).unwrap();
        found.into_iter().map(|found| found.message).collect::<Vec<_>>().join("\n")
    };
    assert!(warnings("COMET-flipped").contains("is lower better?"));
    assert!(warnings("RATE-uneven").contains("system scores are sums over"));
    assert!(warnings("M-MAD-means").contains("fillers, which the means of systems include"));
}

#[test]
fn significance_does_not_depend_on_the_number_of_threads() {
    let Some(en_de) = eval_set("en-de", &[]) else { return };
    let set = TaskSet::named("mmad", &["en-de".to_owned()]).unwrap();
    let resampling = Resampling { resamples: 100, seed: 11 };
    let eval_sets = [en_de];
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let result = pool.install(|| evaluate::run(&set, &eval_sets, Some(resampling)).unwrap());
        serde_json::to_string(&result).unwrap()
    };
    assert_eq!(on(1), on(2));
}
