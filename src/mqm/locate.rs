//! Finding a span string in its text.
