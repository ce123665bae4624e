use tribunal::model::cpu::Format;
pub struct Layer;
impl Layer {
    pub fn new(_: Format, _: usize, _: usize, _: &[u8]) -> Option<Self> {
        None
    }
    pub fn forward(&self, _: &[f32], _: usize) {}
}
