//! Frames of a video, decoded by the program `ffmpeg` and read from its pipe.
//!
//! `ffmpeg` writes portable pixmaps (PPM), which say their size, so nothing has to be known of the
//! video beforehand and its memory does not grow with the video's length.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::{DataError, Picture, Result};

/// Names the program where `ffmpeg` is not on the path.
const PROGRAM_VARIABLE: &str = "FAR_FFMPEG";

/// Sides of a frame beyond this are not believed.
const LARGEST_SIDE: u32 = 16_384;

/// A video being read from its first frame on.
pub struct VideoReader {
    path: PathBuf,
    child: Child,
    pipe: BufReader<ChildStdout>,
    next: u64,
}

impl VideoReader {
    /// Starts to decode.
    ///
    /// # Errors
    /// [`DataError::NoVideoProgram`] when `ffmpeg` cannot be started.
    pub fn open(path: &Path) -> Result<Self> {
        let named = std::env::var_os(PROGRAM_VARIABLE).filter(|name| !name.is_empty());
        let program = named.unwrap_or_else(|| "ffmpeg".into());
        // `file:` keeps a name with a colon from being read as a protocol, and the list of protocols
        // keeps a playlist from fetching anything.
        let mut input = std::ffi::OsString::from("file:");
        input.push(path);
        let mut child = Command::new(&program)
            .args(["-nostdin", "-v", "error", "-protocol_whitelist", "file,pipe", "-i"])
            .arg(input)
            .args(["-map", "0:v:0", "-fps_mode", "passthrough", "-sws_flags"])
            .args(["accurate_rnd+bitexact", "-pix_fmt", "rgb24", "-c:v", "ppm"])
            .args(["-f", "image2pipe", "-"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| DataError::NoVideoProgram {
                program: program.to_string_lossy().into_owned(),
                path: path.to_path_buf(),
                source,
            })?;
        let pipe = BufReader::with_capacity(1 << 20, child.stdout.take().expect("piped"));
        Ok(Self { path: path.to_path_buf(), child, pipe, next: 0 })
    }

    /// The file that is read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of the frame that is read next.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// The next frame.
    ///
    /// # Errors
    /// If the video ends before or cannot be decoded; the message has the decoder's own words.
    pub fn read(&mut self) -> Result<Picture> {
        match read_pixmap(&mut self.pipe) {
            Ok(picture) => {
                self.next += 1;
                Ok(picture)
            }
            Err(reason) => Err(self.broken(&reason)),
        }
    }

    /// Passes over frames until frame `target` is next.
    pub fn skip_to(&mut self, target: u64) -> Result<()> {
        while self.next < target {
            self.read()?;
        }
        Ok(())
    }

    fn broken(&mut self, reason: &str) -> DataError {
        // The pipe is closed or its content is useless: the program has nothing left to do.
        let _ = self.child.kill();
        let mut words = String::new();
        if let Some(pipe) = self.child.stderr.take() {
            let _ = pipe.take(2000).read_to_string(&mut words);
        }
        let words: Vec<&str> =
            words.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let said = match words.first() {
            Some(first) => format!(" (ffmpeg: {first})"),
            None => String::new(),
        };
        let reason = format!("frame {} cannot be read: {reason}{said}", self.next);
        DataError::Source { path: self.path.clone(), reason }
    }
}

impl Drop for VideoReader {
    fn drop(&mut self) {
        // A reader that stops early leaves the program waiting on a full pipe.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One binary PPM picture of 8 bits per color.
fn read_pixmap(input: &mut impl BufRead) -> std::result::Result<Picture, String> {
    let mut words = Vec::new();
    while words.len() < 4 {
        let word = read_word(input)?;
        if word.is_empty() {
            return Err(if words.is_empty() { "the video ends" } else { "it is cut short" }.into());
        }
        words.push(word);
    }
    if words[0] != "P6" || words[3] != "255" {
        return Err("the decoder does not write 8-bit pixmaps".into());
    }
    let side = |word: &str| word.parse().ok().filter(|side| (1..=LARGEST_SIDE).contains(side));
    let (Some(width), Some(height)) = (side(&words[1]), side(&words[2])) else {
        return Err(format!("a frame of {} x {} pixels", words[1], words[2]));
    };
    let mut pixels = Vec::new();
    let due = 3 * u64::from(width) * u64::from(height);
    input.take(due).read_to_end(&mut pixels).map_err(|error| error.to_string())?;
    if pixels.len() as u64 != due {
        return Err("it is cut short".into());
    }
    Ok(Picture { width, height, pixels })
}

/// Letters up to the next blank, which is taken too; "" at the end.
fn read_word(input: &mut impl BufRead) -> std::result::Result<String, String> {
    let mut word = String::new();
    let mut byte = [0u8];
    while input.read(&mut byte).map_err(|error| error.to_string())? == 1 {
        match byte[0] {
            blank if blank.is_ascii_whitespace() && word.is_empty() => {}
            blank if blank.is_ascii_whitespace() => return Ok(word),
            // Numbers in a header have few digits; anything longer is not a header.
            letter if word.len() < 8 => word.push(char::from(letter)),
            _ => return Err("the decoder does not write pixmaps".into()),
        }
    }
    Ok(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pixmaps_follow_each_other() {
        let mut stream: &[u8] = b"P6\n2 1\n255\nabcdefP6\n1 1\n255\nxyz";
        let first = read_pixmap(&mut stream).expect("a picture");
        assert_eq!((first.width, first.height, &first.pixels[..]), (2, 1, &b"abcdef"[..]));
        assert_eq!(read_pixmap(&mut stream).expect("a picture").pixels, b"xyz");
        assert_eq!(read_pixmap(&mut stream), Err("the video ends".into()));
        for (bytes, word) in [
            (&b"P6\n2 1\n255\nabc"[..], "cut short"),
            (b"P6\n2", "cut short"),
            (b"P5\n2 1\n255\nab", "8-bit"),
            (b"P6\n99999 1\n255\n", "99999"),
        ] {
            let mut bytes = bytes;
            let reason = read_pixmap(&mut bytes).unwrap_err();
            assert!(reason.contains(word), "{reason}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_picture_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut bytes = &bytes[..];
            while let Ok(picture) = read_pixmap(&mut bytes) {
                prop_assert_eq!(picture.pixels.len() as u32, 3 * picture.width * picture.height);
            }
        }
    }
}
