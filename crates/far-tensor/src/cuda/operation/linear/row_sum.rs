//! Passes over whole matrices beside the products: GELU, its slope, sums over rows.

use super::LINEAR;
use crate::Result;
use crate::cuda::{Cuda, Element, Launch, arguments};
use crate::gradient::RowSums;

/// Blocks of a sum over rows for each processor of the chip.
const BLOCKS_EACH: usize = 4;

/// Rows of f32 that are added up at once, as if they were parts.
const FEW_ROWS: usize = 256;

/// Threads that each take one 16-byte vector.
fn vectors(element: Element, length: usize) -> Launch {
    Launch::elements(length.div_ceil(16 / element.size()))
}

impl Cuda {
    /// target ← GELU(source).
    pub(super) fn gelu(
        &self,
        element: Element,
        source: u64,
        target: u64,
        length: usize,
    ) -> Result<()> {
        let arguments = arguments![source, target, length];
        self.launch(LINEAR.kernel("gelu"), element, vectors(element, length), arguments)
    }

    /// The sum over rows of a matrix [rows, width], as f32; added to the target if `accumulate`.
    pub(crate) fn column_sums(
        &self,
        source: (u64, Element),
        [rows, width]: [usize; 2],
        target: u64,
        accumulate: bool,
    ) -> Result<()> {
        if source.1 == Element::F32 && rows <= FEW_ROWS {
            return self.add_partials(source.0, [rows, width], target, accumulate);
        }
        let sums = self.row_sums(source, [rows, width])?;
        self.add_row_sums(&sums, target, accumulate)
    }

    /// The sums over rows of a matrix [rows, width], in parts.
    pub(super) fn row_sums(
        &self,
        (pointer, element): (u64, Element),
        [rows, width]: [usize; 2],
    ) -> Result<RowSums> {
        let strips = Strips::new(self, element, [rows, width], pointer);
        let partials = self.buffer(Element::F32, strips.parts * width)?;
        let sums = partials.pointer();
        if strips.vectors {
            self.strip_sums((pointer, element), sums, [rows, width, width], &strips)?;
        } else {
            let arguments = arguments![pointer, sums, rows, width, strips.part_rows];
            self.launch(LINEAR.kernel("column_sums"), element, strips.launch(), arguments)?;
        }
        Ok(RowSums { partials, parts: strips.parts, width })
    }

    /// The sums over parts of `part_rows` rows of a band, whole vectors at an aligned place: `width` columns of
    /// rows that are `stride` long, in the matrix and among the sums.
    pub(in crate::cuda::operation) fn band_sums(
        &self,
        source: (u64, Element),
        sums: u64,
        [rows, width, stride]: [usize; 3],
        part_rows: usize,
    ) -> Result<()> {
        let across = width.div_ceil(32 * 16 / source.1.size());
        let strips = Strips { vectors: true, across, parts: rows.div_ceil(part_rows), part_rows };
        self.strip_sums(source, sums, [rows, width, stride], &strips)
    }

    fn strip_sums(
        &self,
        (pointer, element): (u64, Element),
        sums: u64,
        [rows, width, stride]: [usize; 3],
        strips: &Strips,
    ) -> Result<()> {
        let arguments = arguments![pointer, sums, rows, width, strips.part_rows, stride];
        self.launch(LINEAR.kernel("strip_sums"), element, strips.launch(), arguments)
    }

    /// target [width] ← the sum over the parts, added if `accumulate`.
    pub(super) fn add_row_sums(&self, sums: &RowSums, target: u64, accumulate: bool) -> Result<()> {
        let sizes = [sums.parts, sums.width];
        self.add_partials(sums.partials.pointer(), sizes, target, accumulate)
    }

    fn add_partials(
        &self,
        partials: u64,
        [parts, width]: [usize; 2],
        target: u64,
        accumulate: bool,
    ) -> Result<()> {
        let arguments = arguments![partials, target, parts, width, accumulate];
        let threads = if parts > 64 { 1024 } else { 256 };
        let launch = Launch::blocks(width.div_ceil(32), threads);
        self.launch_plain(LINEAR.kernel("add_partials"), launch, arguments)
    }

    /// gradient ← gradient·GELU'(before), both [rows, width], in place, and the sums of that over its rows.
    pub(super) fn gelu_backward(
        &self,
        gradient: u64,
        before: u64,
        [rows, width]: [usize; 2],
    ) -> Result<RowSums> {
        let element = self.element();
        let strips = Strips::new(self, element, [rows, width], gradient | before);
        if !strips.vectors {
            let (length, arguments) = (rows * width, arguments![gradient, before, rows * width]);
            self.launch(LINEAR.kernel("gelu_slope"), element, Launch::elements(length), arguments)?;
            return self.row_sums((gradient, element), [rows, width]);
        }
        let partials = self.buffer(Element::F32, strips.parts * width)?;
        let arguments =
            arguments![gradient, before, partials.pointer(), rows, width, strips.part_rows];
        self.launch(LINEAR.kernel("gelu_backward"), element, strips.launch(), arguments)?;
        Ok(RowSums { partials, parts: strips.parts, width })
    }
}

/// How a matrix is cut for sums over its rows.
struct Strips {
    /// Whether its rows are whole vectors of 16 bytes.
    vectors: bool,
    across: usize,
    parts: usize,
    part_rows: usize,
}

impl Strips {
    fn new(cuda: &Cuda, element: Element, [rows, width]: [usize; 2], pointer: u64) -> Self {
        let vector = 16 / element.size();
        let vectors = width.is_multiple_of(vector) && pointer.is_multiple_of(16);
        let across = width.div_ceil(if vectors { 32 * vector } else { 256 }).max(1);
        let wanted = (BLOCKS_EACH * cuda.context().processors).div_ceil(across);
        // At least a few rows for each warp.
        let part_rows = rows.div_ceil(wanted).max(32);
        Self { vectors, across, parts: rows.div_ceil(part_rows).max(1), part_rows }
    }

    fn launch(&self) -> Launch {
        Launch { grid: [self.across, self.parts, 1], threads: 256, shared: 0 }
    }
}
