//! Lamp posts, the well, market stalls, fences, benches, barrels.

use rand::RngExt;

use crate::prop::{Prop, Shape};

use super::change::{Changeable, Look};
use super::house::Site;

/// A lamp post at a point.
pub(super) fn lamp_post(site: &mut Site, [x, y]: [f32; 2]) {
    let iron = site.palette.iron;
    site.props.push(Prop::standing([x, y, 0.0], [0.16, 0.16, 2.9], iron).with_shape(Shape::Drum));
    site.props.push(Prop::standing([x, y, 0.0], [0.36, 0.36, 0.25], iron).with_shape(Shape::Drum));
    let lantern = site.props.len();
    let off = site.palette.lanterns[0];
    site.props.push(Prop::block([x, y, 3.1], [0.42, 0.42, 0.5], off));
    site.props.push(Prop::block([x, y, 3.42], [0.56, 0.56, 0.14], iron));
    site.changeables.push(Changeable {
        look: Look::Surface { props: vec![lantern], options: site.palette.lanterns.to_vec() },
        start: site.random.random_range(0..2),
    });
}

/// A roofed well.
pub(super) fn well(site: &mut Site, [x, y]: [f32; 2]) {
    let (stone, wood, water) = (site.palette.stone, site.palette.wood, site.palette.water);
    let roof = site.palette.roofs[0];
    let ring = Prop::standing([x, y, 0.0], [2.2, 2.2, 0.95], stone).with_shape(Shape::Drum);
    site.props.push(ring.with_shadow());
    site.props.push(Prop::standing([x, y, 0.9], [1.7, 1.7, 0.07], water).with_shape(Shape::Drum));
    for side in [-1.0, 1.0] {
        site.props.push(Prop::standing([x + 0.95 * side, y, 0.0], [0.18, 0.18, 2.5], wood));
    }
    site.props.push(Prop::block([x, y, 2.2], [1.9, 0.12, 0.12], wood));
    site.props.push(Prop::block([x, y, 2.6], [2.8, 2.2, 0.22], roof).with_shadow());
    site.props.push(Prop::block([x, y, 2.82], [2.6, 1.3, 0.24], roof));
    site.props.push(Prop::block([x, y, 3.02], [2.4, 0.5, 0.2], roof));
}

/// A market stall with a counter, goods and a striped canopy; `yaw` rotates its front (own −Y).
pub(super) fn stall(site: &mut Site, [x, y]: [f32; 2], yaw: f32) {
    let wood = site.palette.wood;
    let first = site.props.len();
    let colors: Vec<_> =
        (0..4).map(|i| [site.palette.canopies[i], site.palette.goods[i]]).collect();
    let counter = Prop::standing([0.0, -0.4, 0.0], [2.6, 0.9, 0.9], wood).with_shadow();
    let parts = [
        counter,
        Prop::block([0.0, -0.4, 1.0], [2.4, 0.75, 0.22], colors[0][1]),
        Prop::standing([-1.3, -0.9, 0.0], [0.12, 0.12, 2.3], wood),
        Prop::standing([1.3, -0.9, 0.0], [0.12, 0.12, 2.3], wood),
        Prop::standing([-1.3, 0.9, 0.0], [0.12, 0.12, 2.6], wood),
        Prop::standing([1.3, 0.9, 0.0], [0.12, 0.12, 2.6], wood),
        Prop::block([0.0, 0.0, 2.5], [3.0, 2.3, 0.3], colors[0][0]).with_shadow(),
    ];
    site.props.extend(parts.map(|part| part.moved([x, y, 0.0], yaw)));
    site.changeables.push(Changeable {
        look: Look::Stall {
            props: (first..site.props.len()).collect(),
            canopy: first + 6,
            goods: first + 1,
            colors,
        },
        start: site.random.random_range(1..=4),
    });
}

/// A fence along one axis between two points.
pub(super) fn fence(site: &mut Site, from: [f32; 2], to: [f32; 2]) {
    let center = [0.5 * (from[0] + to[0]), 0.5 * (from[1] + to[1]), 0.0];
    let (wide, deep) = ((to[0] - from[0]).abs().max(0.08), (to[1] - from[1]).abs().max(0.08));
    let fence = site.palette.fence;
    site.props.push(Prop::standing(center, [wide, deep, 0.95], fence));
    for end in [from, to] {
        site.props.push(Prop::standing([end[0], end[1], 0.0], [0.16, 0.16, 1.15], fence));
    }
}

/// Something small beside a house: a barrel, a crate, a hay bale, a bench or a sign.
pub(super) fn clutter(site: &mut Site, [x, y]: [f32; 2]) {
    let (wood, hay, iron, sign) =
        (site.palette.wood, site.palette.hay, site.palette.iron, site.palette.sign);
    let yaw = site.random.random_range(0..4) as f32 * std::f32::consts::FRAC_PI_2;
    match site.random.random_range(0..5) {
        0 => {
            let barrel = Prop::standing([x, y, 0.0], [0.7, 0.7, 0.95], wood);
            site.props.push(barrel.with_shape(Shape::Drum));
            for height in [0.25, 0.7] {
                let hoop = Prop::block([x, y, height], [0.73, 0.73, 0.07], iron);
                site.props.push(hoop.with_shape(Shape::Drum));
            }
        }
        1 => {
            site.props.push(Prop::standing([x, y, 0.0], [0.8, 0.8, 0.8], wood).with_yaw(0.3));
            site.props.push(Prop::standing([x, y, 0.8], [0.55, 0.55, 0.5], wood).with_yaw(0.9));
        }
        2 => site.props.push(Prop::standing([x, y, 0.0], [1.3, 0.9, 0.8], hay).with_yaw(yaw)),
        3 => {
            let (sin, cos) = yaw.sin_cos();
            site.props.push(Prop::block([x, y, 0.45], [1.7, 0.5, 0.1], wood).with_yaw(yaw));
            for side in [-0.7, 0.7] {
                let foot = [x + cos * side, y + sin * side, 0.0];
                site.props.push(Prop::standing(foot, [0.12, 0.42, 0.42], wood).with_yaw(yaw));
            }
        }
        _ => {
            site.props.push(Prop::standing([x, y, 0.0], [0.12, 0.12, 2.0], wood));
            site.props.push(Prop::block([x, y, 1.9], [0.9, 0.1, 0.8], sign).with_yaw(yaw));
        }
    }
}
