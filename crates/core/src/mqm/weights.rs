//! Named presets of severity weights. They find no errors.
//!
//! Where the presets differ (penalties; lower is better):
//!
//! | preset | critical | major | minor | minor punctuation | non-translation | source error | cap | counted |
//! |---|---|---|---|---|---|---|---|---|
//! | `wmt` | 5 | 5 | 1 | 0.1 | 25 unless minor | by severity | none | all |
//! | `wmt-official` | 5 | 5 | 1 | 0.1 | 25 if major, else by severity | 0 | none | all |
//! | `gemba` | 25 | 5 | 1 | 1 | 25 | by severity | 25 | the five heaviest |
//! | `gemba-sum` | 25 | 5 | 1 | 1 | 25 | by severity | none | all |
//! | `mmad` | 5 | 5 | 1 | 0.1 | 25 | by severity | none | all |
//! | `mmad-paper` | 5 | 5 | 1 | 1 | by severity | by severity | none | all |
//! | `himate` | 5 | 5 | 1 | 0.1 | by severity | by severity | none | all |
//! | `marot` | 5 | 5 | 1 | 0.1 | 25 | 0 | none | all |
//! | `xcomet` | 10 | 5 | 1 | 1 | by severity | by severity | 25 | all |
//! | `rubric-mqm` | 25 | 5 | 1 | 0.1 (at any severity) | by severity | by severity | 25 | all |
//! | `mqm-ape` | 25 | 5 | 1 | 1 | by severity | by severity | 25 | all |
//! | `gemba-v2` | 25 | 5 | 1 | 0.1 | by severity | by severity | none | all |
//!
//! Neutral errors and the category `no-error` cost nothing anywhere.

use std::borrow::Cow;

use super::{Error, ErrorSpan, Severity, typology};

/// A table of penalties with the limits of its scale. Its name goes into the signature.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    pub name: Cow<'static, str>,
    /// Source of the numbers, and the additions of this project.
    pub source: &'static str,
    /// The first rule that fits an error gives its penalty; no rule, no penalty.
    rules: Cow<'static, [Rule]>,
    /// The penalty of one unit is never more than this.
    pub cap: Option<f64>,
    /// Only this many errors of one unit count, the heaviest ones.
    pub max_errors: Option<usize>,
}

/// One row of a table.
#[derive(Clone, Debug, PartialEq)]
struct Rule {
    /// `None` fits every severity.
    severity: Option<Severity>,
    category: Category,
    penalty: f64,
}

/// The categories that a rule applies to.
#[derive(Clone, Debug, PartialEq)]
enum Category {
    Any,
    /// This path or one below it.
    Path(&'static str),
    /// Any path with this word in it.
    Word(&'static str),
}

impl Category {
    fn fits(&self, category: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Path(path) => {
                category.strip_prefix(path).is_some_and(|below| below.is_empty() || below.starts_with('/'))
            }
            Self::Word(word) => category.contains(word),
        }
    }
}

const fn rule(severity: Severity, category: Category, penalty: f64) -> Rule {
    Rule { severity: Some(severity), category, penalty }
}

const fn always(category: Category, penalty: f64) -> Rule {
    Rule { severity: None, category, penalty }
}

use Category::{Any, Path, Word};
use Severity::{Critical, Major, Minor};

/// All presets.
pub const PRESETS: &[Weights] = &[
    Weights {
        name: Cow::Borrowed("wmt"),
        source: "defaults of mt-metrics-eval's score_mqm converter, where a severity that is not listed costs \
                 nothing; judges do call errors critical, so here they cost as much as major ones",
        rules: Cow::Borrowed(&[
            rule(Critical, Path("non-translation"), 25.0),
            rule(Critical, Any, 5.0),
            rule(Major, Path("non-translation"), 25.0),
            rule(Minor, Path("fluency/punctuation"), 0.1),
            rule(Major, Any, 5.0),
            rule(Minor, Any, 1.0),
        ]),
        cap: None,
        max_errors: None,
    },
    Weights {
        name: Cow::Borrowed("wmt-official"),
        source: "the converter's defaults with the changes that a third party reports as needed to match \
                 WMT's official scores: critical 5, source errors and reinterpretation 0, any minor punctuation 0.1",
        rules: Cow::Borrowed(&[
            always(Path("source error"), 0.0),
            always(Word("reinterpretation"), 0.0),
            rule(Major, Path("non-translation"), 25.0),
            rule(Minor, Word("punctuation"), 0.1),
            rule(Critical, Any, 5.0),
            rule(Major, Any, 5.0),
            rule(Minor, Any, 1.0),
        ]),
        cap: None,
        max_errors: None,
    },
    Weights {
        name: Cow::Borrowed("gemba"),
        source: "GEMBA-MQM's scoring: a non-translation is critical whatever its block; the first five errors \
                 count, worst block first; at most 25",
        rules: Cow::Borrowed(&[
            always(Path("non-translation"), 25.0),
            rule(Critical, Any, 25.0),
            rule(Major, Any, 5.0),
            rule(Minor, Any, 1.0),
        ]),
        cap: Some(25.0),
        max_errors: Some(5),
    },
    Weights {
        name: Cow::Borrowed("gemba-sum"),
        source: "GEMBA-MQM's penalties, summed without its limits: for runs at document granularity, where five \
                 errors and 25 points are soon reached; which sum FSP means is ours to say",
        rules: Cow::Borrowed(&[
            always(Path("non-translation"), 25.0),
            rule(Critical, Any, 25.0),
            rule(Major, Any, 5.0),
            rule(Minor, Any, 1.0),
        ]),
        cap: None,
        max_errors: None,
    },
    Weights {
        name: Cow::Borrowed("mmad"),
        source: "M-MAD section 3.3 (5 and 1); its released scores prove 0.1 for punctuation and no cap; 25 for \
                 non-translation is WMT's and critical as major is ours: its agents name no critical errors",
        rules: Cow::Borrowed(&[
            always(Path("non-translation"), 25.0),
            rule(Minor, Path("fluency/punctuation"), 0.1),
            rule(Critical, Any, 5.0),
            rule(Major, Any, 5.0),
            rule(Minor, Any, 1.0),
        ]),
        cap: None,
        max_errors: None,
    },
    Weights {
        name: Cow::Borrowed("mmad-paper"),
        source: "M-MAD, Equation 1 as printed: 5 for each major and 1 for each minor error, whatever its category; \
                 critical as major is ours",
        rules: Cow::Borrowed(&[rule(Critical, Any, 5.0), rule(Major, Any, 5.0), rule(Minor, Any, 1.0)]),
        cap: None,
        max_errors: None,
    },
    Weights {
        name: Cow::Borrowed("himate"),
        source: "HiMATE Table 6, which has no non-translation; critical as major is ours",
        rules: Cow::Borrowed(&[
            rule(Minor, Path("fluency/punctuation"), 0.1),
            rule(Critical, Any, 5.0),
            rule(Major, Any, 5.0),
            rule(Minor, Any, 1.0),
        ]),
        cap: None,
        max_errors: None,
    },
    Weights {
        name: Cow::Borrowed("marot"),
        source: "Marot's default table, in its order: the first pattern that fits severity and category",
        rules: Cow::Borrowed(&[
            rule(Minor, Word("punctuation"), 0.1),
            rule(Minor, Word("trivial"), 0.1),
            always(Word("reinterpretation"), 0.0),
            always(Path("source error"), 0.0),
            always(Word("non-translation"), 25.0),
            rule(Minor, Any, 1.0),
            rule(Major, Any, 5.0),
            rule(Critical, Any, 5.0),
        ]),
        cap: None,
        max_errors: None,
    },
    Weights {
        name: Cow::Borrowed("xcomet"),
        source: "xCOMET's score from its spans: 1, 5, 10, at most 25",
        rules: Cow::Borrowed(&[rule(Critical, Any, 10.0), rule(Major, Any, 5.0), rule(Minor, Any, 1.0)]),
        cap: Some(25.0),
        max_errors: None,
    },
    Weights {
        name: Cow::Borrowed("rubric-mqm"),
        source: "the baseline parser of Rubric-MQM's code, before its division by 100",
        rules: Cow::Borrowed(&[
            always(Word("punctuation"), 0.1),
            rule(Critical, Any, 25.0),
            rule(Major, Any, 5.0),
            rule(Minor, Any, 1.0),
        ]),
        cap: Some(25.0),
        max_errors: None,
    },
    Weights {
        name: Cow::Borrowed("mqm-ape"),
        source: "MQM-APE's scorer: 25, 5 and 1, at most 25",
        rules: Cow::Borrowed(&[rule(Critical, Any, 25.0), rule(Major, Any, 5.0), rule(Minor, Any, 1.0)]),
        cap: Some(25.0),
        max_errors: None,
    },
    Weights {
        name: Cow::Borrowed("gemba-v2"),
        source: "GEMBA-MQM V2 (Junczys-Dowmunt, WMT 2025): 25, 5 and 1, and 0.1 for minor punctuation, without a cap",
        rules: Cow::Borrowed(&[
            rule(Minor, Path("fluency/punctuation"), 0.1),
            rule(Critical, Any, 25.0),
            rule(Major, Any, 5.0),
            rule(Minor, Any, 1.0),
        ]),
        cap: None,
        max_errors: None,
    },
];

/// The preset of this name.
///
/// # Errors
/// [`Error::Weights`] when there is none; the message lists those that exist.
pub fn find(name: &str) -> Result<&'static Weights, Error> {
    PRESETS.iter().find(|w| w.name == name).ok_or_else(|| Error::Weights { name: name.into() })
}

/// The weights of a name in a signature: a preset, or the table of a method in a file
/// ([`Weights::by_severity`]).
///
/// # Errors
/// [`Error::Weights`] for any other text.
///
/// ```
/// use tribunal_core::mqm::{Severity, weights::{Weights, signed}};
/// let own = Weights::by_severity([10.0, 5.0, 0.5], Some(25.0)).unwrap();
/// assert_eq!(own.name, "10/5/0.5/25");
/// assert_eq!(*signed("10/5/0.5/25").unwrap(), own);
/// assert_eq!(own.penalty(Severity::Minor, "style/awkward"), 0.5);
/// assert!(signed("10/5").is_err() && signed("0/0/0").is_err());
/// ```
pub fn signed(name: &str) -> Result<Cow<'static, Weights>, Error> {
    let numbers: Option<Vec<f64>> = name.split('/').map(|number| number.parse().ok()).collect();
    let weights = match numbers.as_deref() {
        Some(&[critical, major, minor]) => Weights::by_severity([critical, major, minor], None),
        Some(&[critical, major, minor, cap]) => Weights::by_severity([critical, major, minor], Some(cap)),
        _ => return find(name).map(Cow::Borrowed),
    };
    weights.map(Cow::Owned).ok_or_else(|| Error::Weights { name: name.into() })
}

/// The preset with the same penalties that does not saturate on longer texts; itself where it has no limits
/// or no such sibling.
pub fn for_documents(name: &str) -> &str {
    if name == "gemba" { "gemba-sum" } else { name }
}

/// The names of all presets, with commas.
pub fn names() -> String {
    PRESETS.iter().map(|w| &*w.name).collect::<Vec<_>>().join(", ")
}

impl Weights {
    /// Penalties of critical, major and minor errors of any category, named `CRITICAL/MAJOR/MINOR`, with
    /// `/CAP` where there is one. `None` unless they are finite, at least 0 and in this order, the highest
    /// and the cap above 0: a translation without errors is then better than no translation.
    ///
    /// ```
    /// use tribunal_core::mqm::weights::Weights;
    /// assert!(Weights::by_severity([5.0, 0.0, 0.0], None).is_some());
    /// for penalties in [[0.0, 0.0, 0.0], [5.0, 6.0, 1.0], [5.0, 1.0, 2.0], [5.0, 1.0, -1.0]] {
    ///     assert!(Weights::by_severity(penalties, None).is_none());
    /// }
    /// assert!(Weights::by_severity([5.0, 5.0, 1.0], Some(0.0)).is_none());
    /// ```
    pub fn by_severity(penalties: [f64; 3], cap: Option<f64>) -> Option<Self> {
        let [critical, major, minor] = penalties;
        let is_scale = critical > 0.0 && critical >= major && major >= minor && minor >= 0.0;
        let is_finite = critical.is_finite() && cap.is_none_or(|cap| cap > 0.0 && cap.is_finite());
        let names: Vec<String> = penalties.iter().chain(&cap).map(ToString::to_string).collect();
        let rules = [Critical, Major, Minor].into_iter().zip(penalties);
        (is_scale && is_finite).then(|| Self {
            name: names.join("/").into(),
            source: "the file of its method",
            rules: rules.map(|(severity, penalty)| rule(severity, Any, penalty)).collect(),
            cap,
            max_errors: None,
        })
    }

    /// The penalty of one error. Unit: 0 or more, lower is better.
    ///
    /// ```
    /// use tribunal_core::mqm::{Severity::*, weights::find};
    /// let wmt = find("wmt").unwrap();
    /// assert_eq!(wmt.penalty(Major, "accuracy/omission"), 5.0);
    /// assert_eq!(wmt.penalty(Minor, "Fluency/Punctuation"), 0.1);
    /// assert_eq!(wmt.penalty(Major, "Non-translation!"), 25.0);
    /// assert_eq!(wmt.penalty(Critical, "accuracy/omission"), 5.0);
    /// assert_eq!(find("gemba").unwrap().penalty(Critical, "accuracy/omission"), 25.0);
    /// ```
    pub fn penalty(&self, severity: Severity, category: &str) -> f64 {
        let category = typology::normalise(category);
        if severity == Severity::Neutral || category == "no-error" {
            return 0.0;
        }
        let fits = |r: &&Rule| r.severity.is_none_or(|s| s == severity) && r.category.fits(&category);
        self.rules.iter().find(fits).map_or(0.0, |r| r.penalty)
    }

    /// The penalty of a unit that is no translation: the cap, or that of a critical non-translation, but at
    /// least that of five major errors, which WMT's 25 is.
    pub fn non_translation(&self) -> f64 {
        let five_majors = 5.0 * self.penalty(Severity::Major, "other");
        let penalty = self.penalty(Severity::Critical, "non-translation").max(five_majors);
        self.cap.unwrap_or(penalty)
    }

    /// Writes each error's penalty into it.
    pub fn weigh(&self, errors: &mut [ErrorSpan]) {
        for error in errors {
            error.weight = self.penalty(error.severity, &error.category);
        }
    }

    /// Sets the penalties of the errors.
    pub fn weighed(&self, mut errors: Vec<ErrorSpan>) -> Vec<ErrorSpan> {
        self.weigh(&mut errors);
        errors
    }

    /// The score of weighed errors: the negative penalty of the heaviest `max_errors`, not below `-cap`.
    ///
    /// Unit: at most 0; 0 is best, higher is better.
    ///
    /// ```
    /// use tribunal_core::mqm::{ErrorSpan, Severity, weights::find};
    /// let mut six_minors = vec![ErrorSpan::new("fluency/grammar", "x", Severity::Minor); 6];
    /// for (name, score) in [("gemba", -5.0), ("wmt", -6.0)] {
    ///     let weights = find(name).unwrap();
    ///     weights.weigh(&mut six_minors);
    ///     assert_eq!(weights.score(&six_minors), score);
    /// }
    /// ```
    pub fn score(&self, errors: &[ErrorSpan]) -> f64 {
        let mut penalties: Vec<f64> = errors.iter().map(|e| e.weight).collect();
        penalties.sort_by(|a, b| b.total_cmp(a));
        penalties.truncate(self.max_errors.unwrap_or(usize::MAX));
        let penalty: f64 = penalties.iter().sum();
        // Not `-penalty`: no errors score 0, not -0.
        0.0 - self.cap.map_or(penalty, |cap| penalty.min(cap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(preset: &str, errors: &[(Severity, &str)], expected: f64) {
        let weights = find(preset).unwrap();
        let mut errors: Vec<_> = errors.iter().map(|(s, c)| ErrorSpan::new(c, "", *s)).collect();
        weights.weigh(&mut errors);
        let score = weights.score(&errors);
        assert!((score - expected).abs() < 1e-12, "{preset}: {score}, not {expected}");
        errors.reverse();
        assert_eq!(weights.score(&errors).to_bits(), score.to_bits(), "the order of errors is of no matter");
    }

    #[test]
    fn the_table_of_conflicts() {
        use Severity::Neutral;
        let rows: &[(&str, [f64; 8])] = &[
            // critical, major, minor, punctuation, major and minor non-translation, source error, neutral
            ("wmt", [5.0, 5.0, 1.0, 0.1, 25.0, 1.0, 5.0, 0.0]),
            ("wmt-official", [5.0, 5.0, 1.0, 0.1, 25.0, 1.0, 0.0, 0.0]),
            ("gemba", [25.0, 5.0, 1.0, 1.0, 25.0, 25.0, 5.0, 0.0]),
            ("gemba-sum", [25.0, 5.0, 1.0, 1.0, 25.0, 25.0, 5.0, 0.0]),
            ("mmad", [5.0, 5.0, 1.0, 0.1, 25.0, 25.0, 5.0, 0.0]),
            ("mmad-paper", [5.0, 5.0, 1.0, 1.0, 5.0, 1.0, 5.0, 0.0]),
            ("himate", [5.0, 5.0, 1.0, 0.1, 5.0, 1.0, 5.0, 0.0]),
            ("marot", [5.0, 5.0, 1.0, 0.1, 25.0, 25.0, 0.0, 0.0]),
            ("xcomet", [10.0, 5.0, 1.0, 1.0, 5.0, 1.0, 5.0, 0.0]),
            ("rubric-mqm", [25.0, 5.0, 1.0, 0.1, 5.0, 1.0, 5.0, 0.0]),
            ("mqm-ape", [25.0, 5.0, 1.0, 1.0, 5.0, 1.0, 5.0, 0.0]),
            ("gemba-v2", [25.0, 5.0, 1.0, 0.1, 5.0, 1.0, 5.0, 0.0]),
        ];
        let errors = [
            (Critical, "accuracy/omission"),
            (Major, "accuracy/omission"),
            (Minor, "accuracy/omission"),
            (Minor, "fluency/punctuation"),
            (Major, "non-translation"),
            (Minor, "non-translation"),
            (Major, "source error"),
            (Neutral, "style/awkward"),
        ];
        assert_eq!(rows.len(), PRESETS.len(), "every preset has its row");
        for (preset, penalties) in rows {
            for (error, penalty) in errors.iter().zip(penalties) {
                check(preset, &[*error], -penalty);
            }
        }
    }

    #[test]
    fn caps_and_the_five_error_rule() {
        check("gemba", &[], 0.0);
        check("gemba", &[(Critical, "other"), (Major, "other")], -25.0);
        check("gemba", &[(Minor, "other"); 6], -5.0);
        // The five heaviest count, wherever they stand.
        let mut errors = vec![(Minor, "other"); 5];
        errors.push((Major, "other"));
        check("gemba", &errors, -9.0);
        check("gemba-sum", &errors, -10.0);
        check("xcomet", &[(Critical, "other"); 3], -25.0);
        check("wmt", &[(Major, "other"); 11], -55.0);
    }

    #[test]
    fn an_unknown_preset_lists_the_known() {
        let message = find("wtm").unwrap_err().to_string();
        assert_eq!(
            message,
            "unknown weight preset `wtm`; hint: it can be wmt, wmt-official, gemba, gemba-sum, mmad, mmad-paper, \
             himate, marot, xcomet, rubric-mqm, mqm-ape, gemba-v2"
        );
    }
}
