//! Methods of Python's strings, lists and dicts, which templates written for Jinja2 call. Work is counted in `grows`.
//!
//! Source: Python 3.12, `str`, `list` and `dict`; mutating methods are errors, as in Jinja2's sandbox.

use minijinja::{
    Error, ErrorKind, Value,
    value::{Kwargs, Tuple, ValueKind, from_args},
};

/// What a method of Python gives; `None` for one that is not among these.
///
/// # Errors
/// As the method: a text that is not found, arguments of the wrong type.
pub fn method(value: &Value, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    if let Some(text) = value.as_str() {
        return match name {
            _ if name.starts_with("is") => test(text, name, args),
            "strip" | "lstrip" | "rstrip" | "removeprefix" | "removesuffix" => trimmed(text, name, args),
            "split" | "rsplit" | "splitlines" | "partition" | "rpartition" => parts(text, name, args),
            "find" | "rfind" | "index" | "rindex" | "count" => found(text, name, args),
            "startswith" | "endswith" => ends(text, name, args),
            "center" | "ljust" | "rjust" | "zfill" | "expandtabs" => padded(text, name, args),
            _ => cased(text, name, args),
        };
    }
    match (value.kind(), name) {
        (ValueKind::Seq, "index") => place(value, args).map(Some),
        (ValueKind::Seq | ValueKind::Map, "copy") => from_args::<()>(args).map(|()| Some(value.clone())),
        _ => Ok(None),
    }
}

/// What Python takes as white space.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn wrong(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn test(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let all = |test: fn(char) -> bool| !text.is_empty() && text.chars().all(test);
    let cased =
        |is: fn(char) -> bool, other: fn(char) -> bool| text.chars().any(is) && !text.chars().any(other);
    let holds = match name {
        "isspace" => all(is_space),
        "isdigit" | "isnumeric" | "isdecimal" => all(char::is_numeric),
        "isalnum" => all(char::is_alphanumeric),
        "isalpha" => all(char::is_alphabetic),
        "isascii" => text.is_ascii(),
        "islower" => cased(char::is_lowercase, char::is_uppercase),
        "isupper" => cased(char::is_uppercase, char::is_lowercase),
        "istitle" => text.chars().any(char::is_alphabetic) && title(text) == text,
        "isprintable" => text.chars().all(|c| c == ' ' || !(c.is_control() || is_space(c))),
        "isidentifier" => {
            !text.starts_with(|c: char| c.is_numeric()) && all(|c| c == '_' || c.is_alphanumeric())
        }
        _ => return Ok(None),
    };
    from_args::<()>(args).map(|()| Some(holds.into()))
}

fn cased(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let swapped = |c: char| -> String {
        if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() }
    };
    let made = match name {
        "upper" => text.to_uppercase(),
        "lower" => text.to_lowercase(),
        "casefold" => text.to_lowercase().replace('\u{df}', "ss").replace('\u{3c2}', "\u{3c3}"),
        "swapcase" => text.chars().map(swapped).collect(),
        "title" => title(text),
        "capitalize" => {
            let mut chars = text.chars();
            let first: String = chars.next().map(title_case).unwrap_or_default();
            first + &chars.as_str().to_lowercase()
        }
        _ => return Ok(None),
    };
    from_args::<()>(args).map(|()| Some(made.into()))
}

/// A character as a word begins with it: `Ss` for a sharp s, and digraphs with one capital.
fn title_case(c: char) -> String {
    let digraphs = [
        ('\u{1c4}', '\u{1c6}', '\u{1c5}'),
        ('\u{1c7}', '\u{1c9}', '\u{1c8}'),
        ('\u{1ca}', '\u{1cc}', '\u{1cb}'),
        ('\u{1f1}', '\u{1f3}', '\u{1f2}'),
    ];
    if let Some((.., title)) =
        digraphs.iter().find(|(upper, lower, title)| [upper, lower, title].contains(&&c))
    {
        return title.to_string();
    }
    let mut upper = c.to_uppercase();
    let first: String = upper.next().into_iter().collect();
    first + &upper.flat_map(char::to_lowercase).collect::<String>()
}

/// Python's `str.title`: whatever follows a character without case begins a word, `They'Re`.
fn title(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        if inside {
            made.extend(c.to_lowercase());
        } else {
            made.push_str(&title_case(c));
        }
        inside = c.is_lowercase() || c.is_uppercase();
    }
    made
}

fn trimmed(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    if let "removeprefix" | "removesuffix" = name {
        let (affix,): (&str,) = from_args(args)?;
        let rest = if name == "removeprefix" { text.strip_prefix(affix) } else { text.strip_suffix(affix) };
        return Ok(Some(rest.unwrap_or(text).into()));
    }
    let (chars,): (Option<&str>,) = from_args(args)?;
    let goes = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    Ok(Some(Value::from(match name {
        "strip" => text.trim_matches(goes),
        "lstrip" => text.trim_start_matches(goes),
        _ => text.trim_end_matches(goes),
    })))
}

fn parts(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let list = |parts: Vec<&str>| Value::from(parts.into_iter().map(Value::from).collect::<Vec<_>>());
    if name == "splitlines" {
        let (keep, named): (Option<bool>, Kwargs) = from_args(args)?;
        let keep = keep.or(named.get("keepends")?).unwrap_or(false);
        named.assert_all_used()?;
        return Ok(Some(list(lines(text, keep))));
    }
    if let "partition" | "rpartition" = name {
        let (separator,): (&str,) = from_args(args)?;
        if separator.is_empty() {
            return Err(wrong("empty separator"));
        }
        let forward = name == "partition";
        let cut = if forward { text.split_once(separator) } else { text.rsplit_once(separator) };
        let cut = match cut {
            Some((before, after)) => [before, separator, after],
            None if forward => [text, "", ""],
            None => ["", "", text],
        };
        return Ok(Some(Value::from(Tuple::from(cut.map(Value::from)))));
    }
    let (separator, most, named): (Option<Value>, Option<i64>, Kwargs) = from_args(args)?;
    let separator = separator.or(named.get("sep")?).filter(|value| !value.is_none());
    let most = most.or(named.get("maxsplit")?).and_then(|most| usize::try_from(most).ok());
    named.assert_all_used()?;
    let reverse = name == "rsplit";
    let Some(separator) = &separator else { return Ok(Some(list(at_space(text, most, reverse)))) };
    let separator = separator.as_str().ok_or_else(|| wrong("a separator is a string"))?;
    if separator.is_empty() {
        return Err(wrong("empty separator"));
    }
    let n = most.map_or(usize::MAX, |most| most.saturating_add(1));
    let mut parts: Vec<&str> =
        if reverse { text.rsplitn(n, separator).collect() } else { text.splitn(n, separator).collect() };
    if reverse {
        parts.reverse();
    }
    Ok(Some(list(parts)))
}

/// Words, of which at most so many are cut off, from the left or the right. What is left after that many cuts keeps the
/// white space on its outer side.
fn at_space(text: &str, most: Option<usize>, reverse: bool) -> Vec<&str> {
    let mut rest = if reverse { text.trim_end_matches(is_space) } else { text };
    let mut parts = Vec::new();
    loop {
        if !reverse {
            rest = rest.trim_start_matches(is_space);
        }
        if rest.is_empty() {
            break;
        }
        if most.is_some_and(|most| parts.len() >= most) {
            parts.push(rest);
            break;
        }
        let space = if reverse { rest.rfind(is_space) } else { rest.find(is_space) };
        let Some(space) = space else {
            parts.push(rest);
            break;
        };
        let width = rest[space..].chars().next().map_or(1, char::len_utf8);
        let (before, after) = (&rest[..space], &rest[space + width..]);
        parts.push(if reverse { after } else { before });
        rest = if reverse { before.trim_end_matches(is_space) } else { after };
    }
    if reverse {
        parts.reverse();
    }
    parts
}

/// Whether a line ends with this character.
pub fn ends_line(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// The lines of a text, with or without what ends them.
pub fn lines(text: &str, keep: bool) -> Vec<&str> {
    let (mut rest, mut lines) = (text, Vec::new());
    while let Some(at) = rest.find(ends_line) {
        let width = if rest[at..].starts_with("\r\n") {
            2
        } else {
            rest[at..].chars().next().map_or(1, char::len_utf8)
        };
        lines.push(if keep { &rest[..at + width] } else { &rest[..at] });
        rest = &rest[at + width..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// The bytes between two numbers of characters, each counted from the end where it is negative; `None` where the first
/// stands behind the end or the second.
fn within(text: &str, start: Option<i64>, end: Option<i64>) -> Option<(usize, &str)> {
    let n = text.chars().count() as i64;
    let place = |at: i64| if at < 0 { (at + n).max(0) } else { at };
    let (start, end) = (place(start.unwrap_or(0)), place(end.unwrap_or(n)).min(n));
    if start > end {
        return None;
    }
    let byte = |at: i64| text.char_indices().nth(at as usize).map_or(text.len(), |(byte, _)| byte);
    Some((start as usize, &text[byte(start)..byte(end)]))
}

fn found(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let (what, start, end): (&str, Option<i64>, Option<i64>) = from_args(args)?;
    let within = within(text, start, end);
    if name == "count" {
        let n = within.map_or(0, |(_, text)| text.matches(what).count());
        return Ok(Some(n.into()));
    }
    let at = within.and_then(|(before, text)| {
        let at = if name.starts_with('r') { text.rfind(what) } else { text.find(what) };
        at.map(|at| before + text[..at].chars().count())
    });
    match at {
        Some(at) => Ok(Some(at.into())),
        None if name.ends_with("find") => Ok(Some((-1).into())),
        None => Err(wrong("substring not found")),
    }
}

fn ends(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let (what, start, end): (&Value, Option<i64>, Option<i64>) = from_args(args)?;
    let Some((_, text)) = within(text, start, end) else { return Ok(Some(false.into())) };
    let holds = |what: &Value| -> Result<bool, Error> {
        let what =
            what.as_str().ok_or_else(|| wrong(format!("{name} takes strings, not {}", what.kind())))?;
        Ok(if name == "startswith" { text.starts_with(what) } else { text.ends_with(what) })
    };
    if what.as_str().is_some() || !matches!(what.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Ok(Some(holds(what)?.into()));
    }
    for what in what.try_iter()? {
        if holds(&what)? {
            return Ok(Some(true.into()));
        }
    }
    Ok(Some(false.into()))
}

fn padded(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    if name == "expandtabs" {
        let (size, named): (Option<usize>, Kwargs) = from_args(args)?;
        let size = size.or(named.get("tabsize")?).unwrap_or(8);
        named.assert_all_used()?;
        return Ok(Some(expanded(text, size).into()));
    }
    let (width, fill): (i64, Option<&str>) = from_args(args)?;
    let fill = match fill.map(|fill| (fill, fill.chars().count())) {
        None if name == "zfill" => '0',
        None => ' ',
        Some((fill, 1)) if name != "zfill" => fill.chars().next().unwrap_or(' '),
        _ => return Err(wrong("the fill character must be exactly one character long")),
    };
    let n = usize::try_from(width).unwrap_or(0).saturating_sub(text.chars().count());
    Ok(Some(Value::from(match name {
        "ljust" => filled(text, 0, n, fill),
        "center" => {
            // Python puts the odd character on the left where the width is odd.
            let left = n / 2 + (n & usize::try_from(width).unwrap_or(0) & 1);
            filled(text, left, n - left, fill)
        }
        "zfill" if text.starts_with(['+', '-']) => text[..1].to_owned() + &filled(&text[1..], n, 0, fill),
        _ => filled(text, n, 0, fill),
    })))
}

/// A text between so many fill characters.
pub fn filled(text: &str, left: usize, right: usize, fill: char) -> String {
    let mut made = String::with_capacity(text.len() + left + right);
    made.extend(std::iter::repeat_n(fill, left));
    made.push_str(text);
    made.extend(std::iter::repeat_n(fill, right));
    made
}

fn expanded(text: &str, size: usize) -> String {
    let (mut made, mut column) = (String::new(), 0);
    for c in text.chars() {
        if c == '\t' {
            let n = if size == 0 { 0 } else { size - column % size };
            made.extend(std::iter::repeat_n(' ', n));
            column += n;
        } else {
            made.push(c);
            column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
        }
    }
    made
}

fn place(list: &Value, args: &[Value]) -> Result<Value, Error> {
    let (what,): (&Value,) = from_args(args)?;
    let at = list.try_iter()?.position(|item| item == *what);
    at.map(Value::from).ok_or_else(|| wrong(format!("{what} is not in list")))
}
