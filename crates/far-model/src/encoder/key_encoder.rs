//! A trained QueryViT, frozen: rows of frames to the keys and queries of one cue.

use crate::encoder::cue_encoder::recipe_on;
use crate::layer::Pass;
use crate::weight_file::to_json;
use crate::{
    ActionFeatures, ConditionScale, CueEncoder, Error, LatentShape, QueryVit, QueryVitConfig,
    Result,
};
use far_data::hash_bytes;
use far_tensor::{
    ArenaBuilder, Checkpoint, CheckpointWriter, Device, Matching, Parameters, Tape, Tensor,
};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Mutex;

/// Frames encoded at a time on the CPU: enough to keep all cores busy, little enough to stay in the cache.
const FRAMES_AT_A_TIME: usize = 128;
/// And on a GPU, which wants many; half a gigabyte at the paper's size.
const FRAMES_ON_A_GPU: usize = 256;
/// Rows times columns of the largest latent that a file may ask for.
const MOST_PLACES: usize = 1 << 20;
/// The note of a file that holds an [`EncoderDescription`].
const NOTE: &str = "encoder";

/// Everything about an encoder but its weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncoderDescription {
    /// The cue's name in memories.
    pub cue: String,
    /// The network.
    pub network: QueryVitConfig,
    /// The rows it reads, as tokens: latents, or what a [`crate::CueFeature`] makes.
    pub latent: LatentShape,
    /// The recipe of the tokenizer or the feature that makes them.
    #[serde(alias = "tokenizer")]
    pub input: String,
    /// The units of the actions it was taught.
    pub scale: ConditionScale,
    /// Numbers of the channel [`crate::SignalLayout::action`].
    #[serde(default)]
    pub signals: usize,
}

impl EncoderDescription {
    /// The network and its fresh parameters.
    ///
    /// # Errors
    /// If the settings do not make a network.
    pub fn build(&self, seed: u64) -> Result<(QueryVit, Parameters)> {
        let mut builder = ArenaBuilder::new("encoder");
        let network = QueryVit::new(&mut builder, self.network, self.latent, self.signals)?;
        Ok((network, builder.build(seed)))
    }
}

/// A frozen encoder of what is seen, heard or felt.
///
/// ```
/// use far_model::{ConditionScale, CueEncoder, EncoderDescription, LatentShape, QueryVitConfig};
/// use far_model::KeyEncoder;
/// use far_tensor::Device;
/// let latent = LatentShape { channels: 4, height: 4, width: 4, patch: 2 };
/// let network = QueryVitConfig { depth: 1, width: 16, heads: 2, key: 8 };
/// let scale = ConditionScale { length: 4.0, time: 6.4 };
/// let (cue, input) = ("vision".into(), "none".into());
/// let description = EncoderDescription { cue, network, latent, input, scale, signals: 0 };
/// let (_, parameters) = description.build(7)?;
/// let encoder = KeyEncoder::new(description, parameters.values(), &Device::cpu())?;
/// assert_eq!(encoder.keys(&[0.5; 3 * 64])?.len(), 3 * 8);
/// # Ok::<(), far_model::Error>(())
/// ```
pub struct KeyEncoder {
    description: EncoderDescription,
    network: QueryVit,
    parameters: Parameters,
    recipe: String,
    device: Device,
    /// Held while frames pass a GPU, so that many threads do not need its memory at once.
    passing: Mutex<()>,
}

impl KeyEncoder {
    /// An encoder with the given weights: all values of an arena that [`EncoderDescription::build`]
    /// made.
    ///
    /// # Errors
    /// If the settings do not make a network or the values do not fill it.
    pub fn new(description: EncoderDescription, values: &[f32], device: &Device) -> Result<Self> {
        let (network, parameters) = description.build(0)?;
        let parameters = parameters.with_values(values)?;
        Ok(Self::frozen(description, network, parameters, device))
    }

    fn frozen(
        description: EncoderDescription,
        network: QueryVit,
        mut parameters: Parameters,
        device: &Device,
    ) -> Self {
        parameters.freeze();
        let weights = parameters.stored().flat_map(|(_, _, values)| values);
        let bytes: Vec<u8> = weights.flat_map(f32::to_le_bytes).collect();
        let recipe = format!("{} {}", to_json(&description), hash_bytes(&bytes));
        let recipe = recipe_on(device, recipe);
        let (device, passing) = (device.clone(), Mutex::default());
        Self { description, network, parameters, recipe, device, passing }
    }

    /// All weights, as [`KeyEncoder::new`] takes them.
    pub fn values(&self) -> &[f32] {
        self.parameters.values()
    }

    /// Everything but the weights.
    pub fn description(&self) -> &EncoderDescription {
        &self.description
    }

    /// Checks that it was taught by rows of this recipe, as [`crate::EncodedDataset::input_recipe`]
    /// has them.
    ///
    /// # Errors
    /// If they are others.
    pub fn check_input(&self, recipe: &str) -> Result<()> {
        if self.description.input == recipe {
            return Ok(());
        }
        let taught = &self.description.input;
        let reason = format!("the encoder was taught with other inputs, {taught}");
        Err(Error::Setting { setting: "encoder", reason })
    }

    /// Writes the encoder: its weights by name, as PyTorch has them, and its description as a note.
    ///
    /// # Errors
    /// If a weight is not finite or the system refuses.
    pub fn save(&self, path: &Path) -> Result<()> {
        Ok(self.file().save(path)?)
    }

    /// The same with one more note, as of what made it.
    ///
    /// # Errors
    /// As [`KeyEncoder::save`].
    pub fn save_with_note(&self, path: &Path, key: &str, note: &str) -> Result<()> {
        Ok(self.file().note(key, note).save(path)?)
    }

    fn file(&self) -> CheckpointWriter<'_> {
        let file = CheckpointWriter::new().parameters("", &self.parameters);
        file.note(NOTE, to_json(&self.description))
    }

    /// Reads what [`KeyEncoder::save`] wrote.
    ///
    /// # Errors
    /// If the file cannot be read or is not an encoder.
    pub fn load(path: &Path, device: &Device) -> Result<Self> {
        let length = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        Self::from_checkpoint(path, Checkpoint::open(path)?, length, device)
    }

    /// Reads the bytes of a file; `path` is for messages.
    ///
    /// # Errors
    /// If they are not an encoder.
    pub fn from_bytes(path: &Path, bytes: Vec<u8>, device: &Device) -> Result<Self> {
        let length = bytes.len() as u64;
        Self::from_checkpoint(path, Checkpoint::from_bytes(path, bytes)?, length, device)
    }

    fn from_checkpoint(
        path: &Path,
        mut file: Checkpoint,
        bytes: u64,
        device: &Device,
    ) -> Result<Self> {
        let wrong = |reason: String| Error::File { path: path.to_owned(), reason };
        let note = file.notes().get(NOTE);
        let note =
            note.ok_or_else(|| wrong("it is not an encoder: it has no description".into()))?;
        let description: EncoderDescription = serde_json::from_str(note)
            .map_err(|error| wrong(format!("its description does not read: {error}")))?;
        // A few wrong numbers must not ask for more memory than the file could ever fill.
        if 4.0 * description.least_parameters() > bytes as f64 {
            let network = description.network;
            return Err(wrong(format!("{bytes} bytes cannot hold the weights of {network:?}")));
        }
        if description.latent.height.saturating_mul(description.latent.width) > MOST_PLACES {
            let latent = description.latent;
            return Err(wrong(format!("{latent:?} has more than {MOST_PLACES} places")));
        }
        let (network, mut parameters) = description.build(0)?;
        file.load_parameters("", &mut parameters, Matching::Strict)?;
        file.expect_all_used()?;
        Ok(Self::frozen(description, network, parameters, device))
    }

    /// Encodes frames, a fixed number at a time.
    fn encode(&self, frames: &[f32], actions: Option<&[ActionFeatures]>) -> Result<Vec<f32>> {
        let shape = self.description.latent;
        let elements = shape.elements();
        let count = frames.len() / elements;
        Error::check_length("the frames", frames.len(), count * elements)?;
        Error::check_length("the actions", actions.map_or(count, <[_]>::len), count)?;
        let mut encoded = Vec::with_capacity(count * self.dimension());
        let parallel = self.device.parallel();
        let together = if parallel { FRAMES_AT_A_TIME } else { FRAMES_ON_A_GPU };
        for start in (0..count).step_by(together) {
            let end = count.min(start + together);
            let _passing = (!parallel).then(|| self.passing.lock());
            let sizes = [end - start, shape.tokens(), shape.token_width()];
            let part = Tensor::from_slice(&frames[start * elements..end * elements], sizes)?;
            let signals = self.description.signals;
            let actions = actions.map(|rows| ActionFeatures::tensor(&rows[start..end], signals));
            let actions = actions.transpose()?;
            let mut tape = Tape::inference(&self.device);
            let mut pass = Pass::new(&mut tape, &self.parameters);
            let found = self.network.forward(&mut pass, &part, actions.as_ref())?;
            encoded.extend_from_slice(found.values());
        }
        Ok(encoded)
    }
}

impl CueEncoder for KeyEncoder {
    fn cue(&self) -> &str {
        &self.description.cue
    }

    fn dimension(&self) -> usize {
        self.description.network.key
    }

    fn recipe(&self) -> String {
        self.recipe.clone()
    }

    fn keys(&self, frames: &[f32]) -> Result<Vec<f32>> {
        self.device.run(|| self.encode(frames, None))
    }

    fn queries(&self, frames: &[f32], actions: &[ActionFeatures]) -> Result<Vec<f32>> {
        self.device.run(|| self.encode(frames, Some(actions)))
    }
}

impl EncoderDescription {
    /// At most as many parameters as the encoder has, however large its sizes are.
    fn least_parameters(&self) -> f64 {
        let token = [self.latent.patch, self.latent.patch, self.latent.channels];
        let token: f64 = token.iter().map(|size| *size as f64).product();
        let inputs = token + self.signals as f64;
        self.network.least_parameters() + inputs * self.network.width as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_memory::Displacement;
    use far_tensor::Random;

    const LATENT: LatentShape = LatentShape { channels: 3, height: 4, width: 4, patch: 2 };

    fn description() -> EncoderDescription {
        let network = QueryVitConfig { depth: 2, width: 16, heads: 2, key: 8 };
        let scale = ConditionScale { length: 3.0, time: 6.4 };
        let (cue, input) = ("vision".to_owned(), "made up".to_owned());
        EncoderDescription { cue, network, latent: LATENT, input, scale, signals: 2 }
    }

    /// An encoder whose weights are all random, so that queries depend on actions.
    fn encoder() -> KeyEncoder {
        let (_, parameters) = description().build(4).unwrap();
        let mut values = vec![0.0; parameters.values().len()];
        Random::stream(2, "weights", 0).fill_normal(&mut values);
        let values: Vec<f32> =
            values.iter().zip(parameters.values()).map(|(noise, x)| x + 0.1 * noise).collect();
        KeyEncoder::new(description(), &values, &Device::cpu()).unwrap()
    }

    fn frames(count: usize) -> Vec<f32> {
        let mut values = vec![0.0; count * LATENT.elements()];
        Random::stream(1, "frames", 0).fill_normal(&mut values);
        values
    }

    fn action(value: f32) -> ActionFeatures {
        told_action(value, &[0.0, 1.0])
    }

    fn told_action(value: f32, signals: &[f32]) -> ActionFeatures {
        let way = Displacement { forward: value, left: -value, up: 0.0, turn: 0.5, tilt: 0.0 };
        ActionFeatures::new(&description().scale, way, value, signals)
    }

    #[test]
    fn keys_have_length_one_and_queries_depend_on_the_action() {
        let encoder = encoder();
        let frames = frames(3);
        let keys = encoder.keys(&frames).unwrap();
        let near = encoder.queries(&frames, &vec![action(0.1); 3]).unwrap();
        let far = encoder.queries(&frames, &vec![action(-2.0); 3]).unwrap();
        assert_eq!(keys.len(), 3 * encoder.dimension());
        for row in [&keys, &near, &far].into_iter().flat_map(|rows| rows.chunks(8)) {
            assert!((row.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
        }
        assert!(keys != near && near != far);
        let told = encoder.queries(&frames, &vec![told_action(0.1, &[1.0, 0.5]); 3]).unwrap();
        assert_ne!(told, near, "what is done on the way counts");
        let more = encoder.queries(&frames, &vec![told_action(0.1, &[0.0, 1.0, 7.0]); 3]).unwrap();
        assert_eq!(more, near, "what it was not taught it does not read");
        let error = encoder.queries(&frames, &vec![told_action(0.1, &[1.0]); 3]).unwrap_err();
        assert!(error.to_string().contains("signals of an action"), "{error}");
    }

    /// A key is what the network says without an action, whatever else is encoded beside it.
    #[test]
    fn a_key_is_the_null_query_of_its_frame_alone() {
        let encoder = encoder();
        let count = FRAMES_AT_A_TIME + 3;
        let frames = frames(count);
        let keys = encoder.keys(&frames).unwrap();
        for frame in [0, FRAMES_AT_A_TIME - 1, FRAMES_AT_A_TIME, count - 1] {
            let alone = &frames[frame * LATENT.elements()..][..LATENT.elements()];
            let tensor = Tensor::from_slice(alone, [1, 4, 12]).unwrap();
            let mut tape = Tape::inference(&Device::cpu());
            let (network, parameters) = (&encoder.network, &encoder.parameters);
            let key =
                network.forward(&mut Pass::new(&mut tape, parameters), &tensor, None).unwrap();
            let pairs = key.values().iter().zip(&keys[frame * 8..][..8]);
            assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-5));
        }
    }

    #[test]
    fn a_saved_encoder_is_the_same_encoder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vision.safetensors");
        let encoder = encoder();
        encoder.save(&path).unwrap();
        let loaded = KeyEncoder::load(&path, &Device::cpu()).unwrap();
        let frames = frames(2);
        assert_eq!(loaded.keys(&frames).unwrap(), encoder.keys(&frames).unwrap());
        assert_eq!(loaded.recipe(), encoder.recipe());
        assert_eq!(loaded.description(), encoder.description());
        let (_, fresh) = description().build(5).unwrap();
        let other = KeyEncoder::new(description(), fresh.values(), &Device::cpu()).unwrap();
        assert_ne!(other.recipe(), encoder.recipe());
    }

    #[test]
    fn what_is_not_an_encoder_is_refused_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.safetensors");
        let (_, parameters) = description().build(1).unwrap();
        let refused = |note: Option<String>| {
            let file = CheckpointWriter::new().parameters("", &parameters);
            let file = if let Some(note) = note { file.note(NOTE, note) } else { file };
            file.save(&path).unwrap();
            KeyEncoder::load(&path, &Device::cpu()).err().expect("refused").to_string()
        };
        assert!(refused(None).contains("no description"));
        assert!(refused(Some("{}".into())).contains("does not read"));
        let mut huge = description();
        huge.network.width = 1 << 40;
        assert!(refused(Some(to_json(&huge))).contains("cannot hold"));
        let mut endless = description();
        endless.latent.height = 1 << 40;
        assert!(refused(Some(to_json(&endless))).contains("places"));
        let mut longer = description();
        longer.network.key = 9;
        assert!(refused(Some(to_json(&longer))).contains("final_layer.linear"));
        let mut told = description();
        told.signals = 1 << 40;
        assert!(refused(Some(to_json(&told))).contains("cannot hold"));
        assert!(KeyEncoder::load(&folder.path().join("none"), &Device::cpu()).is_err());
    }

    #[test]
    fn inputs_of_the_wrong_length_are_refused() {
        let encoder = encoder();
        assert!(encoder.keys(&[0.0; 47]).is_err());
        assert!(encoder.queries(&frames(2), &[action(1.0)]).is_err());
        assert!(encoder.keys(&[]).unwrap().is_empty());
    }
}
