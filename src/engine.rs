//! engine

pub mod tokenizer;

pub mod chat;

pub mod grammar;
