//! The layers with sliding-window attention, and the window's size.

use serde_json::Value;

use super::{Settings, Windows, shown};
use crate::Result;

impl Settings<'_> {
    /// Layers that are all alike: with the window that is in force or, without one, of full attention.
    pub fn windows_alike(&self) -> Result<Windows> {
        let size = self.window()?;
        let slides = vec![size.is_some(); self.n_layers()?];
        if self.layer_types(SLIDING)?.is_some_and(|listed| listed != slides) {
            let kind = if size.is_some() { "sliding_attention" } else { "full_attention" };
            let reason = format!("differs from layer to layer; in `{}` all are `{kind}`", self.class.name);
            return Err(self.bad("layer_types", reason));
        }
        Ok(Windows { size, slides })
    }

    /// Layers that slide as `layer_types` lists them, or else as `by_default` does.
    pub fn windows_listed(
        &self,
        by_default: impl FnOnce(Option<usize>, usize) -> Result<Vec<bool>>,
    ) -> Result<Windows> {
        let size = self.window()?;
        let slides = match self.layer_types(SLIDING)? {
            Some(listed) => listed,
            None => by_default(size, self.n_layers()?)?,
        };
        if size.is_none() && slides.contains(&true) {
            let reason = "has `sliding_attention`, but no `sliding_window` is in force";
            return Err(self.bad("layer_types", reason));
        }
        Ok(Windows { size, slides })
    }

    /// Layers of full attention, for a class in which `layer_types` is about something else.
    pub fn without_windows(&self) -> Result<Windows> {
        Ok(Windows { size: None, slides: vec![false; self.n_layers()?] })
    }

    /// The window that is in force: none in a class without windows, or where its switch is off.
    fn window(&self) -> Result<Option<usize>> {
        let (key, switch) = ("sliding_window", "use_sliding_window");
        let [has_window, has_switch] = [key, switch].map(|key| self.class.defaults.contains_key(key));
        let is_on = has_window && (!has_switch || self.flag(switch)?);
        let window = if is_on { self.size(key)? } else { None };
        if window == Some(0) {
            return Err(self.bad(key, "is 0; a number from 1 was expected"));
        }
        if !has_switch && self.given(switch).is_some() && self.flag(switch)? != window.is_some() {
            let (value, class) = (window.is_none(), &self.class.name);
            let reason = format!("is {value}, which contradicts the `sliding_window` of `{class}`");
            return Err(self.bad(switch, reason));
        }
        Ok(window)
    }

    /// `layer_types`: for each layer, true if it is of the type `listed`, the other one being full attention.
    pub(super) fn layer_types(&self, listed: &str) -> Result<Option<Vec<bool>>> {
        let key = "layer_types";
        let Some(value) = self.value(key) else { return Ok(None) };
        let bad = |reason: String| self.bad(key, reason);
        let list = value.as_array().ok_or_else(|| bad(format!("is {}, not a list", shown(value))))?;
        let n_layers = self.n_layers()?;
        if list.len() != n_layers {
            return Err(bad(format!("has {} entries; `num_hidden_layers` is {n_layers}", list.len())));
        }
        let is_listed = |kind: &Value| match kind.as_str() {
            Some(kind) if kind == listed => Ok(true),
            Some("full_attention") => Ok(false),
            // An older name.
            Some("attention") if listed == SLIDING => Ok(false),
            _ => Err(bad(format!("has {}; `full_attention` and `{listed}` are known", shown(kind)))),
        };
        list.iter().map(is_listed).collect::<Result<_, _>>().map(Some)
    }
}

const SLIDING: &str = "sliding_attention";
