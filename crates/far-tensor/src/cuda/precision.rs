//! How precisely a GPU computes.

use std::fmt;
use std::str::FromStr;

/// How precisely a GPU computes. Parameters and their optimizer are f32 in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Activations in bfloat16, sums in f32: the fastest.
    #[default]
    Bf16,
    /// Everything in f32, products on tensor cores with 10 bits of mantissa.
    Tf32,
    /// Everything in f32, as on the CPU.
    F32,
}

impl Precision {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Bf16, Self::Tf32, Self::F32];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Tf32 => "tf32",
            Self::F32 => "f32",
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|precision| precision.name() == name);
        found.ok_or_else(|| format!("`{name}` is none of bf16, tf32 and f32"))
    }
}
