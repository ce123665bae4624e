//! Regular expressions over an answer's bytes: as text for the grammar, and their shortest match. The
//! automaton is the one that llguidance's own lexer is made of, so both accept the same strings.

use std::collections::{HashMap, VecDeque};

use derivre::{Regex, RegexAst, RegexBuilder, StateID};

/// A character of a JSON string, in one spelling: raw where JSON allows it, short escapes, and `\u00XX` for
/// the control characters that have none. One repetition is one code point.
pub(super) const JSON_CHARACTER: &str =
    r#"([^"\\\x00-\x1F\x7F]|\\["\\\/bfnrt]|\\u00(0[0-7]|0[bB]|0[eEfF]|1[0-9a-fA-F]))"#;

/// Content of a JSON string that needs no escapes.
const NEEDS_NO_ESCAPE: &str = r#"[^"\\\x00-\x1F\x7F]*"#;

/// The number of automaton states that the search for the shortest match visits at most.
const MAX_STATES: usize = 50_000;

/// A regular expression that something matches.
#[derive(Clone)]
pub(super) struct Pattern {
    /// The body of a terminal in llguidance's Lark dialect.
    lark: String,
    /// `None` where it has more than [`MAX_STATES`] states before it.
    shortest: Option<Vec<u8>>,
}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.lark)
    }
}

impl Pattern {
    /// A regular expression that a whole value must match.
    pub(super) fn new(source: &str) -> Result<Self, String> {
        Self::compile(lark_regex(source), &RegexAst::Regex(source.to_owned()))
    }

    /// One of these texts.
    pub(super) fn literals(texts: &[String]) -> Result<Self, String> {
        let lark: Vec<String> = texts.iter().map(|text| lark_string(text)).collect();
        let ast = texts.iter().map(|text| RegexAst::Literal(text.clone())).collect();
        Self::compile(format!("({})", lark.join(" | ")), &RegexAst::Or(ast))
    }

    /// A JSON string of between `min` and `max` code points.
    pub(super) fn json_string(min: usize, max: Option<usize>) -> Result<Self, String> {
        let times = match (min, max) {
            (0, None) => "*".to_owned(),
            (min, None) => format!("{{{min},}}"),
            (min, Some(max)) => format!("{{{min},{max}}}"),
        };
        Self::new(&format!("\"{JSON_CHARACTER}{times}\""))
    }

    /// A JSON string whose content matches a JSON Schema `pattern` and needs no escapes. As in JSON Schema,
    /// the pattern is anchored only by explicit anchors.
    pub(super) fn json_string_matching(pattern: &str) -> Result<Self, String> {
        let (start, body) = match pattern.strip_prefix('^') {
            Some(body) => ("", body),
            None => ("(?s:.*)", pattern),
        };
        let (middle, end) = match body.strip_suffix('$') {
            Some(middle) if !middle.ends_with('\\') => (middle, ""),
            _ => (body, "(?s:.*)"),
        };
        if (start.is_empty() || end.is_empty()) && has_top_level_choice(middle) {
            return Err(format!("the pattern `{pattern}` anchors one side of a choice; hint: write ^(a|b)$"));
        }
        let content = format!("{start}({middle}){end}");
        let quote = || RegexAst::Literal("\"".into());
        let both =
            RegexAst::And(vec![RegexAst::Regex(content.clone()), RegexAst::Regex(NEEDS_NO_ESCAPE.into())]);
        let lark = format!("\"\\\"\" ({} & {}) \"\\\"\"", lark_regex(&content), lark_regex(NEEDS_NO_ESCAPE));
        Self::compile(lark, &RegexAst::Concat(vec![quote(), both, quote()]))
    }

    fn compile(lark: String, ast: &RegexAst) -> Result<Self, String> {
        let mut builder = RegexBuilder::new();
        let expression = builder.mk(ast).map_err(|e| e.to_string())?;
        let mut regex = builder.into_regex_limited(expression, 1_000_000).map_err(|e| e.to_string())?;
        if regex.always_empty() {
            return Err(format!("nothing matches {lark}"));
        }
        let shortest = shortest(&mut regex);
        Ok(Self { lark, shortest })
    }

    /// The body of a terminal.
    pub(super) fn lark(&self) -> &str {
        &self.lark
    }

    /// The shortest match; `None` where the search for it is too long.
    pub(super) fn shortest(&self) -> Option<Vec<u8>> {
        self.shortest.clone()
    }
}

/// Breadth first, trying bytes in a fixed order: those that close a value first, then readable text.
fn shortest(regex: &mut Regex) -> Option<Vec<u8>> {
    let start = regex.initial_state();
    if regex.is_accepting(start) {
        return Some(Vec::new());
    }
    let order = || b"\"0".iter().copied().chain(b'a'..=b'z').chain(0..=u8::MAX);
    let mut came: HashMap<u32, (StateID, u8)> = HashMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(state) = queue.pop_front() {
        for byte in order() {
            let next = regex.transition(state, byte);
            if next.is_dead() || next == start || came.contains_key(&next.as_u32()) {
                continue;
            }
            came.insert(next.as_u32(), (state, byte));
            if regex.is_accepting(next) {
                return Some(path(&came, start, next));
            }
            queue.push_back(next);
        }
        if came.len() > MAX_STATES {
            return None;
        }
    }
    None
}

fn path(came: &HashMap<u32, (StateID, u8)>, from: StateID, to: StateID) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut at = to;
    while at != from {
        let (before, byte) = came[&at.as_u32()];
        bytes.push(byte);
        at = before;
    }
    bytes.reverse();
    bytes
}

/// A string literal of Lark: a JSON string.
pub(super) fn lark_string(text: &str) -> String {
    // Lark's lexer rejects the one character below U+0080 that JSON leaves raw and it does not.
    serde_json::Value::from(text).to_string().replace('\u{7F}', "\\u007f")
}

/// A regular expression literal of Lark: slashes and line ends are escaped.
pub(super) fn lark_regex(source: &str) -> String {
    let mut text = String::from("/");
    let mut escaped = false;
    for c in source.chars() {
        match c {
            '/' if !escaped => text.push_str("\\/"),
            '\n' => text.push_str("\\n"),
            _ => text.push(c),
        }
        escaped = c == '\\' && !escaped;
    }
    text.push('/');
    text
}

fn has_top_level_choice(pattern: &str) -> bool {
    let (mut depth, mut in_class, mut escaped) = (0_i32, false, false);
    for c in pattern.chars() {
        match c {
            _ if escaped => {}
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => depth += 1,
            ')' if !in_class => depth -= 1,
            '|' if !in_class && depth == 0 => return true,
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    false
}

/// Whole numbers within bounds; without one, at most 15 digits, so that a number cannot go on forever.
pub(super) fn integer(min: Option<i64>, max: Option<i64>) -> String {
    const MOST: i64 = 999_999_999_999_999;
    let (min, max) = (min.unwrap_or(-MOST), max.unwrap_or(MOST));
    let mut parts = Vec::new();
    if min < 0 {
        let (low, high) = (max.min(-1).unsigned_abs(), min.unsigned_abs());
        parts.push(format!("-({})", natural(low, high)));
    }
    if max >= 0 {
        parts.push(format!("({})", natural(min.max(0).unsigned_abs(), max.unsigned_abs())));
    }
    parts.join("|")
}

/// Numbers with at most 6 decimals within whole-numbered bounds.
pub(super) fn number(min: Option<i64>, max: Option<i64>) -> String {
    const DECIMALS: &str = r"\.[0-9]{1,6}";
    const MOST: i64 = 999_999_999_999_999;
    let (min, max) = (min.unwrap_or(-MOST), max.unwrap_or(MOST));
    let mut parts = vec![format!("({})(\\.0{{1,6}})?", integer(Some(min), Some(max)))];
    if max > 0 && max > min {
        let (low, high) = (min.max(0).unsigned_abs(), (max - 1).unsigned_abs());
        parts.push(format!("({}){DECIMALS}", natural(low, high)));
    }
    if min < 0 && max > min {
        let (low, high) = (max.min(0).unsigned_abs(), (min + 1).unsigned_abs());
        parts.push(format!("-({}){DECIMALS}", natural(low, high)));
    }
    parts.join("|")
}

/// The decimal numerals from `low` to `high`, without leading zeros.
fn natural(low: u64, high: u64) -> String {
    let mut parts = Vec::new();
    let mut low = low;
    loop {
        // The largest block of numerals that share their leading digits: low .. low + 10^k * (n - digit).
        let end = block_end(low, high);
        parts.push(block(low, end));
        if end == high {
            return parts.join("|");
        }
        low = end + 1;
    }
}

/// The end of the widest run from `low` that is one prefix, one digit class and free digits.
fn block_end(low: u64, high: u64) -> u64 {
    let mut best = low;
    let mut step = 1_u64;
    while low.is_multiple_of(step) {
        let digit = (low / step) % 10;
        let mut top = low;
        for last in digit..=9 {
            let end = low + (last - digit + 1) * step - 1;
            if end <= high && (step == 1 || low >= step) {
                top = end;
            }
        }
        if top > best {
            best = top;
        }
        match step.checked_mul(10) {
            Some(next) if next <= high.max(1) => step = next,
            _ => break,
        }
    }
    best
}

/// The expression of one run found by [`block_end`]: equal length, a shared prefix, one class, free digits.
fn block(low: u64, end: u64) -> String {
    let (a, b) = (low.to_string(), end.to_string());
    let same = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    if same == a.len() {
        return a;
    }
    let free = a.len() - same - 1;
    let class = format!("[{}-{}]", &a[same..=same], &b[same..=same]);
    let tail = if free == 0 { String::new() } else { format!("[0-9]{{{free}}}") };
    format!("{}{class}{tail}", &a[..same])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(source: &str, text: &str) -> bool {
        regex::Regex::new(&format!("^(?:{source})$")).unwrap().is_match(text)
    }

    #[test]
    fn integers_are_exactly_those_within_bounds() {
        for (low, high) in [(0, 100), (-5, 5), (1, 5), (7, 7), (-120, -9), (99, 1001), (0, 0), (-1, 12345)] {
            let whole = regex::Regex::new(&format!("^(?:{})$", integer(Some(low), Some(high)))).unwrap();
            for n in -13_000_i64..13_000 {
                assert_eq!(
                    whole.is_match(&n.to_string()),
                    (low..=high).contains(&n),
                    "{n} in {low}..={high}"
                );
            }
            for odd in ["", "-", "00", "01", "+1", "-0", "1."] {
                assert!(!whole.is_match(odd), "{odd:?}");
            }
        }
    }

    #[test]
    fn numbers_stay_within_bounds() {
        let source = number(Some(-2), Some(10));
        for good in ["0", "10", "10.0", "9.99", "0.5", "-0.5", "-1.999999", "-2", "-2.0"] {
            assert!(matches(&source, good), "{good}");
        }
        for bad in ["10.1", "-2.1", "11", "1.", ".5", "1.1234567", "1e3", "100"] {
            assert!(!matches(&source, bad), "{bad}");
        }
    }

    #[test]
    fn the_shortest_match_closes_first_and_is_readable() {
        for (pattern, shortest) in [
            (Pattern::new(&integer(Some(10), Some(100))), "10"),
            (Pattern::json_string(3, None), "\"000\""),
            (Pattern::literals(&["perhaps".into(), "yes".into()]), "yes"),
            (Pattern::json_string_matching("^[a-z]{2}-[0-9]+$"), "\"aa-0\""),
        ] {
            assert_eq!(pattern.unwrap().shortest(), Some(shortest.into()));
        }
    }

    #[test]
    fn schema_patterns_are_anchored_where_they_say() {
        let matches = |pattern: &str, text: &str| {
            let schema = serde_json::json!({"type": "string", "pattern": pattern});
            super::super::tests::accepts(&crate::llm::ResponseFormat::json(schema), text)
        };
        assert!(matches("^[a-z]+$", "\"abc\"") && !matches("^[a-z]+$", "\"abc1\""));
        assert!(matches("[a-z]", "\"1a1\"") && !matches("[a-z]", "\"11\""));
        assert!(!matches("^.*$", "\"a\\\"b\""));
        assert!(Pattern::json_string_matching("^a|b$").is_err());
    }
}
