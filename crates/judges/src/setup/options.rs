//! Options of a method besides the settings: declared once with their values and the type that they are
//! parsed into, so that a judge never reads their text. The methods declare their own.

use std::{collections::BTreeMap, ops::Deref};

use serde::Serialize;

use super::{Error, Result, Settings, either, nearest};

/// Declares the options of a method: a struct with a field for each, and the rows of its descriptor. The
/// first value is the default; `<number>`, `<file>` and `<list>` stand for any number that is not negative,
/// any path, and names joined by `+`.
///
/// ```text
/// options! {
///     /// Options of a method.
///     pub struct Options {
///         "score" is_mean: bool = { "sum" => false, "mean" => true }, "how points make the score";
///         "rounds" rounds: f64 = { "3" => 3.0, <number> |n| n }, "rounds of a debate";
///     }
/// }
/// ```
macro_rules! options {
    ($(#[$doc:meta])* $vis:vis struct $asked:ident {
        $($name:literal $field:ident: $kind:ty = {
            $($word:literal => $value:expr),+ $(, <$any:ident> $read:expr)?
        }, $meaning:expr;)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        $vis struct $asked { $($vis $field: $crate::setup::OptionValue<$kind>),+ }

        impl $asked {
            /// The options with their values, the default first.
            pub const CHOICES: &'static [$crate::setup::OptionSpec] = &[$($crate::setup::OptionSpec {
                name: $name,
                values: &[$($word),+ $(, concat!("<", stringify!($any), ">"))?],
                meaning: $meaning,
            }),+];

            /// Reads the options of a request.
            ///
            /// # Panics
            /// When these are the options of another method.
            pub fn read(options: &$crate::setup::GivenOptions) -> Self {
                Self {
                    $($field: options.value($name, |text| -> Option<$kind> {
                        match text {
                            $($word => Some($value),)+
                            _ => None$(.or_else(|| $crate::setup::$any(text).map($read)))?,
                        }
                    })),+
                }
            }
        }
    };
}
pub(crate) use options;

/// A `<number>`: finite, and not negative.
pub(crate) fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0)
}

/// A `<file>`: any path.
pub(crate) fn file(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// A `<list>`: names joined by `+`.
pub(crate) fn list(text: &str) -> Option<Vec<String>> {
    let names = text.split('+').map(|name| name.trim().to_owned());
    Some(names.collect::<Vec<_>>()).filter(|names| names.iter().all(|name| !name.is_empty()))
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionValue<T> {
    pub value: T,
    /// As it is written, for messages.
    pub text: String,
    /// True if the request has the option: this is not the default.
    pub is_given: bool,
}

impl<T> Deref for OptionValue<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Use of the reference translation, in methods with a variant that shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// When every segment of the input has one.
    Auto,
    On,
    Off,
}

impl Reference {
    /// The name of the option.
    pub const NAME: &'static str = "reference";

    /// Its description in `tribunal methods show`.
    pub const MEANING: &'static str =
        "show the reference translation; auto: when every segment of the input has one";

    /// True if the reference-based variant is in force.
    pub fn is_shown(self, settings: &Settings) -> bool {
        self == Self::On || self == Self::Auto && settings.has_references
    }
}

/// One option of a method and the values that it takes, the default first. `<number>` among them stands for
/// any number that is not negative, `<file>` for any path, `<list>` for names joined by `+`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OptionSpec {
    pub name: &'static str,
    pub values: &'static [&'static str],
    pub meaning: &'static str,
}

impl OptionSpec {
    fn takes(&self, value: &str) -> bool {
        self.values.iter().any(|known| match *known {
            "<number>" => number(value).is_some(),
            "<file>" => file(value).is_some(),
            "<list>" => list(value).is_some(),
            word => word == value,
        })
    }
}

/// The options of one request; those that are not given have their default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenOptions {
    values: BTreeMap<&'static str, String>,
    given: Vec<&'static str>,
}

impl GivenOptions {
    /// Reads `option=value,...` against the options that the method of this name has.
    ///
    /// # Errors
    /// [`Error::Option`], [`Error::Value`] or [`Error::Syntax`]; they list what exists.
    pub fn parse(method: &str, choices: &[OptionSpec], text: &str) -> Result<Self> {
        let mut options = Self {
            values: choices.iter().map(|choice| (choice.name, choice.values[0].to_owned())).collect(),
            given: Vec::new(),
        };
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| Error::Syntax(part.into()))?;
            let choice = find_choice(method, choices, name.trim())?;
            let value = value.trim();
            if !choice.takes(value) {
                return Err(Error::Value {
                    option: format!("option `{}` of `{method}`", choice.name),
                    value: value.into(),
                    known: either(choice.values.iter().copied()),
                });
            }
            if options.given.contains(&choice.name) {
                return Err(Error::Conflict(format!("option `{}` is given twice", choice.name)));
            }
            options.values.insert(choice.name, value.to_owned());
            options.given.push(choice.name);
        }
        Ok(options)
    }

    /// The text of an option that the method has.
    fn text(&self, name: &str) -> &str {
        self.values.get(name).expect("options are read by the method whose request they are")
    }

    /// An option as parsed by `read`.
    pub(crate) fn value<T>(&self, name: &'static str, read: impl Fn(&str) -> Option<T>) -> OptionValue<T> {
        let text = self.text(name).to_owned();
        let value = read(&text).expect("a request with another value has been refused");
        OptionValue { value, text, is_given: self.given.contains(&name) }
    }

    /// The value in force, as in the signature: numbers in one spelling, `auto` of [`Reference`] as resolved.
    ///
    /// # Panics
    /// When the method does not have the option.
    pub fn in_force(&self, choice: &OptionSpec, settings: &Settings) -> String {
        let text = self.text(choice.name);
        if choice.name == Reference::NAME {
            return match text {
                "auto" if settings.has_references => "on".into(),
                "auto" => "off".into(),
                word => word.into(),
            };
        }
        let number = number(text).filter(|_| choice.values.contains(&"<number>"));
        number.map_or_else(|| text.to_owned(), |number| number.to_string())
    }
}

fn find_choice<'c>(method: &str, choices: &'c [OptionSpec], name: &str) -> Result<&'c OptionSpec> {
    let plain = name.replace('_', "-");
    choices.iter().find(|choice| choice.name == plain).ok_or_else(|| Error::Option {
        method: method.into(),
        name: name.into(),
        known: choices.iter().map(|choice| choice.name).collect::<Vec<_>>().join(", "),
        nearest: nearest(&plain, choices.iter().map(|choice| choice.name)),
    })
}
