//! Formats of test sets and translation memories in which a segment is an element, not a line. They are
//! detected to explain how to convert them; none of them is read.

use std::fmt;

/// A format with elements for segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markup {
    /// NIST's and WMT's files until 2020.
    Sgm,
    /// WMT's files since 2021.
    Wmt,
    Tmx,
    Xliff,
    Html,
}

/// Names of root elements, and their formats.
const ROOTS: &[(&str, Markup)] = &[
    ("srcset", Markup::Sgm),
    ("refset", Markup::Sgm),
    ("tstset", Markup::Sgm),
    ("mteval", Markup::Sgm),
    ("doc", Markup::Sgm),
    ("dataset", Markup::Wmt),
    ("tmx", Markup::Tmx),
    ("xliff", Markup::Xliff),
    ("html", Markup::Html),
];

impl Markup {
    /// The format of a text; `None` for text without markup. A segment may hold markup of its own: only a
    /// text that begins with one of the elements and ends with its end is meant.
    pub fn parse(text: &str) -> Option<Self> {
        let mut tail = text.trim_start();
        // Declarations and comments come before the first element.
        while tail.starts_with("<?") || tail.starts_with("<!") {
            let end = if tail.starts_with("<!--") { "-->" } else { ">" };
            tail = tail[tail.find(end)? + end.len()..].trim_start();
        }
        let inner = tail.strip_prefix('<')?;
        let name = &inner[..inner.find(|c: char| !c.is_ascii_alphanumeric())?];
        let (root, format) = ROOTS.iter().find(|(root, _)| root.eq_ignore_ascii_case(name))?;
        let before = text.trim_end().strip_suffix('>')?.trim_end();
        let at = before.len().checked_sub(root.len())?;
        let is_end = before.get(at..)?.eq_ignore_ascii_case(root) && before[..at].ends_with("</");
        is_end.then_some(*format)
    }

    /// How to convert such a file.
    pub fn instead(self) -> &'static str {
        match self {
            Self::Sgm => {
                "write the text of each `<seg>` on a line of its own, with `&amp;`, `&lt;`, `&gt;` and `&quot;` resolved, and \
                 the `docid` of each into a file of documents; `sacrebleu -t TEST -l PAIR --echo src ref` prints WMT's \
                 test sets so"
            }
            Self::Wmt => {
                "write the text of each `<seg>` of `<src>`, of one `<ref>` and of each `<hyp>` on a line of its own, in one \
                 file each, as the folders `txt` beside WMT's XML have it; such a folder is a test set"
            }
            Self::Tmx => {
                "write one row for each `<tu>` into a table (JSONL, TSV, CSV) with the columns source and target, and \
                 give that"
            }
            Self::Xliff => {
                "write one row for each `<trans-unit>` or `<segment>` into a table (JSONL, TSV, CSV) with the columns source \
                 and target, and give that"
            }
            Self::Html => "save the page's text, a segment on each line",
        }
    }
}

impl fmt::Display for Markup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sgm => "SGM",
            Self::Wmt => "XML in WMT's format",
            Self::Tmx => "TMX",
            Self::Xliff => "XLIFF",
            Self::Html => "HTML",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_from_text_that_holds_markup() {
        let of = Markup::parse;
        assert_eq!(of("<srcset setid=\"t\">\n<doc>\n</doc>\n</srcset>\n"), Some(Markup::Sgm));
        assert_eq!(of("<REFSET>\n</REFSET >"), Some(Markup::Sgm));
        assert_eq!(
            of("<?xml version='1.0'?>\n<!-- a > b -->\n<dataset id=\"t\"><doc/></dataset>"),
            Some(Markup::Wmt)
        );
        let tmx =
            "<?xml version=\"1.0\"?>\n<!DOCTYPE tmx SYSTEM \"tmx14.dtd\">\n<tmx version=\"1.4\">\n</tmx>";
        assert_eq!(of(tmx), Some(Markup::Tmx));
        assert_eq!(of("<xliff>\n</xliff>"), Some(Markup::Xliff));
        // Segments of technical texts.
        assert_eq!(of("<dataset> is the first element.\nThe last one is <doc>.\n"), None);
        assert_eq!(of("<p>One</p>\n<p>Two</p>\n"), None);
        assert_eq!(of("<?xml version='1.0'?> begins a file.\n"), None);
        assert_eq!((of(""), of("<"), of("<!"), of("é</doc>")), (None, None, None, None));
    }
}
