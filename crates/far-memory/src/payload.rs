//! The payloads of a block: borrowed from files for its first rows, owned for later ones.

use crate::Payload;
use std::sync::{Arc, OnceLock};

/// Payloads that are stored elsewhere, for example in a mapped file.
pub trait PayloadSource: Send + Sync {
    /// The payload of a row of the block.
    fn payload(&self, row: usize) -> Payload<'_>;
}

#[derive(Clone)]
enum OwnedPayload {
    Bytes(Arc<[u8]>),
    Reference(Arc<str>),
}

/// The payloads of the rows of one block.
pub(crate) struct Payloads {
    lent: Option<Arc<dyn PayloadSource>>,
    /// Rows below this are borrowed.
    lent_rows: usize,
    capacity: usize,
    /// Allocated when the first payload arrives: many memories have none.
    owned: OnceLock<Box<[OnceLock<OwnedPayload>]>>,
}

impl Payloads {
    /// No payloads yet, with room for `capacity` rows.
    pub fn empty(capacity: usize) -> Self {
        Self { lent: None, lent_rows: 0, capacity, owned: OnceLock::new() }
    }

    /// The payloads of exactly `rows` rows, all of them borrowed.
    pub fn lent(source: Arc<dyn PayloadSource>, rows: usize) -> Self {
        Self { lent: Some(source), lent_rows: rows, ..Self::empty(rows) }
    }

    /// From now on, reads the first `rows` rows from `source`, and frees the copies of them.
    pub fn lend(&mut self, source: Arc<dyn PayloadSource>, rows: usize) {
        (self.lent, self.lent_rows) = (Some(source), rows);
        if let Some(slots) = self.owned.get_mut() {
            slots.iter_mut().take(rows).for_each(|slot| *slot = OnceLock::new());
        }
    }

    /// Stores a copy of the payload of a row that has none yet.
    ///
    /// # Panics
    /// If the row was written before or is borrowed.
    pub fn set(&self, row: usize, payload: Payload<'_>) {
        assert!(row >= self.lent_rows, "borrowed rows are not written");
        let owned = match payload {
            Payload::None => return,
            Payload::Bytes(bytes) => OwnedPayload::Bytes(bytes.into()),
            Payload::Reference(reference) => OwnedPayload::Reference(reference.into()),
        };
        assert!(self.slots()[row].set(owned).is_ok(), "each row is written once");
    }

    fn slots(&self) -> &[OnceLock<OwnedPayload>] {
        self.owned.get_or_init(|| (0..self.capacity).map(|_| OnceLock::new()).collect())
    }

    /// The payload of a row.
    pub fn get(&self, row: usize) -> Payload<'_> {
        if let Some(source) = &self.lent
            && row < self.lent_rows
        {
            return source.payload(row);
        }
        match self.owned.get().and_then(|slots| slots.get(row)?.get()) {
            None => Payload::None,
            Some(OwnedPayload::Bytes(bytes)) => Payload::Bytes(bytes),
            Some(OwnedPayload::Reference(reference)) => Payload::Reference(reference),
        }
    }

    /// The payloads of the first `length` rows, shared, with room for `capacity` rows.
    pub fn grown(&self, length: usize, capacity: usize) -> Self {
        let lent_rows = self.lent_rows.min(length);
        let grown = Self { lent: self.lent.clone(), lent_rows, ..Self::empty(capacity) };
        if let Some(slots) = self.owned.get() {
            for (target, slot) in grown.slots().iter().zip(slots).take(length) {
                if let Some(payload) = slot.get() {
                    target.get_or_init(|| payload.clone());
                }
            }
        }
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Lender;

    impl PayloadSource for Lender {
        fn payload(&self, _row: usize) -> Payload<'_> {
            Payload::Reference("lent")
        }
    }

    #[test]
    fn lent_and_owned_payloads_stand_side_by_side_through_growth() {
        let payloads = Payloads::lent(Arc::new(Lender), 2).grown(2, 4);
        payloads.set(2, Payload::Bytes(b"own"));
        let mut grown = payloads.grown(3, 8);
        grown.set(5, Payload::Bytes(b"late"));
        let all =
            |payloads: &Payloads| (0..6).map(|row| format!("{:?}", payloads.get(row))).collect();
        let lent = r#"Reference("lent")"#;
        let bytes = |bytes: &[u8]| format!("{:?}", Payload::Bytes(bytes));
        let found: Vec<String> = all(&grown);
        assert_eq!(found, [lent, lent, &bytes(b"own"), "None", "None", &bytes(b"late")]);
        grown.lend(Arc::new(Lender), 4);
        let found: Vec<String> = all(&grown);
        assert_eq!(found, [lent, lent, lent, lent, "None", &bytes(b"late")]);
    }
}
