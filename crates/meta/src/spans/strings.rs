//! Spans matched as strings, for judges that quote an error without its place: HiMATE's Algorithm 1 at its
//! thresholds, and M-MAD's comparison of output strings with gold annotations. Nothing is placed.

use super::Overlap;

/// HiMATE's Algorithm 1: the longest common contiguous run of tokens covers at least `theta` of both spans.
///
/// Source: HiMATE, Appendix E.
///
/// ```
/// use tribunal_meta::spans::strings::himate_match;
/// let tokens = |text: &'static str| text.split(' ').collect::<Vec<_>>();
/// let (gold, detected) = (tokens("go back to the lab"), tokens("back to the lab tomorrow"));
/// // Four tokens in common, of five on either side.
/// assert!(himate_match(&gold, &detected, 0.8));
/// assert!(!himate_match(&gold, &detected, 0.9));
/// ```
pub fn himate_match<T: PartialEq>(gold: &[T], detected: &[T], theta: f64) -> bool {
    let run = longest_common_run(gold, detected) as f64;
    run > 0.0 && run / gold.len() as f64 >= theta && run / detected.len() as f64 >= theta
}

fn longest_common_run<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    let mut longest = 0;
    let mut before = vec![0; b.len() + 1];
    for x in a {
        let mut now = vec![0; b.len() + 1];
        for (j, y) in b.iter().enumerate() {
            if x == y {
                now[j + 1] = before[j] + 1;
                longest = longest.max(now[j + 1]);
            }
        }
        before = now;
    }
    longest
}

/// The spans of one unit matched by Algorithm 1, in order, each gold span at most once. The paper does not
/// define how a second match of the same gold span counts; here it is wrong.
pub fn himate(gold: &[&str], detected: &[&str], theta: f64) -> Overlap {
    let [gold, detected] =
        [gold, detected].map(|spans| spans.iter().map(|text| tokens(text)).collect::<Vec<_>>());
    one_to_one(&gold, &detected, |gold, detected| himate_match(gold, detected, theta))
}

/// The spans of one unit matched as strings: one contains the other, apart from case and space around them.
///
/// Source: M-MAD, Table 4, which only states that output strings are matched with gold annotations.
pub fn mmad(gold: &[&str], detected: &[&str]) -> Overlap {
    let plain = |text: &&str| text.trim().to_lowercase();
    let [gold, detected] = [gold, detected].map(|spans| spans.iter().map(plain).collect::<Vec<_>>());
    one_to_one(&gold, &detected, |gold, detected| {
        !gold.is_empty() && !detected.is_empty() && (gold.contains(detected) || detected.contains(gold))
    })
}

fn one_to_one<T>(gold: &[T], detected: &[T], matches: impl Fn(&T, &T) -> bool) -> Overlap {
    let mut left: Vec<&T> = gold.iter().collect();
    let mut right = 0.0;
    for span in detected {
        if let Some(index) = left.iter().position(|gold| matches(gold, span)) {
            left.remove(index);
            right += 1.0;
        }
    }
    Overlap {
        right_predicted: right,
        predicted: detected.len() as f64,
        found_gold: right,
        gold: gold.len() as f64,
    }
}

/// Words, with every ideograph and kana a token of its own.
pub fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for word in text.split_whitespace() {
        let mut open = String::new();
        for c in word.chars() {
            if is_cjk(c) {
                if !open.is_empty() {
                    tokens.push(std::mem::take(&mut open));
                }
                tokens.push(c.to_string());
            } else {
                open.push(c);
            }
        }
        if !open.is_empty() {
            tokens.push(open);
        }
    }
    tokens
}

fn is_cjk(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gold_span_is_found_once() {
        let overlap = himate(&["the lab"], &["the lab", "the lab"], 0.5);
        assert_eq!((overlap.score().precision, overlap.score().recall), (0.5, 1.0));
    }

    #[test]
    fn tokens_split_ideographs() {
        assert_eq!(tokens("GB 第2部分 ok"), ["GB", "第", "2", "部", "分", "ok"]);
    }

    #[test]
    fn strings_contain_each_other() {
        assert_eq!(mmad(&["the big lab "], &["Big lab"]).score().f1, 1.0);
        assert_eq!(mmad(&["lab"], &[""]).score().precision, 0.0);
    }
}
