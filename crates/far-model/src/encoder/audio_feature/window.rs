//! The stretch of sound that ends with a frame, and the transforms in it.

/// How sound is cut into transforms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AudioWindow {
    /// Samples per second.
    pub rate: u32,
    /// Length of the window that ends with the frame, in seconds.
    pub seconds: f32,
    /// Samples of a transform.
    pub transform: usize,
    /// Samples of the Hann window in its middle.
    pub hann: usize,
    /// Samples between two transforms.
    pub hop: usize,
}

impl AudioWindow {
    /// SoundSpaces' window, whatever the rate of the recording: one second, transforms of 512 samples
    /// with a Hann window of 400, one every 160.
    pub fn soundspaces(rate: u32) -> Self {
        Self { rate, seconds: 1.0, transform: 512, hann: 400, hop: 160 }
    }

    /// Samples of a window.
    pub(super) fn samples(&self) -> usize {
        (f64::from(self.seconds) * f64::from(self.rate)).round() as usize
    }

    /// Bins of a transform.
    pub(super) fn bins(&self) -> usize {
        self.transform / 2 + 1
    }

    /// Transforms of a window: their centers lie in it, the first at its first sample.
    pub(super) fn transforms(&self) -> usize {
        self.samples() / self.hop + 1
    }
}
