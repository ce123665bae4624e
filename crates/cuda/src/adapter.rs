//! Adapters on a GPU: the updates of all of them to the weight matrices of one input, in a table that the
//! kernels of `kernels/adapter.cu` read. Kernels are launched elsewhere.

use std::ops::Range;

use super::{
    Error,
    memory::{Memory, WEIGHTS},
    weight_upload::WeightUpload,
};
use tribunal_model::backend::Added;

/// The most rows of a work item; must equal that in `kernels/adapter.cu`.
pub(super) const ITEM_ROWS: usize = 8;

/// The numbers of a work item: the adapter, then the rows; must equal those in `kernels/adapter.cu`.
pub(super) const ITEM: usize = 1 + ITEM_ROWS;

/// The updates of all adapters to weight matrices of one input.
#[derive(Default)]
pub(super) struct Adapters {
    /// Outputs of each matrix.
    outputs: Vec<usize>,
    /// Shape: `[adapters, matrices]`; `None` where an adapter has no update of a matrix.
    pairs: Vec<Option<LowRankPair>>,
    table: Option<PairTable>,
}

/// All pairs, in the layout of the kernels.
pub(super) struct PairTable {
    pub memory: Memory,
    pub n_matrices: usize,
    /// The largest rank among the pairs.
    pub max_rank: usize,
    /// Outputs of the matrix with the most of them.
    pub max_outputs: usize,
}

/// One adapter's two matrices beside one of the model's.
struct LowRankPair {
    /// A `[rank, k]`, then the transpose of B, `[rank, n]`; f32.
    memory: Memory,
    /// Bytes of A.
    a_bytes: usize,
    rank: usize,
    scale: f32,
}

impl Adapters {
    /// No adapters, for matrices with so many outputs.
    pub(super) fn new(outputs: Vec<usize>) -> Self {
        Self { outputs, ..Self::default() }
    }

    /// Number of adapters.
    pub(super) fn len(&self) -> usize {
        self.pairs.len() / self.outputs.len().max(1)
    }

    /// The pairs on the device; `None` where no adapter has any.
    pub(super) fn table(&self) -> Option<&PairTable> {
        self.table.as_ref()
    }

    /// Uploads the next adapter's updates of these outputs of the matrices, and the table again: pointers to
    /// the earlier one are void.
    ///
    /// # Errors
    /// The device has no memory for it, or fails.
    ///
    /// # Panics
    /// Without one update and one range for each matrix.
    pub(super) fn push(
        &mut self,
        parts: &[Option<Added<'_>>],
        outputs: &[Range<usize>],
        upload: &mut WeightUpload,
    ) -> Result<(), Error> {
        assert_eq!(
            [parts.len(), outputs.len()],
            [self.outputs.len(); 2],
            "an update and a range for each matrix"
        );
        let mut send = |(part, outputs): (&Option<Added<'_>>, &Range<usize>)| {
            part.map(|added| LowRankPair::send(added, outputs.clone(), upload)).transpose()
        };
        let row: Vec<Option<LowRankPair>> =
            parts.iter().zip(outputs).map(&mut send).collect::<Result<_, _>>()?;
        self.pairs.extend(row);
        if self.pairs.iter().any(Option::is_some) {
            let memory = upload.bytes(&self.bytes(), WEIGHTS)?;
            self.table = Some(PairTable {
                memory,
                n_matrices: self.outputs.len(),
                max_rank: self.pairs.iter().flatten().map(|pair| pair.rank).max().unwrap_or(0),
                max_outputs: self.outputs.iter().copied().max().unwrap_or(0),
            });
        }
        upload.finish()
    }

    /// The table in the layout of `kernels/adapter.cu`. A missing pair has zero addresses, rank and scale.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for of_adapter in self.pairs.chunks(self.outputs.len()) {
            let mut first = 0;
            for (pair, &n) in of_adapter.iter().zip(&self.outputs) {
                let at = pair.as_ref().map_or(0, |pair| pair.memory.at());
                let b = pair.as_ref().map_or(0, |pair| at + pair.a_bytes as u64);
                let (rank, scale) = pair.as_ref().map_or((0, 0.0), |pair| (pair.rank, pair.scale));
                bytes.extend([at, b].into_iter().flat_map(u64::to_le_bytes));
                bytes.extend((rank as u32).to_le_bytes());
                bytes.extend(scale.to_le_bytes());
                bytes.extend([first, n as u32].into_iter().flat_map(u32::to_le_bytes));
                first += n as u32;
            }
        }
        bytes
    }
}

impl LowRankPair {
    fn send(
        Added { matrices, scale }: Added<'_>,
        outputs: Range<usize>,
        upload: &mut WeightUpload,
    ) -> Result<Self, Error> {
        let rank = matrices.a.len() / matrices.n_in.max(1);
        let b = &matrices.b[outputs.start * rank..outputs.end * rank];
        // Outputs side by side, for threads that compute neighbours.
        let of_rank = |j: usize| b.iter().skip(j).step_by(rank);
        let numbers = matrices.a.iter().chain((0..rank).flat_map(of_rank));
        let bytes: Vec<u8> = numbers.flat_map(|x| x.to_le_bytes()).collect();
        Ok(Self { memory: upload.bytes(&bytes, WEIGHTS)?, a_bytes: 4 * matrices.a.len(), rank, scale })
    }
}
