//! A map from above: the walk, the views, the query and the recalled memories.

use std::collections::BTreeMap;
use std::fmt::Write;

use far_memory::{Pose, Recall};

use crate::scene::{self, AREA, REACH, Scene, WALLS};

/// Pixels per meter.
const SCALE: f32 = 26.0;
/// Height of the line above the map.
const HEADER: f32 = 40.0;

/// The picture as SVG text.
pub fn draw(scene: &Scene, id: &str, caption: &str, recall: &Recall) -> String {
    let [width, height] = [AREA[0] * SCALE, AREA[1] * SCALE + HEADER];
    let mut svg = String::new();
    let text = &mut svg;
    line(
        text,
        format_args!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="Helvetica,Arial,sans-serif">
<title>{id}: {caption}</title>
<style>.m{{fill:#7d8ca3}}.c{{fill:#e8871e;fill-opacity:.09;stroke:#e8871e;stroke-opacity:.5;stroke-width:.8}}.s{{fill:#c8690a}}.r{{fill:#c8690a;stroke:#fff;stroke-width:1.6}}.n{{fill:#fff;font-size:12px;font-weight:bold;text-anchor:middle}}.h{{fill:#12805c}}</style>
<defs><g id="m"><path d="M0 0L11 -7.5A13.3 13.3 0 0 1 11 7.5Z" fill-opacity=".38"/><circle r="2.3"/></g><clipPath id="f"><rect y="{HEADER}" width="{width}" height="{height}"/></clipPath></defs>
<rect width="{width}" height="{height}" rx="8" fill="#fbfaf6"/>
<text x="14" y="26" font-size="18" font-weight="bold" fill="#22303f">{id}</text>
<text x="{right}" y="26" font-size="13.5" fill="#5b6878" text-anchor="end">{caption}</text>"##,
            right = width - 14.0,
        ),
    );
    for [west, south, east, north] in WALLS {
        let [x, y] = at([west, north]);
        line(
            text,
            format_args!(
                r##"<rect x="{x:.0}" y="{y:.0}" width="{:.0}" height="{:.0}" rx="3" fill="#d8d3c8"/>"##,
                (east - west) * SCALE,
                (north - south) * SCALE,
            ),
        );
    }
    let horizon = scene.query.horizon();
    let goal = scene.query.goal().expect("the scene has a goal");
    line(text, format_args!(r##"<g clip-path="url(#f)">"##));
    line(
        text,
        format_args!(
            r##"<path d="{}" fill="#12805c" fill-opacity=".16" stroke="#12805c" stroke-opacity=".6" stroke-width=".8" stroke-dasharray="4 3"/>"##,
            cone(goal, REACH)
        ),
    );
    polyline(text, scene.poses.iter(), "#aab4c2", 1.2);
    polyline(text, scene.query.pose.iter().chain(horizon), "#12805c", 2.2);

    // A memory that is recalled several times shows all of its ranks.
    let mut ranks: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for memory in recall.iter() {
        ranks.entry(memory.id.index()).or_default().push(memory.rank + 1);
    }
    for &index in ranks.keys() {
        line(text, format_args!(r#"<path class="c" d="{}"/>"#, cone(&scene.poses[index], REACH)));
    }
    line(text, format_args!("</g>"));
    for (index, pose) in scene.poses.iter().enumerate() {
        let fade = 0.35 + 0.65 * index as f32 / scene.poses.len() as f32;
        wedge(text, pose, "m", fade, 1.0);
    }
    for pose in horizon.iter().step_by(2) {
        wedge(text, pose, "h", 0.75, 1.0);
    }
    wedge(text, goal, "h", 1.0, 1.7);
    labels(text, scene, &ranks);
    line(text, format_args!("</svg>"));
    svg
}

/// Puts the ranks beside their memories, moved apart where they would overlap.
fn labels(text: &mut String, scene: &Scene, ranks: &BTreeMap<usize, Vec<usize>>) {
    let mut placed: Vec<[f32; 2]> = Vec::new();
    for (&index, ranks) in ranks {
        let pose = &scene.poses[index];
        let [x, y] = at([pose.position[0], pose.position[1]]);
        // Free places are searched on growing circles, behind the view first.
        let back = std::f32::consts::PI - pose.yaw();
        let spots = (0..60).map(|step| {
            let (ring, turn) = (step / 12, step % 12);
            let side = if turn % 2 == 0 { 1.0 } else { -1.0 };
            let angle = back + side * (turn as f32 / 2.0).ceil() * 0.52;
            let distance = 15.0 + 13.0 * ring as f32;
            [x + distance * angle.cos(), y + distance * angle.sin()]
        });
        let inside = |[u, v]: [f32; 2]| {
            (12.0..AREA[0] * SCALE - 12.0).contains(&u)
                && (HEADER + 8.0..HEADER + AREA[1] * SCALE - 12.0).contains(&v)
        };
        let free = |spot: &[f32; 2]| {
            inside(*spot) && placed.iter().all(|[u, v]| (spot[0] - u).hypot(spot[1] - v) > 22.0)
        };
        let [u, v] = spots.clone().find(free).unwrap_or([x, y]);
        placed.push([u, v]);
        let names: Vec<String> = ranks.iter().map(ToString::to_string).collect();
        let name = match names.as_slice() {
            [first, .., last] if names.len() > 2 => format!("{first}–{last}"),
            _ => names.join(","),
        };
        let width = 11.0 + 6.5 * name.chars().count() as f32;
        wedge(text, pose, "s", 1.0, 1.6);
        line(
            text,
            format_args!(
                r##"<path d="M{x:.0} {y:.0}L{u:.0} {v:.0}" stroke="#c8690a"/><rect class="r" x="{:.1}" y="{:.1}" width="{width:.1}" height="18" rx="9"/><text class="n" x="{u:.1}" y="{:.1}">{name}</text>"##,
                u - 0.5 * width,
                v - 9.0,
                v + 4.3,
            ),
        );
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    writeln!(text, "{arguments}").expect("writing to a string cannot fail");
}

/// A place on the map in pixels; north is up.
fn at([x, y]: [f32; 2]) -> [f32; 2] {
    [x * SCALE, HEADER + (AREA[1] - y) * SCALE]
}

/// A small triangle that opens in the viewing direction.
fn wedge(text: &mut String, pose: &Pose, class: &str, opacity: f32, size: f32) {
    let [x, y] = at([pose.position[0], pose.position[1]]);
    let turn = -pose.yaw().to_degrees();
    let grown = if size == 1.0 { String::new() } else { format!(" scale({size})") };
    let faded = if opacity == 1.0 { String::new() } else { format!(r#" opacity="{opacity:.2}""#) };
    line(
        text,
        format_args!(
            r##"<use href="#m" class="{class}"{faded} transform="translate({x:.0} {y:.0})rotate({turn:.0}){grown}"/>"##
        ),
    );
}

/// The outline of a field of view as a path.
fn cone(pose: &Pose, reach: f32) -> String {
    let half = 0.5 * scene::camera().horizontal_field_of_view;
    let end = |angle: f32| {
        let yaw = pose.yaw() + angle;
        at([pose.position[0] + reach * yaw.cos(), pose.position[1] + reach * yaw.sin()])
    };
    let ([x, y], [u, v], [w, z]) =
        (at([pose.position[0], pose.position[1]]), end(half), end(-half));
    let radius = reach * SCALE;
    format!("M{x:.0} {y:.0}L{u:.0} {v:.0}A{radius:.0} {radius:.0} 0 0 1 {w:.0} {z:.0}Z")
}

fn polyline<'a>(text: &mut String, poses: impl Iterator<Item = &'a Pose>, color: &str, width: f32) {
    let points: Vec<String> = poses
        .map(|pose| at([pose.position[0], pose.position[1]]))
        .map(|[x, y]| format!("{x:.0},{y:.0}"))
        .collect();
    line(
        text,
        format_args!(
            r#"<polyline points="{}" fill="none" stroke="{color}" stroke-width="{width}"/>"#,
            points.join(" ")
        ),
    );
}
