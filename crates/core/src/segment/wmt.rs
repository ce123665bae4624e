//! Ids in the data of WMT's general task and evaluation task since 2025, which hold language pair, domain,
//! document and segment. It reads no files.
//!
//! Source: `README.md` of wmt-conference/wmt26-general-mt; the WMT26 evaluation task, `mteval-subtask2.html`;
//! for WMT25 `humeval/04-collect_humeval.py` of wmt-conference/wmt25-general-mt.

use super::{Lang, lang};

/// Separators of the parts of an id: WMT26's, then WMT25's.
const MARKS: [&str; 2] = ["_###_", "_#_"];

/// The kind of the task's own items, in ids that begin with a kind; the other is `challenge`.
const OFFICIAL: &str = "official";

/// Prefix of the test set's name in ids of the general task.
const TEST_SET: &str = "WMT";

/// A parsed id. Documents have the same name in all files of one year: the domain and the task's own name,
/// after `challenge` for challenge sets; WMT25's keep the language pair in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id {
    /// `None` in annotations, whose campaign has the pair in its name.
    pub pair: Option<(Lang, Lang)>,
    /// `social_###_1162`
    pub doc: String,
    /// The place of the segment in its document, from 0; `None` where the last part is no number.
    pub seg: Option<usize>,
}

impl Id {
    /// The id of an item of the evaluation task,
    /// `[official|challenge]_###_SRC_###_TGT_###_DOMAIN_###_DOC_###_SEG`.
    ///
    /// ```
    /// use tribunal_core::segment::wmt::Id;
    /// let id = Id::of_item("official_###_eng_Latn_###_zho_Hans_###_social_###_1162_###_3").unwrap();
    /// let (src, tgt) = id.pair.unwrap();
    /// assert_eq!((src.code(), tgt.code()), ("en", "zh_Hans"));
    /// assert_eq!((id.doc.as_str(), id.seg), ("social_###_1162", Some(3)));
    /// assert_eq!(Id::of_item("en-cs_CZ_#_news_#_7_#_0"), None);
    /// ```
    pub fn of_item(id: &str) -> Option<Self> {
        let parts: Vec<&str> = id.split(MARKS[0]).collect();
        let (kind, pair, numbers) = match parts.as_slice() {
            [src, tgt, numbers @ ..] if is_code(src) && is_code(tgt) => (None, pair(src, tgt)?, numbers),
            [kind, src, tgt, numbers @ ..] => {
                (Some(*kind).filter(|kind| *kind != OFFICIAL), pair(src, tgt)?, numbers)
            }
            _ => return None,
        };
        let (seg, numbers) = last_number(numbers);
        if numbers.is_empty() {
            return None;
        }
        let doc = kind.into_iter().chain(numbers.iter().copied()).collect::<Vec<_>>().join(MARKS[0]);
        Some(Self { pair: Some(pair), doc, seg })
    }

    /// The id of a document of the general task, `WMT26_###_DOMAIN_###_SRC_###_TGT_###_DOC` or
    /// `en-cs_CZ_#_DOMAIN_#_DOC`.
    ///
    /// ```
    /// use tribunal_core::segment::wmt::Id;
    /// let id = Id::of_document("WMT26_###_news_###_eng_Latn_###_isl_Latn_###_paper.377").unwrap();
    /// assert_eq!(id.doc, "news_###_paper.377");
    /// let id = Id::of_document("en-is_IS_#_news_#_paper.377").unwrap();
    /// assert_eq!((id.pair.unwrap().1.code(), id.doc.as_str()), ("is_IS", "en-is_IS_#_news_#_paper.377"));
    /// ```
    pub fn of_document(id: &str) -> Option<Self> {
        match id.split(MARKS[0]).collect::<Vec<_>>().as_slice() {
            [set, domain, src, tgt, tail @ ..] if set.starts_with(TEST_SET) && !tail.is_empty() => {
                let doc = [*domain].iter().chain(tail).copied().collect::<Vec<_>>().join(MARKS[0]);
                Some(Self { pair: Some(pair(src, tgt)?), doc, seg: None })
            }
            _ => {
                let (pair, _) = id.split_once(MARKS[1]).filter(|(_, tail)| !tail.is_empty())?;
                Some(Self { pair: Some(lang::parse_pair(pair).ok()?), doc: id.to_owned(), seg: None })
            }
        }
    }

    /// The id of a segment that raters saw: of an item, of WMT26's campaigns (`DOMAIN_###_DOC_###_SEG`,
    /// without languages), or of WMT25 (`en-cs_CZ_#_DOMAIN_#_DOC_#_SEG`).
    ///
    /// ```
    /// use tribunal_core::segment::wmt::Id;
    /// let id = Id::of_rated("social_###_1162_###_3").unwrap();
    /// assert_eq!((id.pair, id.doc.as_str(), id.seg), (None, "social_###_1162", Some(3)));
    /// let id = Id::of_rated("en-is_IS_#_news_#_paper.377_#_12").unwrap();
    /// assert_eq!((id.doc.as_str(), id.seg), ("en-is_IS_#_news_#_paper.377", Some(12)));
    /// ```
    pub fn of_rated(id: &str) -> Option<Self> {
        if let Some(item) = Self::of_item(id) {
            return Some(item);
        }
        let mark = MARKS.into_iter().find(|mark| id.contains(mark))?;
        let parts: Vec<&str> = id.split(mark).collect();
        let (seg, numbers) = last_number(&parts);
        let doc = numbers.join(mark);
        if numbers.len() < 2 || seg.is_none() {
            return None;
        }
        let pair = if mark == MARKS[1] { Some(lang::parse_pair(numbers[0]).ok()?) } else { None };
        Some(Self { pair, doc, seg })
    }
}

/// The domain that a document's name holds; `None` for names of other kinds.
///
/// ```
/// use tribunal_core::segment::wmt::domain;
/// assert_eq!(domain("social_###_1162"), Some("social"));
/// assert_eq!(domain("challenge_###_social_###_7"), Some("social"));
/// assert_eq!(domain("en-is_IS_#_news_#_paper.377"), Some("news"));
/// assert_eq!(domain("paper.377"), None);
/// ```
pub fn domain(doc: &str) -> Option<&str> {
    let mark = MARKS.into_iter().find(|mark| doc.contains(mark))?;
    let parts: Vec<&str> = doc.split(mark).collect();
    // WMT25's pair stands before the domain, and so does the kind of a challenge set.
    let place = usize::from(mark == MARKS[1] || parts.len() > 2 && parts[0] == "challenge");
    parts.get(place).copied()
}

/// A language pair as the name of a campaign of annotations has it, `eng_Latn---ukr_Cyrl v3`.
pub fn campaign_pair(name: &str) -> Option<(Lang, Lang)> {
    let (src, tgt) = name.split_once("---")?;
    pair(src, tgt.split_whitespace().next()?)
}

/// Returns true if a text has the form of the codes of FLORES-200 and WMT, so that it may be a language.
fn is_code(text: &str) -> bool {
    let language = text.split('_').next().unwrap_or_default();
    matches!(language.len(), 2 | 3) && language.bytes().all(|b| b.is_ascii_lowercase())
}

fn pair(src: &str, tgt: &str) -> Option<(Lang, Lang)> {
    Some((language(src)?, language(tgt)?))
}

/// Languages that FLORES+ or WMT have in several scripts, none of which goes without saying.
const IN_SEVERAL_SCRIPTS: &[&str] =
    &["zh", "yue", "sr", "ks", "kr", "ace", "bjn", "min", "taq", "mni", "crh", "ms"];

/// Languages by the script that goes without saying, where it is not Latin: the last line has scripts of
/// their own.
const USUAL: &[(&str, &str)] = &[
    ("Cyrl", " ba be bg bua ce cv kk kv ky mhr mk mn mrj myv os ru rue sah tg tt tyv udm uk "),
    (
        "Arab",
        " acm acq aeb ajp apc apd ar ars ary arz azb bal bcc bgp ckb dv fa glk haz ks lrc mzn pnb prs ps sd skr ug ur ",
    ),
    ("Deva", " anp awa bgc bho brx doi dty gom hi hne kok mag mai mr mwr ne new sa "),
    ("", " am as bn bo dz el gu he hy ii ja ka km kn ko lo lzh ml my or pa sat si ta te th ti yi zgh "),
];

/// A code of FLORES-200, without its script where that goes without saying: `deu_Latn` is `de`, and
/// `hin_Latn` is `hi_Latn`.
fn language(code: &str) -> Option<Lang> {
    if !is_code(code) {
        return None;
    }
    let lang = Lang::parse(code).ok()?;
    let script = lang.code().split('_').find(|part| part.len() == SCRIPT_LETTERS).unwrap_or_default();
    let of = USUAL.iter().find(|(_, languages)| languages.contains(&format!(" {} ", lang.language())));
    let is_usual = script == of.map_or("Latn", |(usual, _)| *usual);
    let is_shared = ["Latn", "Cyrl", "Arab", "Deva"].contains(&script);
    if IN_SEVERAL_SCRIPTS.contains(&lang.language()) || is_shared && !is_usual {
        return Some(lang);
    }
    let parts: Vec<&str> = lang.code().split('_').filter(|part| part.len() != SCRIPT_LETTERS).collect();
    Lang::parse(&parts.join("_")).ok()
}

/// `Latn`
const SCRIPT_LETTERS: usize = 4;

/// The number that an id ends in, written as a program would, and the parts before it.
fn last_number<'p, 'a>(parts: &'p [&'a str]) -> (Option<usize>, &'p [&'a str]) {
    let Some((last, head)) = parts.split_last() else { return (None, parts) };
    match last.parse::<usize>() {
        Ok(number) if number.to_string() == *last => (Some(number), head),
        _ => (None, parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_of_wmt26() {
        let codes = "ces_Latn deu_Latn ukr_Cyrl vie_Latn zho_Hans jpn_Jpan eng_Latn hye_Armn bel_Cyrl kaz_Cyrl \
                     rus_Cyrl arz_Arab zho_Hant_TW ekk_Latn isl_Latn ind_Latn kor_Hang lij_Latn lld_Latn sme_Latn \
                     tha_Thai";
        let found: Vec<String> = codes.split(' ').map(|code| language(code).unwrap().to_string()).collect();
        let expected = "cs de uk vi zh_Hans ja en hy be kk ru arz zh_Hant_TW et is id ko lij lld se th";
        assert_eq!(found.join(" "), expected);
    }

    #[test]
    fn scripts_that_do_not_go_without_saying() {
        let codes = "hin_Latn arb_Latn pan_Arab uzn_Cyrl ron_Cyrl kaz_Latn hin_Deva arb_Arab pan_Guru uzn_Latn kaz_Cyrl \
                     amh_Ethi bod_Tibt srp_Cyrl kmr_Latn en de_DE";
        let found: Vec<String> = codes.split(' ').map(|code| language(code).unwrap().to_string()).collect();
        let expected =
            "hi_Latn ar_Latn pa_Arab uzn_Cyrl ro_Cyrl kk_Latn hi ar pa uzn kk am bo sr_Cyrl kmr en de_DE";
        assert_eq!(found.join(" "), expected);
    }

    #[test]
    fn ids_of_other_kinds() {
        let challenge = Id::of_item("challenge_###_en_###_zh_CN_###_idioms_###_x_###_y7").unwrap();
        assert_eq!((challenge.doc.as_str(), challenge.seg), ("challenge_###_idioms_###_x_###_y7", None));
        for wrong in
            ["", "a", "official_###_en_###_de", "official_###_en_###_qqq_###_d_###_0", "en_###_de_###_0"]
        {
            assert_eq!(Id::of_item(wrong), None, "{wrong}");
        }
        for wrong in ["paper.377", "en-is_IS_#_", "WMT26_###_news_###_en_###_de", "x_#_y"] {
            assert_eq!(Id::of_document(wrong), None, "{wrong}");
        }
        for wrong in ["attention_check_3", "social_###_1162_###_last", "7"] {
            assert_eq!(Id::of_rated(wrong), None, "{wrong}");
        }
        assert_eq!(campaign_pair("eng_Latn---sme_Latn v3").unwrap().1.code(), "se");
        assert_eq!(campaign_pair("my campaign"), None);
    }
}
