//! Training curves as TensorBoard reads them: records of protobuf messages, each with checksums.
//!
//! ```text
//! record    length u64 | masked CRC-32C of it | message | masked CRC-32C of it, little-endian
//! Event     1: wall_time double, 2: step int64, 3: file_version string, 5: summary Summary
//! Summary   1: value Value
//! Value     1: tag string, 2: simple_value float
//! ```

use super::training_log::Series;
use std::collections::BTreeMap;

/// What every event file begins with.
const VERSION: &str = "brain.Event:2";
/// What TensorFlow adds to a rotated checksum, so that checksums of checksums are not special.
const MASK: u32 = 0xa282_ead8;

/// Wire types of protobuf fields.
#[derive(Clone, Copy)]
enum Wire {
    Varint = 0,
    Double = 1,
    Bytes = 2,
    Float = 5,
}

/// The event file of some curves. Logs have no clocks, so that all events have one time, in seconds
/// since 1970. Points in names become slashes, by which TensorBoard groups charts.
///
/// ```
/// use far_eval::{TrainingLog, event_file};
///
/// let log = TrainingLog::parse("{\"step\":1,\"loss\":0.5}");
/// let bytes = event_file(&log.series, 0.0);
/// assert!(bytes.windows(4).any(|part| part == b"loss"));
/// ```
pub fn event_file(curves: &BTreeMap<String, Series>, time: f64) -> Vec<u8> {
    let mut file = Vec::new();
    record(&mut file, &event(time, 0, 3, VERSION.as_bytes()));
    for (name, series) in curves {
        let tag = name.replace(".values.", ".").replace('.', "/");
        for (step, value) in series.step.iter().zip(&series.value) {
            let Some(value) = value else { continue };
            record(&mut file, &event(time, *step as u64, 5, &summary(&tag, *value as f32)));
        }
    }
    file
}

fn summary(tag: &str, value: f32) -> Vec<u8> {
    let mut inner = Vec::new();
    bytes(&mut inner, 1, tag.as_bytes());
    key(&mut inner, 2, Wire::Float);
    inner.extend(value.to_le_bytes());
    let mut outer = Vec::new();
    bytes(&mut outer, 1, &inner);
    outer
}

fn event(time: f64, step: u64, field: u8, content: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    key(&mut message, 1, Wire::Double);
    message.extend(time.to_le_bytes());
    // As all of protobuf's writers do, a zero is left out.
    if step > 0 {
        key(&mut message, 2, Wire::Varint);
        varint(&mut message, step);
    }
    bytes(&mut message, field, content);
    message
}

fn record(file: &mut Vec<u8>, message: &[u8]) {
    let length = (message.len() as u64).to_le_bytes();
    for part in [&length[..], message] {
        file.extend(part);
        file.extend(masked(crc32c::crc32c(part)).to_le_bytes());
    }
}

fn masked(checksum: u32) -> u32 {
    checksum.rotate_right(15).wrapping_add(MASK)
}

fn key(message: &mut Vec<u8>, field: u8, wire: Wire) {
    message.push(field << 3 | wire as u8);
}

fn bytes(message: &mut Vec<u8>, field: u8, content: &[u8]) {
    key(message, field, Wire::Bytes);
    varint(message, content.len() as u64);
    message.extend(content);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrainingLog;
    use proptest::prelude::*;

    /// CRC-32C bit by bit.
    fn checksum(bytes: &[u8]) -> u32 {
        let mut state = u32::MAX;
        for byte in bytes {
            state ^= u32::from(*byte);
            for _ in 0..8 {
                state = (state >> 1) ^ (0x82f6_3b78 & (state & 1).wrapping_neg());
            }
        }
        !state
    }

    fn read_varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }

    /// Fields of a message by number; varints as their bytes in fixed length.
    fn fields(mut message: &[u8]) -> BTreeMap<u64, Vec<u8>> {
        let mut fields = BTreeMap::new();
        while !message.is_empty() {
            let key = read_varint(&mut message);
            let length = match key & 7 {
                0 => {
                    fields.insert(key >> 3, read_varint(&mut message).to_le_bytes().to_vec());
                    continue;
                }
                1 => 8,
                5 => 4,
                _ => read_varint(&mut message) as usize,
            };
            let (content, rest) = message.split_at(length);
            fields.insert(key >> 3, content.to_vec());
            message = rest;
        }
        fields
    }

    /// Tag, step and value of every event after the first, with all checksums checked.
    fn read(mut file: &[u8]) -> Vec<(String, u64, f32)> {
        let mut events = Vec::new();
        while !file.is_empty() {
            let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
            let (head, rest) = file.split_at(12);
            let (message, tail) = rest.split_at(length);
            for (part, stored) in [(&head[..8], &head[8..]), (message, &tail[..4])] {
                let turned = checksum(part);
                let turned = turned.rotate_right(15).wrapping_add(0xa282_ead8);
                assert_eq!(turned.to_le_bytes(), stored);
            }
            events.push(fields(message));
            file = &tail[4..];
        }
        assert_eq!(events.remove(0)[&3], b"brain.Event:2");
        let told = events.iter().map(|event| {
            let value = fields(&fields(&event[&5])[&1]);
            let tag = String::from_utf8(value[&1].clone()).unwrap();
            let step = event
                .get(&2)
                .map_or(0, |step| u64::from_le_bytes(step.clone().try_into().unwrap()));
            (tag, step, f32::from_le_bytes(value[&2].clone().try_into().unwrap()))
        });
        told.collect()
    }

    #[test]
    fn events_are_read_back_as_they_were() {
        let text = "{\"step\":1,\"loss\":0.5}\n{\"step\":300,\"loss\":null}\n\
             {\"kind\":\"evaluation\",\"step\":300,\"values\":{\"psnr\":17.25}}";
        let log = TrainingLog::parse(text);
        let events = read(&event_file(&log.series, 1.5e9));
        let expected = [("evaluation/psnr".to_owned(), 300, 17.25), ("loss".to_owned(), 1, 0.5)];
        assert_eq!(events, expected, "what was no number is left out");
    }

    /// The first bytes of any file that TensorFlow writes: a length of 24 and its checksum.
    #[test]
    fn files_begin_as_those_of_other_writers() {
        let file = event_file(&BTreeMap::new(), 0.0);
        assert_eq!(file[..12], [24, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22]);
    }

    proptest! {
        #[test]
        fn any_points_are_read_back(points in prop::collection::btree_map(0u64..1 << 40, -1e6f32..1e6, 0..40)) {
            let series = Series {
                step: points.keys().map(|step| *step as f64).collect(),
                value: points.values().map(|value| Some(f64::from(*value))).collect(),
            };
            let curves = BTreeMap::from([("a.b".to_owned(), series)]);
            let expected: Vec<_> = points.into_iter().map(|(step, value)| ("a/b".to_owned(), step, value)).collect();
            prop_assert_eq!(read(&event_file(&curves, 0.0)), expected);
        }
    }
}
