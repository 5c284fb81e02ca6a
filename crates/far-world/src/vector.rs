//! Three-component arithmetic on plain arrays.

/// A point or direction: X east, Y north, Z up; default unit: meters.
pub type Vector = [f32; 3];

/// Sum of two vectors.
#[inline]
pub fn add(a: Vector, b: Vector) -> Vector {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

/// Difference `a − b`.
#[inline]
pub fn subtract(a: Vector, b: Vector) -> Vector {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

/// A vector times a number.
#[inline]
pub fn scale(a: Vector, by: f32) -> Vector {
    [a[0] * by, a[1] * by, a[2] * by]
}

/// Componentwise product, as colors are lit.
#[inline]
pub fn product(a: Vector, b: Vector) -> Vector {
    [a[0] * b[0], a[1] * b[1], a[2] * b[2]]
}

/// Inner product.
#[inline]
pub fn dot(a: Vector, b: Vector) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// Euclidean length.
#[inline]
pub fn length(a: Vector) -> f32 {
    dot(a, a).sqrt()
}

/// The unit vector along `a`; zero stays zero.
pub fn normalize(a: Vector) -> Vector {
    let length = length(a);
    if length > 0.0 { scale(a, 1.0 / length) } else { a }
}

/// The vector with the coordinates `own` along three axes.
#[inline]
pub fn along(axes: [Vector; 3], own: Vector) -> Vector {
    add(add(scale(axes[0], own[0]), scale(axes[1], own[1])), scale(axes[2], own[2]))
}

/// Linear blend: `a` at 0, `b` at 1.
#[inline]
pub fn mix(a: Vector, b: Vector, share: f32) -> Vector {
    add(scale(a, 1.0 - share), scale(b, share))
}
