//! `[tokenizer]`: how frames become latents.

use crate::{Error, Result};
use far_data::Dataset;
use far_model::{
    Autoencoder, AutoencoderConfig, BUILT_IN, PatchPca, PatchPcaConfig, Precomputed,
    PrecomputedConfig, Tokenizer,
};
use far_tensor::Device;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// Which tokenizer is used, with the settings of each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerConfig {
    /// Which one.
    pub kind: TokenizerKind,
    /// Settings of `patch-pca`.
    pub patch_pca: PatchPcaConfig,
    /// Settings of `precomputed`.
    pub precomputed: PrecomputedConfig,
}

/// Networks by name: the one that comes with the program, and published ones, whose weights are looked for
/// in the cache.
const NETWORKS: [&str; 9] =
    [BUILT_IN, "taesd", "taesdxl", "taesd3", "taef1", "taef2", "sd-vae", "sdxl-vae", "oasis"];
/// How precomputed latents are named, and what comes between that and their decoder's name.
const PRECOMPUTED: &str = "precomputed";
const DECODED_BY: char = ':';

/// The tokenizers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TokenizerKind {
    /// Principal components of patches, fitted to the dataset in seconds.
    PatchPca,
    /// Latents that came with the data, and the autoencoder that shows them, as in `Network`.
    Precomputed(Option<String>),
    /// An autoencoder: its name, or the path of its file.
    Network(String),
}

impl TryFrom<String> for TokenizerKind {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let network = |name: &str| match name.ends_with(".safetensors") || NETWORKS.contains(&name)
        {
            true => Ok(name.to_owned()),
            false => Err(format!(
                "there is no tokenizer `{name}`: it is patch-pca, {}, a .safetensors file, or {PRECOMPUTED} with \
                 or without {DECODED_BY} and one of these that shows the latents",
                NETWORKS.join(", ")
            )),
        };
        match name.split_once(DECODED_BY) {
            Some((PRECOMPUTED, decoder)) => Ok(Self::Precomputed(Some(network(decoder)?))),
            _ if name == PRECOMPUTED => Ok(Self::Precomputed(None)),
            _ if name == "patch-pca" => Ok(Self::PatchPca),
            _ => Ok(Self::Network(network(&name)?)),
        }
    }
}

impl From<TokenizerKind> for String {
    fn from(kind: TokenizerKind) -> Self {
        match kind {
            TokenizerKind::PatchPca => "patch-pca".to_owned(),
            TokenizerKind::Precomputed(None) => PRECOMPUTED.to_owned(),
            TokenizerKind::Precomputed(Some(decoder)) => {
                format!("{PRECOMPUTED}{DECODED_BY}{decoder}")
            }
            TokenizerKind::Network(name) => name,
        }
    }
}

impl TokenizerConfig {
    /// The tokenizer of a dataset, fitted to these episodes where it is one that is fitted; a network
    /// runs on the device.
    ///
    /// # Errors
    /// If frames or latents are missing, or the settings do not fit them.
    pub fn build(
        &self,
        dataset: &Dataset,
        episodes: &[u32],
        device: &Device,
    ) -> Result<Arc<dyn Tokenizer>> {
        Ok(match &self.kind {
            TokenizerKind::Network(weights) => {
                Arc::new(Autoencoder::load(autoencoder(dataset, weights.clone()), device)?)
            }
            TokenizerKind::Precomputed(decoder) => {
                let latents = Precomputed::new(dataset, self.precomputed)?;
                Arc::new(match decoder {
                    Some(decoder) => latents.with_decoder(decoder, device)?,
                    None => latents,
                })
            }
            TokenizerKind::PatchPca => Arc::new(PatchPca::fit(dataset, episodes, self.patch_pca)?),
        })
    }

    /// Whether it is fitted to frames and kept in a run's folder.
    pub fn is_fitted(&self) -> bool {
        self.kind == TokenizerKind::PatchPca
    }

    /// The tokenizer that a run keeps in this file; `None` for latents that came with the data.
    ///
    /// # Errors
    /// If the file holds something else.
    pub fn load(
        &self,
        path: &Path,
        dataset: &Dataset,
        device: &Device,
    ) -> Result<Option<Arc<dyn Tokenizer>>> {
        Ok(match self.kind {
            TokenizerKind::PatchPca => Some(Arc::new(PatchPca::load(path)?)),
            TokenizerKind::Network(_) => {
                let own = autoencoder(dataset, path.display().to_string());
                Some(Arc::new(Autoencoder::load(own, device)?))
            }
            TokenizerKind::Precomputed(_) => None,
        })
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.kind {
            TokenizerKind::PatchPca => self.check_patch_pca(),
            TokenizerKind::Precomputed(_) => {
                super::positive_number("tokenizer.precomputed.scale", self.precomputed.scale)
            }
            TokenizerKind::Network(_) => Ok(()),
        }
    }

    fn check_patch_pca(&self) -> Result<()> {
        let PatchPcaConfig { resolution: [width, height], patch, channels, frames, group } =
            self.patch_pca;
        let counts = [
            ("tokenizer.patch_pca.resolution", width.min(height)),
            ("tokenizer.patch_pca.patch", patch),
            ("tokenizer.patch_pca.channels", channels),
            ("tokenizer.patch_pca.frames", frames),
            ("tokenizer.patch_pca.group", group),
        ];
        counts.into_iter().try_for_each(|(key, count)| super::positive(key, count as u64))?;
        if !width.is_multiple_of(patch) || !height.is_multiple_of(patch) {
            let reason = format!("{patch} does not divide {width} × {height}");
            return Err(Error::setting("tokenizer.patch_pca.patch", reason));
        }
        if ![width, height].into_iter().all(|side| (side / patch).is_multiple_of(group)) {
            let reason = format!("{group} does not divide {} × {}", width / patch, height / patch);
            return Err(Error::setting("tokenizer.patch_pca.group", reason));
        }
        if channels > 3 * patch * patch {
            let reason = format!("a patch of {patch} × {patch} pixels has no {channels}");
            return Err(Error::setting("tokenizer.patch_pca.channels", reason));
        }
        Ok(())
    }
}

/// An autoencoder of the dataset's frames at their own size.
fn autoencoder(dataset: &Dataset, weights: String) -> AutoencoderConfig {
    let resolution = dataset.description().resolution.map(|side| side as usize);
    AutoencoderConfig { weights, resolution }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_as_they_are_written() {
        let kinds = [
            ("patch-pca", TokenizerKind::PatchPca),
            ("precomputed", TokenizerKind::Precomputed(None)),
            ("precomputed:oasis", TokenizerKind::Precomputed(Some("oasis".to_owned()))),
            ("far", TokenizerKind::Network("far".to_owned())),
            ("taef2", TokenizerKind::Network("taef2".to_owned())),
            ("a:b/c.safetensors", TokenizerKind::Network("a:b/c.safetensors".to_owned())),
        ];
        for (name, kind) in kinds {
            assert_eq!(TokenizerKind::try_from(name.to_owned()), Ok(kind.clone()));
            assert_eq!(String::from(kind), name);
        }
        for name in ["pca", "precomputed:pca", "precomputed:", "own.pth"] {
            let refused = TokenizerKind::try_from(name.to_owned()).unwrap_err();
            assert!(refused.contains("there is no tokenizer"), "{refused}");
            assert!(refused.contains("it is patch-pca, far, taesd"), "{refused}");
        }
    }
}
