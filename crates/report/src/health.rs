//! Health checks in a text report: one line of shares, and a warning about degenerate output. The checks and
//! their thresholds are in `run/health`.

use std::fmt::Write;

use crate::{
    run::health::{Example, Finding, HealthCheck},
    segment::numbered,
};

/// The shares of a run in one line; `None` when nothing was found.
pub fn shares(findings: &[Finding]) -> Option<String> {
    let found = findings.iter().filter(|finding| finding.found > 0 && !is_of_one(finding));
    let parts: Vec<String> = found.map(|f| format!("{} {}", percent(f), short(f))).collect();
    (!parts.is_empty()).then(|| format!("verdicts: {}", parts.join(", ")))
}

/// Warning about the scores, and remedies; `None` when nothing is suspicious.
pub fn warning(findings: &[Finding]) -> Option<String> {
    let suspicious: Vec<&Finding> = findings.iter().filter(|finding| finding.warning).collect();
    if suspicious.is_empty() {
        return None;
    }
    let mut out =
        "warning: the output looks degenerate; read some answers before you use these scores\n".to_owned();
    for finding in &suspicious {
        let _ = write!(out, "  {} of {} {}", finding.found, finding.of, long(finding));
        if let Some(Example { system, doc, seg, text }) = &finding.example {
            let doc = if doc.is_empty() { String::new() } else { format!(", document {doc}") };
            let seg = seg.map_or_else(String::new, |seg| format!(", {}", numbered(seg)));
            let _ = write!(out, ", as in {system}{doc}{seg}: {}", text.replace('\n', " "));
        }
        out.push('\n');
    }
    let mut advice: Vec<&str> = suspicious.iter().map(|finding| advice(finding.check)).collect();
    advice.sort_unstable();
    advice.dedup();
    let _ = write!(
        out,
        "hint: try another model, above all a larger one{}; `tribunal show DIR SEGMENT` prints what the judge was \
         asked and said",
        advice.concat()
    );
    Some(out)
}

/// Note on verdicts nearly all of which are the best that the method has; `None` for others.
pub fn note(findings: &[Finding]) -> Option<String> {
    let clean = findings.iter().rfind(|finding| finding.is_clean())?;
    Some(format!(
        "{} of {} {}: the translations are good, or the judge misses their errors\nhint: judge some of them again with an \
         error put in",
        clean.found,
        clean.of,
        long(clean)
    ))
}

/// Returns true for a value that a single verdict of many has: nothing is alike there.
fn is_of_one(finding: &Finding) -> bool {
    let is_value =
        matches!(finding.check, HealthCheck::SameScore | HealthCheck::SameQuality | HealthCheck::SameCount);
    is_value && finding.found == 1 && finding.of > 1
}

fn percent(finding: &Finding) -> String {
    format!("{:.0}%", 100.0 * finding.share())
}

fn value(finding: &Finding) -> f64 {
    (finding.value.unwrap_or(0.0) * 100.0).round() / 100.0
}

fn errors(n: f64) -> String {
    format!("{n} error{}", if n > 1.0 { "s" } else { "" })
}

fn short(finding: &Finding) -> String {
    let value = value(finding);
    match finding.check {
        HealthCheck::SameScore => format!("with the score {value}"),
        HealthCheck::SameQuality => format!("with the quality {value}"),
        HealthCheck::NoError => "without errors".into(),
        HealthCheck::SameCount => format!("with {}", errors(value)),
        HealthCheck::Contradiction => "with contradictory quality".into(),
        HealthCheck::OddSpan => "of spans are a single letter or part of a word".into(),
        HealthCheck::RepeatedError => "of errors are named twice".into(),
        HealthCheck::CopiedExplanation => "of explanations are copied from the prompt".into(),
        HealthCheck::ForeignLanguage => "of explanations are about another language".into(),
    }
}

fn long(finding: &Finding) -> String {
    let value = value(finding);
    match finding.check {
        HealthCheck::SameScore => format!("verdicts have the score {value}"),
        HealthCheck::SameQuality => format!("verdicts have the quality {value}"),
        HealthCheck::NoError => "verdicts name no error".into(),
        HealthCheck::SameCount => format!("verdicts name exactly {}", errors(value)),
        HealthCheck::Contradiction => "quality scores contradict the errors beside them".into(),
        HealthCheck::OddSpan => "spans are a single letter or a piece of a word".into(),
        HealthCheck::RepeatedError => "errors repeat another one of the same verdict".into(),
        HealthCheck::CopiedExplanation => "explanations are copied from the prompt".into(),
        HealthCheck::ForeignLanguage => "explanations are about a text in another language".into(),
    }
}

/// Further remedy for a finding.
fn advice(check: HealthCheck) -> &'static str {
    match check {
        HealthCheck::SameScore | HealthCheck::SameQuality | HealthCheck::NoError | HealthCheck::SameCount => {
            ", another method (`tribunal methods list`)"
        }
        HealthCheck::CopiedExplanation | HealthCheck::ForeignLanguage => {
            ", shots of your own language pair (`--shots FILE`), or none (`shots=0`, where the method has it)"
        }
        HealthCheck::OddSpan | HealthCheck::RepeatedError => {
            ", an answer in a fixed form (`--preset strict`, the default)"
        }
        HealthCheck::Contradiction => ", quality scores that are asked for alone (`gemba-da`)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judge_that_finds_nothing_is_not_called_degenerate() {
        let all = |check, value| Finding { warning: false, ..finding(check, 16, 16, value, None) };
        let findings = [all(HealthCheck::SameScore, Some(0.0)), all(HealthCheck::NoError, None)];
        assert_eq!(warning(&findings), None);
        insta::assert_snapshot!(note(&findings).unwrap(), @"
        16 of 16 verdicts name no error: the translations are good, or the judge misses their errors
        hint: judge some of them again with an error put in
        ");
        assert_eq!(note(&[all(HealthCheck::SameCount, Some(1.0))]), None);
    }

    fn finding(
        check: HealthCheck,
        found: usize,
        of: usize,
        value: Option<f64>,
        text: Option<&str>,
    ) -> Finding {
        let example = text.map(|text| Example {
            system: "system-a".into(),
            doc: "chat".into(),
            seg: Some(2),
            text: text.into(),
        });
        Finding { check, found, of, warning: found * 2 > of, value, example }
    }

    #[test]
    fn a_judge_that_says_the_same_of_everything() {
        let findings = [
            finding(HealthCheck::SameScore, 16, 16, Some(-5.0), None),
            finding(HealthCheck::SameQuality, 15, 16, Some(80.0), None),
            finding(HealthCheck::SameCount, 16, 16, Some(1.0), None),
            finding(HealthCheck::OddSpan, 1, 16, None, Some("`rück` in `Brücke`")),
            finding(HealthCheck::CopiedExplanation, 9, 16, None, Some("`The word 'dir' is\ninformal.`")),
        ];
        insta::assert_snapshot!(shares(&findings).unwrap(), @"verdicts: 100% with the score -5, 94% with the quality 80, 100% with 1 error, 6% of spans are a single letter or part of a word, 56% of explanations are copied from the prompt");
        insta::assert_snapshot!(warning(&findings).unwrap(), @"
        warning: the output looks degenerate; read some answers before you use these scores
          16 of 16 verdicts have the score -5
          15 of 16 verdicts have the quality 80
          16 of 16 verdicts name exactly 1 error
          9 of 16 explanations are copied from the prompt, as in system-a, document chat, segment 3 (id 2): `The word 'dir' is informal.`
        hint: try another model, above all a larger one, another method (`tribunal methods list`), shots of your own language pair (`--shots FILE`), or none (`shots=0`, where the method has it); `tribunal show DIR SEGMENT` prints what the judge was asked and said
        ");
        assert_eq!((warning(&findings[3..4]), note(&findings)), (None, None));
        assert_eq!(shares(&[]), None);
        assert_eq!(shares(&[finding(HealthCheck::SameScore, 1, 16, Some(-2.87), None)]), None);
    }
}
