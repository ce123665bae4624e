//! A matrix of a format without products of its own, as the `bf16` panel that its kernel writes.

use cudarc::driver::result;

use super::super::{
    Error, Gpu,
    driver::failed,
    launch::Argument,
    memory::{MEASURED, Memory},
    products::{self, Way},
};
use tribunal_model::weights::Format;

impl Gpu {
    /// The kernel's name and the bits of the matrix, by rows; `None` for a format that products read
    /// directly.
    ///
    /// Shape: `blocks` the format's blocks of `[n, k]`.
    ///
    /// # Errors
    /// Too little memory, or the device fails.
    ///
    /// # Panics
    /// When the blocks do not have the length of the shape.
    pub fn dequantized(
        &self,
        format: Format,
        blocks: &[u8],
        [n, k]: [usize; 2],
    ) -> Result<Option<(&'static str, Vec<u16>)>, Error> {
        let way = Way::new(format, self.packs());
        let Some(kernel) = way.panel(usize::MAX) else { return Ok(None) };
        assert_eq!(blocks.len(), n * format.row_bytes(k), "blocks of [{n}, {k}]");
        let blocks = &way.laid_out(format, k, blocks);
        self.context().bind_to_thread().map_err(failed("use the device"))?;
        let stream = self.context().new_stream().map_err(failed("a stream"))?;
        let (weight, panel) = (self.sent(blocks)?, Memory::new(self.context(), 2 * n * k, MEASURED)?);
        // Values that the kernel does not write must not pass for numbers: all bits set is NaN. SAFETY: the
        // panel has `2 n k` bytes and is freed only after the stream is synchronised.
        unsafe { result::memset_d8_async(panel.at(), 0xff, 2 * n * k, stream.cu_stream()) }
            .map_err(failed("write memory"))?;
        let shape = products::panel(n, k);
        let pointers = [weight.at(), panel.at(), 0].map(Argument::At);
        let arguments = [&pointers[..], &[0, n, k, 0].map(Argument::size)].concat();
        let mut fetched = vec![0_u8; 2 * n * k];
        // SAFETY: the weight has n rows of k values as the kernel reads them, the panel room for as many in
        // bf16; both are 256-byte aligned and freed after the stream is synchronised, before which `fetched`
        // is not read.
        unsafe {
            self.kernels().launch(stream.cu_stream(), ("dequantize", kernel), shape, &arguments)?;
            result::memcpy_dtoh_async(&mut fetched, panel.at(), stream.cu_stream())
        }
        .map_err(failed("fetch results"))?;
        stream.synchronize().map_err(failed("dequantize"))?;
        let bits = fetched.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
        Ok(Some((kernel, bits)))
    }
}
