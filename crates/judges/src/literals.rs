//! The part of Python's syntax that authors' published files use: a reader of literals and a formatter of
//! templates. No Python is run.

use std::{iter::Peekable, str::Chars};

use serde_json::{Map, Number, Value};

use crate::setup;

/// The value of a text that is one literal. `true`, `false` and `null` are names in Python, not values.
pub fn literal(text: &str) -> Option<Value> {
    let mut reader = Reader { chars: text.chars().peekable() };
    let value = reader.value()?;
    reader.skip_space();
    reader.chars.next().is_none().then_some(value)
}

/// The first literal that follows these words: `literal_after(file, "judge_prompt =")`. A call stands for its
/// keyword arguments.
pub fn literal_after(source: &str, words: &str) -> Option<Value> {
    let mut rests = source.match_indices(words).map(|(at, _)| &source[at + words.len()..]);
    rests.find_map(|tail| Reader { chars: tail.chars().peekable() }.value())
}

/// `template.format(name=value, ...)`; an empty name stands for `{}`. Values are not formatted again.
pub fn format(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::new();
    let mut tail = template;
    while let Some(open) = tail.find('{') {
        let field = values.iter().find(|(name, _)| {
            tail[open + 1..].strip_prefix(name).is_some_and(|behind| behind.starts_with('}'))
        });
        let (name, value) = field.map_or(("", "{"), |(name, value)| (*name, *value));
        text.push_str(&tail[..open]);
        text.push_str(value);
        tail = &tail[open + 1 + if field.is_some() { name.len() + 1 } else { 0 }..];
    }
    text + tail
}

/// Python's value of an f-string, or of `str.format`, with these names: `{{` and `}}` are braces. `None` if
/// it has another name, or a format specification.
pub fn interpolate(template: &str, values: &[(&str, &str)]) -> Option<String> {
    let mut text = String::new();
    let mut tail = template;
    while let Some(at) = tail.find(['{', '}']) {
        let (before, brace) = (&tail[..at], &tail[at..=at]);
        text.push_str(before);
        tail = &tail[at + 1..];
        if let Some(behind) = tail.strip_prefix(brace) {
            text.push_str(brace);
            tail = behind;
            continue;
        }
        let (name, behind) = tail.split_once('}').filter(|_| brace == "{")?;
        text.push_str(values.iter().find(|(known, _)| *known == name)?.1);
        tail = behind;
    }
    Some(text + tail)
}

/// A published Python file, from which texts are read by the words before them.
pub struct SourceFile {
    /// For messages.
    pub name: String,
    pub text: String,
}

impl SourceFile {
    /// The error of a file that does not have the expected form.
    pub fn fault(&self, reason: &str) -> setup::Error {
        setup::Error::Prompt { file: self.name.clone(), reason: reason.into() }
    }

    /// The first literal after these words.
    ///
    /// # Errors
    /// [`setup::Error::Prompt`] where there is none.
    pub fn value(&self, words: &str) -> setup::Result<Value> {
        let name = words.trim().trim_end_matches('=').trim_end();
        literal_after(&self.text, words).ok_or_else(|| self.fault(&format!("it does not define `{name}`")))
    }

    /// The text after these words.
    ///
    /// # Errors
    /// [`setup::Error::Prompt`] where there is none.
    pub fn text(&self, words: &str) -> setup::Result<String> {
        match self.value(words)? {
            Value::String(text) => Ok(text),
            _ => Err(self.fault(&format!("`{}` is not a text", words.trim()))),
        }
    }

    /// The list of texts after these words.
    ///
    /// # Errors
    /// [`setup::Error::Prompt`] where there is none.
    pub fn list(&self, words: &str) -> setup::Result<Vec<String>> {
        serde_json::from_value(self.value(words)?)
            .map_err(|e| self.fault(&format!("`{}`: {e}", words.trim())))
    }
}

struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
}

impl Reader<'_> {
    fn value(&mut self) -> Option<Value> {
        self.skip_space();
        match self.chars.peek()? {
            '"' | '\'' => self.text().map(Value::String),
            '(' => self.joined().map(Value::String),
            '[' => self.list().map(Value::Array),
            '{' => self.fields('}', ':', Self::text).map(Value::Object),
            '-' | '0'..='9' => self.number(),
            _ => self.named(),
        }
    }

    /// Spaces, lines and comments.
    fn skip_space(&mut self) {
        while self.chars.next_if(|c| c.is_whitespace()).is_some() {}
        if self.chars.peek() == Some(&'#') {
            while self.chars.next_if(|c| *c != '\n').is_some() {}
            self.skip_space();
        }
    }

    fn eat(&mut self, expected: char) -> Option<()> {
        self.skip_space();
        self.chars.next_if_eq(&expected).map(|_| ())
    }

    fn list(&mut self) -> Option<Vec<Value>> {
        self.eat('[')?;
        let mut items = Vec::new();
        while self.eat(']').is_none() {
            items.push(self.value()?);
            if self.eat(',').is_none() {
                self.eat(']')?;
                break;
            }
        }
        Some(items)
    }

    /// The pairs of a dictionary or of a call, from after their opening bracket to the closing one.
    fn fields(
        &mut self,
        close: char,
        between: char,
        name: fn(&mut Self) -> Option<String>,
    ) -> Option<Map<String, Value>> {
        self.chars.next();
        let mut fields = Map::new();
        while self.eat(close).is_none() {
            self.skip_space();
            let name = name(self)?;
            self.eat(between)?;
            fields.insert(name, self.value()?);
            if self.eat(',').is_none() {
                self.eat(close)?;
                break;
            }
        }
        Some(fields)
    }

    /// The texts in a pair of brackets, concatenated; f-strings keep their source form.
    fn joined(&mut self) -> Option<String> {
        self.eat('(')?;
        let mut text = String::new();
        while self.eat(')').is_none() {
            self.chars.next_if_eq(&'f');
            text += &self.text()?;
        }
        Some(text)
    }

    fn number(&mut self) -> Option<Value> {
        let digits: String =
            std::iter::from_fn(|| self.chars.next_if(|c| c.is_ascii_digit() || "+-.eE".contains(*c)))
                .collect();
        digits.parse::<Number>().ok().map(Value::Number)
    }

    fn name(&mut self) -> Option<String> {
        let is_part = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let name: String = std::iter::from_fn(|| self.chars.next_if(is_part)).collect();
        Some(name).filter(|name| !name.is_empty())
    }

    /// A constant, or a call.
    fn named(&mut self) -> Option<Value> {
        match self.name()?.as_str() {
            "True" => Some(Value::Bool(true)),
            "False" => Some(Value::Bool(false)),
            "None" => Some(Value::Null),
            _ if self.chars.peek() == Some(&'(') => self.fields(')', '=', Self::name).map(Value::Object),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<String> {
        let quote = self.chars.next_if(|c| matches!(c, '"' | '\''))?;
        let mut n_quotes = 1;
        while n_quotes < 3 && self.chars.next_if_eq(&quote).is_some() {
            n_quotes += 1;
        }
        if n_quotes == 2 {
            return Some(String::new());
        }
        let mut text = String::new();
        let mut n_closing = 0;
        while n_closing < n_quotes {
            let c = self.chars.next()?;
            n_closing = if c == quote { n_closing + 1 } else { 0 };
            match c {
                '\\' => self.escaped(&mut text)?,
                '\n' if n_quotes == 1 => return None,
                c => text.push(c),
            }
        }
        text.truncate(text.len() - n_quotes);
        Some(text)
    }

    /// The character that an escape stands for; an unknown escape is kept.
    fn escaped(&mut self, text: &mut String) -> Option<()> {
        let c = self.chars.next()?;
        match c {
            '\n' => {}
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            '\\' | '\'' | '"' => text.push(c),
            'x' => text.push(self.code(2)?),
            'u' => text.push(self.code(4)?),
            'U' => text.push(self.code(8)?),
            c => text.extend(['\\', c]),
        }
        Some(())
    }

    fn code(&mut self, n_digits: usize) -> Option<char> {
        let digits: String = self.chars.by_ref().take(n_digits).collect();
        char::from_u32(u32::from_str_radix(&digits, 16).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn literals() {
        let check = |text: &str, expected: Option<Value>| assert_eq!(literal(text), expected, "{text}");
        check(r#"{"a": [1, -2.5, "x"], 'b': None,}"#, Some(json!({"a": [1, -2.5, "x"], "b": null})));
        check(" [ ] # nothing\n", Some(json!([])));
        check(r"'it\'s \u00e9 \x41 \d'", Some(json!("it's é A \\d")));
        check("'''\n{\"a\"}\n'''", Some(json!("\n{\"a\"}\n")));
        check(r#""""a"b""""#, Some(json!("a\"b")));
        check(r#"["", '', True, False]"#, Some(json!(["", "", true, false])));
        // Neither are literals in Python.
        check("{\"a\": true}", None);
        check("'a\nb'", None);
        check("{\"a\": 1} and more", None);
        check("{\"a\": 1", None);
        check("(\n    \"a\"  # one\n    f'{b}'\n)", Some(json!("a{b}")));
        check("(\"a\", \"b\")", None);
    }

    #[test]
    fn literals_behind_words() {
        let file = "from x import y\nmy_prompt = other\n# prompt = 'old'?\nprompt = \"new\" # 3\nshots = [\n    template.format(a=\"1\", b='2'),  # one\n]\n";
        assert_eq!(literal_after(file, "\nprompt ="), Some(json!("new")));
        assert_eq!(literal_after(file, "shots ="), Some(json!([{"a": "1", "b": "2"}])));
        assert_eq!(literal_after(file, "my_prompt ="), None, "a name is not a literal");
        assert_eq!(literal_after(file, "none ="), None);
    }

    #[test]
    fn braces_of_f_strings() {
        let filled = |template: &str| interpolate(template, &[("a", "{b}"), ("b", "2")]);
        assert_eq!(filled("{a}: {{\"n\": {b}}}").unwrap(), "{b}: {\"n\": 2}");
        assert_eq!(filled("none").unwrap(), "none");
        for wrong in ["{c}", "{b", "b}", "{b!r}"] {
            assert_eq!(filled(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn templates_are_filled_in_once() {
        assert_eq!(format("{a}: {b} {c} {a}", &[("a", "{b}"), ("b", "2")]), "{b}: 2 {c} {b}");
        assert_eq!(format("```{}``` {", &[("", "x")]), "```x``` {");
    }
}
