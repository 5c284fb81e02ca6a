use super::*;
use far_tensor::Random;

const CONFIG: PatchPcaConfig =
    PatchPcaConfig { resolution: [8, 8], patch: 4, channels: 3, frames: 10, group: 1 };

impl PatchPca {
    /// The latent of a patch by its definition.
    fn plain(&self, patch: &[f32]) -> Vec<f32> {
        let [mean, basis, scale] =
            [self.mean, self.basis, self.scale].map(|id| self.parameters.tensor(id));
        let parts = basis.values().chunks_exact(patch.len()).map(|component| {
            let numbers = patch.iter().zip(mean.values()).zip(component);
            numbers.map(|((x, m), c)| (x - m) * c).sum::<f32>() * (1.0 / scale.values()[0])
        });
        parts.collect()
    }
}

/// Patches made of three known patterns come back exactly, in the order of their strength.
#[test]
fn a_space_of_three_patterns_is_found() {
    let mut random = Random::stream(3, "patterns", 0);
    let values = CONFIG.values();
    let patterns: Vec<Vec<f32>> =
        (0..3).map(|_| (0..values).map(|_| 0.1 * (random.uniform() - 0.5)).collect()).collect();
    let patches: Vec<f32> = (0..400)
        .flat_map(|_| {
            let weights = [4.0, 2.0, 1.0].map(|size| size * (random.uniform() - 0.5));
            let patterns = &patterns;
            (0..values).map(move |value| {
                0.5 + weights.iter().zip(patterns).map(|(w, p)| w * p[value]).sum::<f32>()
            })
        })
        .collect();
    let mut pca = PatchPca::empty(CONFIG).unwrap();
    let kept = pca.learn(&patches).unwrap();
    assert!(kept > 0.999_99, "{kept}");

    let mut latents = Vec::new();
    let mut picture = Picture::filled(8, 8, [0; 3]);
    for (place, value) in patches[..4 * values].iter().enumerate() {
        let (token, rest) = (place / values, place % values);
        let (plane, cell) = (rest / 16, rest % 16);
        let (x, y) = (token % 2 * 4 + cell % 4, token / 2 * 4 + cell / 4);
        picture.pixels[3 * (8 * y + x) + plane] = (255.0 * value).round() as u8;
    }
    pca.encode_picture(&pca.turned_basis(), &picture, &mut latents);
    let plain = patches_of(&picture, &CONFIG);
    let defined: Vec<f32> = plain.chunks_exact(values).flat_map(|patch| pca.plain(patch)).collect();
    assert_eq!(latents, defined, "to the bit");
    let decoded = pca.decode(&latents).unwrap();
    let worst = decoded.pixels.iter().zip(&picture.pixels).map(|(a, b)| a.abs_diff(*b)).max();
    assert!(worst.unwrap() <= 1);

    let all: Vec<f32> = patches.chunks_exact(values).flat_map(|patch| pca.plain(patch)).collect();
    let power = all.iter().map(|x| x * x).sum::<f32>() / all.len() as f32;
    assert!((power - 1.0).abs() < 1e-3, "{power}");
}

#[test]
fn a_file_gives_the_same_tokenizer() {
    let mut pca = PatchPca::empty(CONFIG).unwrap();
    let mut patches = vec![0.0; 40 * CONFIG.values()];
    Random::stream(1, "patches", 0).fill_uniform(&mut patches, 0.0, 1.0);
    pca.learn(&patches).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.safetensors");
    pca.save(&path).unwrap();
    let read = PatchPca::load(&path).unwrap();
    assert_eq!(read.recipe(), pca.recipe());
    assert!(PatchPca::empty(PatchPcaConfig { patch: 3, ..CONFIG }).is_err());
    assert!(PatchPca::empty(PatchPcaConfig { group: 3, ..CONFIG }).is_err());
}

/// The linear maps lead from the patches of a picture to its latent, and back to what the latent
/// shows; squares of patches have none.
#[test]
fn linear_patches_encode_and_decode() {
    let mut pca = PatchPca::empty(CONFIG).unwrap();
    let mut patches = vec![0.0; 40 * CONFIG.values()];
    Random::stream(1, "patches", 0).fill_uniform(&mut patches, 0.2, 0.8);
    pca.learn(&patches).unwrap();
    let mut picture = Picture::filled(8, 8, [0; 3]);
    picture.pixels.iter_mut().enumerate().for_each(|(place, x)| *x = (7 * place % 251) as u8);
    let mut latent = Vec::new();
    pca.encode_picture(&pca.turned_basis(), &picture, &mut latent);
    let LinearPatches { grid, decode, encode } = pca.linear_patches().unwrap();
    assert_eq!((grid.resolution(), grid.values()), ([8, 8], CONFIG.values()));
    let mut tape = far_tensor::Tape::inference(&far_tensor::Device::cpu());
    let pixels = Tensor::from_slice(&patches_of(&picture, &CONFIG), [4, grid.values()]).unwrap();
    let found = tape.linear(&pixels, &encode[0], Some(&encode[1])).unwrap();
    assert!(found.values().iter().zip(&latent).all(|(a, b)| (a - b).abs() < 1e-4));
    let shown = tape.linear(&found, &decode[0], Some(&decode[1])).unwrap();
    let expected = patches_of(&pca.decode(&latent).unwrap(), &CONFIG);
    let off = |(a, b): (&f32, &f32)| (a.clamp(0.0, 1.0) - b).abs();
    assert!(shown.values().iter().zip(&expected).map(off).all(|off| off < 0.5 / 255.0 + 1e-4));
    let grouped = PatchPca::empty(PatchPcaConfig { group: 2, ..CONFIG }).unwrap();
    assert!(grouped.linear_patches().is_none());
}

/// Squares of patches are tokens: the same numbers in another order, and the same picture.
#[test]
fn groups_of_patches_change_the_order_and_nothing_else() {
    let [small, large] = [1, 2].map(|group| {
        let config = PatchPcaConfig { resolution: [8, 8], patch: 2, channels: 3, frames: 9, group };
        let mut pca = PatchPca::empty(config).unwrap();
        let mut patches = vec![0.0; 40 * config.values()];
        Random::stream(1, "patches", 0).fill_uniform(&mut patches, 0.0, 1.0);
        pca.learn(&patches).unwrap();
        pca
    });
    let mut picture = Picture::filled(8, 8, [0; 3]);
    picture.pixels.iter_mut().enumerate().for_each(|(place, x)| *x = (7 * place % 251) as u8);
    let latent = |pca: &PatchPca| {
        let mut latent = Vec::new();
        pca.encode_picture(&pca.turned_basis(), &picture, &mut latent);
        latent
    };
    let (plain, grouped) = (latent(&small), latent(&large));
    assert_ne!(plain, grouped);
    assert_eq!(small.shape().to_image(&plain), large.shape().to_image(&grouped));
    assert_eq!(small.decode(&plain), large.decode(&grouped));
    assert_ne!(small.recipe(), large.recipe());
    assert_eq!((large.shape().tokens(), large.shape().token_width()), (4, 12));
}
