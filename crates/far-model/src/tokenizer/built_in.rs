//! The autoencoder that comes with the program. `assets/README.md` says how it was made.

/// Its name. No file and no entry of the cache can take its place: files are named by their path.
pub const BUILT_IN: &str = "far";

/// Its file, as `far tokenizer train` wrote it.
pub(super) const BYTES: &[u8] = include_bytes!("../../../../assets/tokenizer.safetensors");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Autoencoder, AutoencoderConfig, AutoencoderStructure, TaesdStructure, Tokenizer};
    use far_data::Picture;
    use far_tensor::Device;

    fn open(resolution: [usize; 2]) -> Autoencoder {
        let config = AutoencoderConfig { weights: BUILT_IN.to_owned(), resolution };
        Autoencoder::load(config, &Device::cpu()).expect("it comes with the program")
    }

    #[test]
    fn it_is_small_and_has_the_structure_that_is_trained() {
        assert!(BYTES.len() <= 3_000_000, "{} bytes", BYTES.len());
        let tokenizer = open([128, 128]);
        assert_eq!(*tokenizer.structure(), AutoencoderStructure::Taesd(TaesdStructure::OWN));
        let shape = tokenizer.shape();
        assert_eq!([shape.channels, shape.height, shape.width, shape.patch], [16, 16, 16, 2]);
    }

    #[test]
    fn it_makes_pictures_of_any_multiple_of_16_pixels() {
        let picture = Picture::filled(48, 32, [200, 100, 50]);
        let tokenizer = open([48, 32]);
        let latent = tokenizer.encode_pictures(std::slice::from_ref(&picture)).expect("it encodes");
        assert_eq!(latent.len(), 16 * 6 * 4);
        let decoded = tokenizer.decode(&latent).expect("it decodes");
        assert_eq!([decoded.width, decoded.height], [48, 32]);
    }

    #[test]
    fn a_run_keeps_the_same_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokenizer.safetensors");
        let built_in = open([16, 16]);
        built_in.save(&path).expect("it is small enough to be kept");
        let weights = path.display().to_string();
        let kept = AutoencoderConfig { weights, resolution: [16, 16] };
        let kept = Autoencoder::load(kept, &Device::cpu()).expect("it was saved");
        assert_eq!(kept.recipe(), built_in.recipe());
    }
}
