//! Buffers that recalls reuse, so that they allocate nothing after the first.

use std::any::{Any, TypeId};

/// Buffers for recalls on one thread. Each policy keeps one value of its own type in it.
///
/// ```
/// use far_memory::Scratch;
/// #[derive(Default)]
/// struct Buffers {
///     scores: Vec<f32>,
/// }
/// let mut scratch = Scratch::new();
/// scratch.get::<Buffers>().scores.resize(100, 0.0);
/// assert_eq!(scratch.get::<Buffers>().scores.len(), 100);
/// ```
#[derive(Default)]
pub struct Scratch {
    buffers: Vec<(TypeId, Box<dyn Any + Send>)>,
}

impl Scratch {
    /// Empty buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// The buffers of type `T`, empty at the first call and kept between calls.
    pub fn get<T: Any + Send + Default>(&mut self) -> &mut T {
        let wanted = TypeId::of::<T>();
        let place = match self.buffers.iter().position(|(kind, _)| *kind == wanted) {
            Some(place) => place,
            None => {
                self.buffers.push((wanted, Box::<T>::default()));
                self.buffers.len() - 1
            }
        };
        self.buffers[place].1.downcast_mut().expect("stored under its own type")
    }
}

/// Makes the list so many times this value, in the memory it has.
pub(crate) fn refill<T: Clone>(list: &mut Vec<T>, length: usize, value: T) {
    list.clear();
    list.resize(length, value);
}
