//! `manifest.json`: which files make up a store, replaced atomically at every change.
//!
//! It is JSON for people and tools, but only the exact bytes that this program writes are accepted:
//! the last field is a hash of the rest, and reading renders the parsed manifest again and
//! compares. So every changed byte is detected, even one that JSON ignores. File names are not read
//! from the manifest but derived from numbers, so that it cannot point elsewhere.

use super::checksum::FileChecksum;
use super::disk::{Disk, path_of};
use super::frame::Damage;
use crate::{Cue, CueKind, Error, KeyPrecision, Schema};
use serde::{Deserialize, Serialize};
use std::io;

/// The name of the manifest.
pub(crate) const MANIFEST: &str = "manifest.json";
/// The name under which a new manifest is written before it replaces the old one.
pub(crate) const MANIFEST_DRAFT: &str = "manifest.json.new";
/// The version of the format that this program writes and reads.
pub(crate) const VERSION: u32 = 1;
/// The most numbers a key may have in a store.
pub(crate) const MAX_DIMENSION: usize = 1 << 16;
/// The most cues a store may have.
pub(crate) const MAX_CUES: usize = 64;

const FORMAT: &str = "far-memory";

/// The list of files that make up a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    format: String,
    version: u32,
    /// Number of replacements so far, by which readers detect a new one.
    pub generation: u64,
    cues: Vec<CueEntry>,
    /// The sealed files, oldest first, without gaps.
    pub sealed: Vec<SealedEntry>,
    /// The number of the active log.
    pub log: u64,
    blake3: String,
}

/// One sealed file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SealedEntry {
    /// Its first record.
    pub first: u64,
    /// Its records.
    pub records: u64,
    /// Its length and checksums.
    #[serde(flatten)]
    pub checksum: FileChecksum,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
enum CueEntry {
    Metadata { name: String },
    Key { name: String, dimension: usize, precision: KeyPrecision },
}

/// The name of the sealed file that starts with record `first`.
pub(crate) fn sealed_name(first: u64) -> String {
    format!("sealed-{first:012}.arrow")
}

/// The name of log `number`.
pub(crate) fn log_name(number: u64) -> String {
    format!("log-{number:06}.far")
}

/// Whether a file name has the form of a store's files, listed in a manifest or not.
pub(crate) fn is_ours(name: &str) -> bool {
    let numbered = |prefix, suffix| {
        name.strip_prefix(prefix)
            .and_then(|rest| rest.strip_suffix(suffix))
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    name == MANIFEST_DRAFT || numbered("sealed-", ".arrow") || numbered("log-", ".far")
}

impl Manifest {
    /// The manifest of an empty store.
    ///
    /// # Errors
    /// [`Error::Schema`] for more cues or longer keys than a store can hold.
    pub fn new(schema: &Schema) -> Result<Self, Error> {
        check_limits(schema)?;
        Ok(Self {
            format: FORMAT.into(),
            version: VERSION,
            generation: 0,
            cues: schema.cues().iter().map(CueEntry::from).collect(),
            sealed: Vec::new(),
            log: 0,
            blake3: String::new(),
        })
    }

    /// The record after the last sealed one: the first of the active log.
    pub fn sealed_records(&self) -> u64 {
        self.sealed.last().map_or(0, |entry| entry.first + entry.records)
    }

    /// The cues of the store.
    pub fn schema(&self) -> Result<Schema, Error> {
        let schema = Schema::new(self.cues.iter().map(Cue::from).collect())?;
        check_limits(&schema)?;
        Ok(schema)
    }

    /// The bytes of the file.
    pub fn render(&self) -> Vec<u8> {
        let unsigned = Self { blake3: String::new(), ..self.clone() };
        let blake3 = blake3::hash(&json(&unsigned)).to_hex().to_string();
        json(&Self { blake3, ..unsigned })
    }

    /// Reads the bytes of the file.
    ///
    /// # Errors
    /// [`Damage`] for bytes that [`Self::render`] did not make.
    pub fn parse(bytes: &[u8]) -> Result<Self, Damage> {
        let damage = |offset, reason: String| Err(Damage { offset, reason });
        let mut manifest: Self = match serde_json::from_slice(bytes) {
            Ok(manifest) => manifest,
            Err(error) => return damage(offset_of(bytes, &error), error.to_string()),
        };
        let rendered = manifest.render();
        if let Some(offset) = first_difference(bytes, &rendered) {
            return damage(offset, "the contents do not match their hash".into());
        }
        manifest.blake3 = String::new();
        if manifest.format != FORMAT || manifest.version != VERSION {
            return damage(0, "not a manifest of this version".into());
        }
        let mut next = 0;
        for entry in &manifest.sealed {
            if entry.first != next || entry.records == 0 || !entry.checksum.is_consistent() {
                return damage(0, format!("the entry of sealed record {} is wrong", entry.first));
            }
            next = match next.checked_add(entry.records) {
                Some(next) => next,
                None => return damage(0, format!("{} records overflow", entry.records)),
            };
        }
        Ok(manifest)
    }

    /// Reads the manifest of a store; `None` where there is none.
    pub fn load(disk: &dyn Disk) -> Result<Option<Self>, Error> {
        let path = path_of(disk, MANIFEST);
        let bytes = match disk.read(MANIFEST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(Error::disk("read", &path))?,
        };
        if let Some(found) = version_of(&bytes).filter(|&found| found != VERSION) {
            return Err(Error::StoreVersion { file: path, found, supported: VERSION });
        }
        Self::parse(&bytes).map(Some).map_err(|damage| Error::corrupt(path, damage))
    }

    /// Makes this the manifest of the store, durably and atomically.
    ///
    /// Every file it lists must be synced already. Names are synced twice: before, so that after a
    /// power cut no manifest exists without its files; after, so that the manifest itself exists.
    pub fn commit(&mut self, disk: &dyn Disk) -> Result<(), Error> {
        self.generation += 1;
        let step = |operation| Error::disk(operation, path_of(disk, MANIFEST_DRAFT));
        let mut draft = disk.create(MANIFEST_DRAFT).map_err(step("create"))?;
        draft.write_at(0, &self.render()).map_err(step("write"))?;
        draft.sync().map_err(step("sync"))?;
        disk.sync_directory().map_err(step("sync the folder of"))?;
        disk.rename(MANIFEST_DRAFT, MANIFEST).map_err(step("rename"))?;
        disk.sync_directory().map_err(step("sync the folder of"))
    }
}

/// The version stated by a file that identifies itself as a manifest, in any version's layout.
fn version_of(bytes: &[u8]) -> Option<u32> {
    #[derive(Deserialize)]
    struct Claim {
        format: String,
        version: u32,
    }
    let claim: Claim = serde_json::from_slice(bytes).ok()?;
    (claim.format == FORMAT).then_some(claim.version)
}

/// A list of cues as text for messages.
pub(crate) fn describe(schema: &Schema) -> String {
    let cue = |cue: &Cue| match cue.kind {
        CueKind::Metadata => format!("{} (time and pose)", cue.name),
        CueKind::Key { dimension, precision } => {
            format!("{} ({dimension} × {} bit)", cue.name, 8 * precision.bytes())
        }
    };
    schema.cues().iter().map(cue).collect::<Vec<_>>().join(", ")
}

fn check_limits(schema: &Schema) -> Result<(), Error> {
    let refuse = |name: &str, reason: String| Err(Error::Schema { name: name.into(), reason });
    if let Some(cue) = schema.cues().get(MAX_CUES) {
        return refuse(&cue.name, format!("a store holds at most {MAX_CUES} cues"));
    }
    match schema.keys().find(|&(_, _, dimension, _)| dimension > MAX_DIMENSION) {
        Some((_, name, dimension, _)) => {
            refuse(name, format!("dimension {dimension} exceeds a store's {MAX_DIMENSION}"))
        }
        None => Ok(()),
    }
}

fn json(manifest: &Manifest) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(manifest).expect("plain data becomes JSON");
    bytes.push(b'\n');
    bytes
}

fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    (same < a.len().max(b.len())).then_some(same)
}

/// The byte offset of a JSON error, which counts lines and columns.
fn offset_of(bytes: &[u8], error: &serde_json::Error) -> usize {
    let lines = bytes.split_inclusive(|&byte| byte == b'\n').take(error.line().saturating_sub(1));
    let before: usize = lines.map(<[u8]>::len).sum();
    (before + error.column().saturating_sub(1)).min(bytes.len())
}

impl From<&Cue> for CueEntry {
    fn from(cue: &Cue) -> Self {
        let name = cue.name.clone();
        match cue.kind {
            CueKind::Metadata => Self::Metadata { name },
            CueKind::Key { dimension, precision } => Self::Key { name, dimension, precision },
        }
    }
}

impl From<&CueEntry> for Cue {
    fn from(entry: &CueEntry) -> Self {
        let (name, kind) = match entry {
            CueEntry::Metadata { name } => (name, CueKind::Metadata),
            &CueEntry::Key { ref name, dimension, precision } => {
                (name, CueKind::Key { dimension, precision })
            }
        };
        Self { name: name.clone(), kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Manifest {
        let cues = vec![Cue::metadata("meta"), Cue::key("vision", 256), Cue::half_key("sound", 64)];
        let mut manifest = Manifest::new(&Schema::new(cues).expect("valid")).expect("small");
        let checksum = FileChecksum::of(b"contents of the file");
        manifest.sealed = vec![
            SealedEntry { first: 0, records: 3, checksum: checksum.clone() },
            SealedEntry { first: 3, records: 5, checksum },
        ];
        manifest
    }

    #[test]
    fn a_manifest_survives_its_file() {
        let manifest = example();
        let read = Manifest::parse(&manifest.render()).expect("own bytes");
        assert_eq!(read, manifest);
        assert_eq!(read.sealed_records(), 8);
        assert_eq!(read.schema().expect("valid").keys().count(), 2);
    }

    #[test]
    fn every_changed_missing_or_added_byte_is_noticed() {
        let bytes = example().render();
        for place in 0..bytes.len() {
            for flip in [0x01, 0x20, 0x80] {
                let mut changed = bytes.clone();
                changed[place] ^= flip;
                assert!(Manifest::parse(&changed).is_err(), "byte {place} flipped by {flip}");
            }
            assert!(Manifest::parse(&bytes[..place]).is_err(), "cut at {place}");
        }
        assert!(Manifest::parse(&[&bytes[..], b" "].concat()).is_err());
    }

    #[test]
    fn damage_is_named_by_its_offset() {
        let bytes = example().render();
        let place = bytes.windows(6).position(|part| part == b"vision").expect("there");
        let mut changed = bytes.clone();
        changed[place] = b'V';
        let damage = Manifest::parse(&changed).expect_err("changed");
        assert!(damage.offset >= place, "a hash differs after the change: {damage:?}");
        changed[place - 1] = b'!';
        let damage = Manifest::parse(&changed).expect_err("no JSON");
        assert!(damage.offset.abs_diff(place) <= 1, "{damage:?}");
    }

    #[test]
    fn another_version_is_told_from_damage() {
        let text = String::from_utf8(example().render()).expect("text");
        let newer = text.replace("\"version\": 1", "\"version\": 9");
        assert_eq!(version_of(newer.as_bytes()), Some(9));
        assert_eq!(version_of(b"{}"), None);
    }

    #[test]
    fn only_our_own_names_are_ours() {
        for name in [MANIFEST_DRAFT, &sealed_name(0), &sealed_name(u64::MAX), &log_name(12)] {
            assert!(is_ours(name), "{name}");
        }
        for name in [MANIFEST, "lock", "log-.far", "log-1.txt", "sealed-x.arrow", "photo.png"] {
            assert!(!is_ours(name), "{name}");
        }
    }
}
