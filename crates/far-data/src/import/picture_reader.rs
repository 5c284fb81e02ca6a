//! Pictures of frames, from files, tables or videos, brought to the dataset's size.

use std::path::Path;

use rayon::prelude::*;

use super::source::read_limited;
use super::video::VideoReader;
use super::{PictureSource, RecordedFrame};
use crate::picture::file_encoding;
use crate::{DataError, ImageEncoding, Picture, Result};

/// How pictures of one import are cut, scaled and stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureRule {
    /// Size of every picture of the source.
    pub size: [u32; 2],
    /// Whether the largest square in the middle is kept.
    pub square: bool,
    /// Size of the stored pictures.
    pub stored: [u32; 2],
    /// PNG, or JPEG when the source's own bytes are kept.
    pub encoding: ImageEncoding,
}

impl PictureRule {
    /// The picture after cutting and scaling.
    pub fn fit(&self, picture: &Picture) -> Picture {
        match self.square {
            true => picture.square().resized(self.stored),
            false => picture.resized(self.stored),
        }
    }

    /// The bytes to store for a file of the source.
    fn encode(&self, bytes: &[u8]) -> std::result::Result<Vec<u8>, String> {
        let picture = Picture::from_file(bytes, self.size)?;
        let unchanged = self.size == self.stored && file_encoding(bytes) == Some(self.encoding);
        Ok(if unchanged { bytes.to_vec() } else { self.fit(&picture).to_png() })
    }
}

/// Reads pictures frame after frame. A video stays open between calls, so that episodes cut from it
/// decode it once.
#[derive(Default)]
pub struct PictureReader {
    video: Option<VideoReader>,
}

impl PictureReader {
    /// The stored bytes of a run of frames, in their order; all threads cut, scale and encode.
    pub fn read(&mut self, frames: &[RecordedFrame], rule: &PictureRule) -> Result<Vec<Vec<u8>>> {
        let raw: Vec<Raw<'_>> =
            frames.iter().map(|frame| self.fetch(&frame.picture)).collect::<Result<_>>()?;
        raw.into_par_iter().map(|raw| raw.encode(rule)).collect()
    }

    /// One decoded picture at its own size.
    pub fn picture(&mut self, source: &PictureSource) -> Result<Picture> {
        let decode = |bytes: &[u8]| Picture::from_file(bytes, Picture::declared_size(bytes)?);
        match self.fetch(source)? {
            Raw::File(path) => decode(&read_limited(path)?).map_err(wrong(path)),
            Raw::Bytes(bytes) => decode(bytes).map_err(wrong(Path::new("a table's picture"))),
            Raw::Frame(picture, _) => Ok(picture),
        }
    }

    fn fetch<'a>(&mut self, source: &'a PictureSource) -> Result<Raw<'a>> {
        let (path, frame) = match source {
            PictureSource::File(path) => return Ok(Raw::File(path)),
            PictureSource::Bytes(bytes) => return Ok(Raw::Bytes(bytes)),
            PictureSource::Video { path, frame } => (path, *frame),
        };
        let goes_on = |open: &&mut VideoReader| open.path() == &**path && open.position() <= frame;
        let video = match self.video.as_mut().filter(goes_on) {
            Some(_) => self.video.as_mut().expect("just found"),
            None => self.video.insert(VideoReader::open(path)?),
        };
        video.skip_to(frame)?;
        Ok(Raw::Frame(video.read()?, path))
    }
}

/// A picture before the work that threads share.
enum Raw<'a> {
    File(&'a Path),
    Bytes(&'a [u8]),
    Frame(Picture, &'a Path),
}

impl Raw<'_> {
    fn encode(self, rule: &PictureRule) -> Result<Vec<u8>> {
        match self {
            Self::File(path) => rule.encode(&read_limited(path)?).map_err(wrong(path)),
            Self::Bytes(bytes) => rule.encode(bytes).map_err(wrong(Path::new("a table's picture"))),
            Self::Frame(picture, path) => {
                let found = [picture.width, picture.height];
                if found != rule.size {
                    let reason = format!("a frame of {found:?} pixels after {:?}", rule.size);
                    return Err(wrong(path)(reason));
                }
                Ok(rule.fit(&picture).to_png())
            }
        }
    }
}

fn wrong(path: &Path) -> impl FnOnce(String) -> DataError {
    move |reason| DataError::Source { path: path.to_path_buf(), reason }
}

/// The size that a picture declares, without decoding it; a video decodes its first frame.
pub fn declared_size(source: &PictureSource) -> Result<[u32; 2]> {
    match source {
        PictureSource::File(path) => {
            Picture::declared_size(&read_limited(path)?).map_err(wrong(path))
        }
        PictureSource::Bytes(bytes) => {
            Picture::declared_size(bytes).map_err(wrong(Path::new("a table's picture")))
        }
        PictureSource::Video { path, .. } => {
            let picture = VideoReader::open(path)?.read()?;
            Ok([picture.width, picture.height])
        }
    }
}
