//! Pictures as another camera has them, on a GPU.

use crate::cuda::{Cuda, CudaBuffer, Element, Launch, Program, arguments, programs};
use crate::{PatchGrid, Result, Tensor};

programs! {
    /// Projective maps of pictures.
    WARP = "warp": "run.cuh", "warp.cu";
}

impl Cuda {
    /// See [`crate::Tape::warp`].
    pub(crate) fn warp(
        &self,
        x: &Tensor,
        grid: PatchGrid,
        maps: &[[f32; 9]],
    ) -> Result<CudaBuffer> {
        let element = x.element(self);
        let count = x.shape().elements();
        let output = self.buffer(element, count)?;
        let places = self.buffer(Element::F32, 9 * maps.len())?;
        self.write(places.pointer(), maps)?;
        let PatchGrid { rows, columns, colors, side } = grid;
        let [rows, columns, colors, side] = [rows, columns, colors, side].map(|size| size as i32);
        let source = x.pointer(self, element)?;
        let (target, maps) = (output.pointer(), places.pointer());
        let arguments = arguments![source, target, maps, count, rows, columns, colors, side];
        let kernel = WARP.kernel("warp");
        self.launch(kernel, element, Launch::elements(count), arguments)?;
        Ok(output)
    }
}
