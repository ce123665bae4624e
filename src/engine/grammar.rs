//! Placeholder until the grammar room is merged.
use crate::{
    engine::tokenizer::Tokenizer,
    llm::{Error, Form},
};
pub struct Vocabulary;
pub struct Grammar;
impl Vocabulary {
    pub fn new(_: &std::sync::Arc<Tokenizer>, _: usize) -> Result<Self, Error> {
        Ok(Self)
    }
    pub fn grammar(&self, _: &Form) -> Result<Option<Grammar>, Error> {
        Ok(None)
    }
}
impl Grammar {
    pub fn closing_reserve(&self) -> usize {
        0
    }
    pub fn closing_mask(&mut self) -> Result<&[u32], Error> {
        Ok(&[])
    }
    pub fn mask(&mut self) -> Result<&[u32], Error> {
        Ok(&[])
    }
    pub fn advance(&mut self, _: u32) -> Result<(), Error> {
        Ok(())
    }
    pub fn must_stop(&mut self) -> bool {
        false
    }
    pub fn may_stop(&mut self) -> bool {
        false
    }
}
