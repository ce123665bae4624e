//! sacreBLEU's tokenizers, with their quirks: scores are only comparable if the tokens are the same.

use std::sync::LazyLock;

use regex::Regex;

/// Tokenizer for BLEU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokenizer {
    /// `13a`, the default for all languages but Chinese, Japanese and Korean.
    V13a,
    /// `intl`: splits off all Unicode punctuation and symbols.
    Intl,
    /// `zh`: Chinese characters one by one, the rest as `13a` does.
    Zh,
    /// `char`: every character.
    Char,
    /// `none`: the text unchanged.
    Plain,
}

/// A pattern and its replacement.
type Rule = (Regex, &'static str);

static WESTERN: LazyLock<[Rule; 4]> = LazyLock::new(|| {
    rules([
        (r"([\{-\~\[-\` -\&\(-\+\:-\@/])", " $1 "),
        (r"([^0-9])([\.,])", "$1 $2 "),
        (r"([\.,])([^0-9])", " $1 $2"),
        (r"([0-9])(-)", "$1 $2 "),
    ])
});

static INTERNATIONAL: LazyLock<[Rule; 3]> = LazyLock::new(|| {
    rules([(r"(\P{N})(\p{P})", "$1 $2 "), (r"(\p{P})(\P{N})", " $1 $2"), (r"(\p{S})", " $1 ")])
});

fn rules<const N: usize>(patterns: [(&str, &'static str); N]) -> [Rule; N] {
    patterns
        .map(|(pattern, with)| (Regex::new(pattern).expect("the pattern is a constant that compiles"), with))
}

impl Tokenizer {
    /// All tokenizers by their names in sacreBLEU.
    const NAMED: [(&str, Self); 5] = [
        ("13a", Self::V13a),
        ("intl", Self::Intl),
        ("zh", Self::Zh),
        ("char", Self::Char),
        ("none", Self::Plain),
    ];

    /// The tokenizer of that name in sacreBLEU; `None` for an unknown name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|(known, _)| *known == name).map(|(_, tokenizer)| tokenizer)
    }

    /// Its name in sacreBLEU.
    pub fn name(self) -> &'static str {
        Self::NAMED.into_iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// The tokenized text, one space between tokens.
    ///
    /// ```
    /// use tribunal_meta::lexical::Tokenizer;
    /// assert_eq!(Tokenizer::V13a.apply("It costs 3.50, or so."), "It costs 3.50 , or so .");
    /// assert_eq!(Tokenizer::Zh.apply("第2部分"), "第 2 部 分");
    /// ```
    pub fn apply(self, text: &str) -> String {
        match self {
            Self::V13a => western(&format!(" {} ", unescaped(text))),
            Self::Intl => joined(&replaced(text, &*INTERNATIONAL)),
            Self::Zh => western(&spaced(text.trim(), is_chinese)),
            Self::Char => text.chars().map(String::from).collect::<Vec<_>>().join(" "),
            Self::Plain => text.to_owned(),
        }
    }

    /// The tokens that BLEU counts.
    pub fn tokens(self, text: &str) -> Vec<String> {
        words(&self.apply(text.trim_end())).map(str::to_owned).collect()
    }
}

fn unescaped(text: &str) -> String {
    let line = text.replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    line.replace("&quot;", "\"").replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")
}

fn western(line: &str) -> String {
    joined(&replaced(line, &*WESTERN))
}

fn replaced(line: &str, rules: &[Rule]) -> String {
    rules.iter().fold(line.to_owned(), |line, (pattern, with)| pattern.replace_all(&line, *with).into_owned())
}

fn joined(line: &str) -> String {
    words(line).collect::<Vec<_>>().join(" ")
}

/// Python's `str.split()`, which also splits at the four separator control characters.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

fn spaced(text: &str, apart: fn(char) -> bool) -> String {
    let mut line = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        if apart(c) {
            line.extend([' ', c, ' ']);
        } else {
            line.push(c);
        }
    }
    line
}

/// The characters that sacreBLEU's `zh` tokenizer sets apart. Its two ranges beyond the basic plane are
/// written with four digits, so they mean U+2001 to U+2A6D and U+2F81 to U+2FA1: dashes, quotes, currency
/// signs. Equal scores need equal tokens, so the ranges are the same here.
fn is_chinese(c: char) -> bool {
    matches!(c,
        '\u{3400}'..='\u{4db5}' | '\u{4e00}'..='\u{9fbb}' | '\u{f900}'..='\u{fa2d}' | '\u{fa30}'..='\u{fa6a}'
        | '\u{fa70}'..='\u{fad9}' | '\u{2001}'..='\u{2a6d}' | '\u{2f81}'..='\u{2fa1}' | '\u{ff00}'..='\u{ffef}'
        | '\u{2e80}'..='\u{2eff}' | '\u{3000}'..='\u{303f}' | '\u{31c0}'..='\u{31ef}' | '\u{2f00}'..='\u{2fdf}'
        | '\u{2ff0}'..='\u{2fff}' | '\u{3100}'..='\u{312f}' | '\u{31a0}'..='\u{31bf}' | '\u{fe10}'..='\u{fe1f}'
        | '\u{fe30}'..='\u{fe4f}' | '\u{3200}'..='\u{33ff}')
}
