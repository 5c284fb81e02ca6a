//! One rendered frame with its ground truth.

/// Which channels a frame has besides color.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// Distance along the viewing direction.
    pub depth: bool,
    /// Object numbers.
    pub objects: bool,
    /// Numbers of the faces seen.
    pub faces: bool,
}

impl Channels {
    /// Depth, objects and faces.
    pub const ALL: Self = Self { depth: true, objects: true, faces: true };
}

/// An image, row by row from the top, with ground truth at each pixel's center.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// Pixels per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Display colors, three bytes per pixel.
    pub rgb: Vec<u8>,
    /// Meters along the viewing direction (not along the ray); infinite for sky. Empty if not
    /// requested.
    pub depth: Vec<f32>,
    /// Object number per pixel, 0 for none. Empty if not requested.
    pub objects: Vec<u16>,
    /// Face number per pixel, 0 for none: a patch of voxel faces about one meter wide, or one face
    /// of a prop (highest bit set). The same surface has the same number in every frame of a scene.
    /// Empty if not requested.
    pub faces: Vec<u32>,
    channels: Channels,
    sorted: Vec<u32>,
}

impl Frame {
    /// A frame with color and the given channels.
    pub fn with_channels(channels: Channels) -> Self {
        Self { channels, ..Self::default() }
    }

    /// Resizes the buffers; their memory is reused between frames.
    pub(crate) fn resize(&mut self, width: usize, height: usize) {
        let pixels = width * height;
        (self.width, self.height) = (width, height);
        self.rgb.resize(pixels * 3, 0);
        self.depth.resize(if self.channels.depth { pixels } else { 0 }, 0.0);
        self.objects.resize(if self.channels.objects { pixels } else { 0 }, 0);
        self.faces.resize(if self.channels.faces { pixels } else { 0 }, 0);
    }

    /// Numbers of the faces that cover at least `pixels` pixels, ascending, into `visible`.
    pub fn visible_faces(&mut self, pixels: usize, visible: &mut Vec<u32>) {
        visible.clear();
        self.sorted.clear();
        self.sorted.extend(self.faces.iter().filter(|&&face| face != 0));
        self.sorted.sort_unstable();
        for run in self.sorted.chunk_by(|a, b| a == b) {
            if run.len() >= pixels {
                visible.push(run[0]);
            }
        }
    }
}
