//! Texts, tables and score files as other programs write them.
