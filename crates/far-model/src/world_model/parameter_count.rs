//! Where the parameters of a world model are: those of the diffusion transformer that papers count, and
//! those that tell it of poses, times and memory.

use far_tensor::Shape;
use std::fmt;

/// Parts by the beginnings of their parameters' names: first those of a DiT, then what is added to it.
const PARTS: [(&str, &str, bool); 10] = [
    ("blocks.", "blocks", true),
    ("x_embedder.", "patch embedder", true),
    ("t_embedder.", "timestep embedder", true),
    ("final_layer.", "final layer", true),
    ("pose_embedder.", "pose embedder", false),
    ("time_embedder.", "time embedder", false),
    ("stride_embedder.", "stride embedder", false),
    ("role_embedding", "role vectors", false),
    ("state_predictor.", "state predictor", false),
    ("copy_head.", "copy head", false),
];
/// Per-head norms of queries and keys lie inside the blocks, but no DiT has them.
const NORM: &str = "query-key norm";
const NORM_NAMES: [&str; 2] = [".q_norm.", ".k_norm."];
/// Every other embedder is that of a channel of signals.
const SIGNALS: &str = "signal embedders";
const SIGNAL_NAME: &str = "_embedder.";

/// One part of a world model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterPart {
    /// What it is.
    pub name: &'static str,
    /// Whether a DiT has it; else it is conditioning on poses, times and memory, or the norm of
    /// queries and keys.
    pub in_dit: bool,
    /// How many parameters it has.
    pub count: usize,
}

/// How many parameters a world model has, part by part.
///
/// The paper's 129.5 million (LoopNav: 129.7) are the DiT-B/2 that it names; it does not count what
/// tells that network of poses, times and memory.
///
/// ```
/// use far_model::{ConditionScale, DitConfig, DitSetting, LatentShape, SignalLayout};
/// let shape = LatentShape { channels: 4, height: 32, width: 32, patch: 2 };
/// let scale = ConditionScale { length: 1.0, time: 1.0 };
/// let (config, signals) = (DitConfig::default(), SignalLayout::default());
/// let setting = DitSetting { config, shape, scale, signals, view: None };
/// assert_eq!(setting.parameter_count()?.in_dit(), 129_547_040);
/// # Ok::<(), far_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterCount {
    /// The parts that have any, those of the DiT first.
    pub parts: Vec<ParameterPart>,
}

impl ParameterCount {
    /// Counts parameters by their names.
    pub(crate) fn new<'a>(named: impl Iterator<Item = (&'a str, &'a Shape)>) -> Self {
        let parts = PARTS
            .iter()
            .map(|&(_, name, in_dit)| (name, in_dit))
            .chain([(NORM, false), (SIGNALS, false)]);
        let mut parts: Vec<ParameterPart> =
            parts.map(|(name, in_dit)| ParameterPart { name, in_dit, count: 0 }).collect();
        for (name, shape) in named {
            let is_norm = NORM_NAMES.iter().any(|norm| name.contains(norm));
            let known = PARTS.iter().position(|(beginning, ..)| name.starts_with(beginning));
            let signal = name.contains(SIGNAL_NAME).then_some(PARTS.len() + 1);
            let place = if is_norm { Some(PARTS.len()) } else { known.or(signal) };
            let place = place.expect("every parameter of the network belongs to a part");
            parts[place].count += shape.elements();
        }
        parts.retain(|part| part.count > 0);
        Self { parts }
    }

    /// All parameters.
    pub fn total(&self) -> usize {
        self.parts.iter().map(|part| part.count).sum()
    }

    /// Those of the DiT alone.
    pub fn in_dit(&self) -> usize {
        self.parts.iter().filter(|part| part.in_dit).map(|part| part.count).sum()
    }
}

impl fmt::Display for ParameterCount {
    /// Two lines: the parts of the DiT, and what is added to it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |in_dit: bool| {
            let parts = self.parts.iter().filter(|part| part.in_dit == in_dit);
            let parts = parts.map(|part| format!("{} {}", part.name, grouped(part.count)));
            parts.collect::<Vec<_>>().join(", ")
        };
        let [total, in_dit] = [self.total(), self.in_dit()].map(grouped);
        let added = grouped(self.total() - self.in_dit());
        writeln!(formatter, "{total} parameters: {in_dit} as in a DiT ({})", list(true))?;
        write!(formatter, "and {added} beside it ({})", list(false))
    }
}

/// A number with commas between thousands.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let places = digits.char_indices().map(|(place, digit)| {
        let comma = place > 0 && (digits.len() - place).is_multiple_of(3);
        if comma { format!(",{digit}") } else { digit.to_string() }
    });
    places.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Channel, ConditionScale, DitConfig, DitSetting, DitWorldModel, LatentShape, SignalLayout,
        TrainableWorldModel,
    };
    use far_tensor::{AdamWConfig, Device};

    #[test]
    fn every_parameter_of_a_model_is_counted_once() {
        let shape = LatentShape { channels: 3, height: 4, width: 6, patch: 2 };
        let config = DitConfig { depth: 2, width: 8, heads: 2, ..DitConfig::default() };
        let scale = ConditionScale { length: 1.0, time: 1.0 };
        for width in [0, 5] {
            let action = Channel { name: "action", width };
            let signals = SignalLayout { action, ..SignalLayout::default() };
            let setting = DitSetting { config, shape, scale, signals, view: None };
            let count = setting.parameter_count().expect("a network");
            let model = DitWorldModel::new(setting, AdamWConfig::default(), 0, &Device::cpu());
            assert_eq!(count.total(), model.expect("a model").parameter_count());
            let has = |name| count.parts.iter().any(|part| part.name == name);
            assert_eq!((has(SIGNALS), has(NORM)), (width > 0, true));
        }
    }

    #[test]
    fn thousands_are_separated() {
        let written = [0, 12, 999, 1000, 129_547_040].map(grouped);
        assert_eq!(written, ["0", "12", "999", "1,000", "129,547,040"]);
    }
}
