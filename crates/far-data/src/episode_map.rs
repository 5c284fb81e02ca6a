//! An episode seen from above, as an SVG drawing.

use std::fmt::Write;

use far_memory::Pose;

use crate::Episode;
use crate::contact_sheet::{EXPLORE_COLOR, RETURN_COLOR};

const WIDTH: f32 = 960.0;
const HEIGHT: f32 = 720.0;
/// Room for the legend above and the scale below.
const HEAD: f32 = 64.0;
const MARGIN: f32 = 56.0;
/// White around letters, so that they stay readable on lines.
const HALO: &str = "stroke=\"#ffffff\" stroke-width=\"3.5\" paint-order=\"stroke\"";

/// A top-down map: both legs, headings, start, turning point and events.
#[derive(Clone, Debug)]
pub struct EpisodeMap {
    /// Text above the map.
    pub title: String,
    /// The camera of every frame.
    pub poses: Vec<Pose>,
    /// Index of the first return frame.
    pub boundary: usize,
    /// Frames at which something happened, with its name.
    pub events: Vec<(usize, String)>,
    /// Filled shapes below the path: a color and a ring of (X, Y) corners in meters.
    pub shapes: Vec<(String, Vec<[f32; 2]>)>,
}

/// From meters to points of the drawing, north up.
struct Scale {
    center: [f32; 2],
    points_per_meter: f32,
}

impl EpisodeMap {
    /// The map of an episode; of one without poses, where its actions lead. Labels that last over several frames are marked at their first.
    pub fn of_episode(episode: &Episode, title: String) -> Self {
        let labels = &episode.description().labels;
        let mut events = Vec::new();
        for frame in 0..episode.len() {
            for &event in episode.events(frame) {
                let lasting = frame > 0 && episode.events(frame - 1).contains(&event);
                if let (false, Some(name)) = (lasting, labels.get(usize::from(event))) {
                    events.push((frame, name.clone()));
                }
            }
        }
        let (poses, boundary) = (episode.reckoned_poses(), episode.boundary());
        Self { title, poses, boundary, events, shapes: Vec::new() }
    }

    /// The drawing.
    pub fn to_svg(&self) -> String {
        let scale = Scale::around(&self.poses);
        let mut svg = String::new();
        let out = &mut svg;
        let _ = writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fbfbf9\"/>"
        );
        self.draw_shapes(out, &scale);
        draw_grid(out, &scale);
        let split = self.boundary.min(self.poses.len());
        // The return leg starts where the outbound leg ended, so that the line is unbroken.
        // The outbound line is wider, so that it shows under a return on the same path.
        self.draw_leg(out, &scale, 0..split, EXPLORE_COLOR, 6.0);
        let returning = split.saturating_sub(1)..self.poses.len();
        self.draw_leg(out, &scale, returning, RETURN_COLOR, 2.0);
        self.draw_marks(out, &scale);
        self.draw_events(out, &scale);
        self.draw_legend(out);
        svg.push_str("</svg>\n");
        svg
    }

    fn draw_shapes(&self, out: &mut String, scale: &Scale) {
        let [left, top, width, height] =
            [MARGIN, HEAD, WIDTH - 2.0 * MARGIN, HEIGHT - HEAD - MARGIN];
        let _ = writeln!(
            out,
            "<clipPath id=\"map\"><rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"/></clipPath>\n\
             <rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"#ffffff\" stroke=\"#d6d6d0\"/>\n\
             <g clip-path=\"url(#map)\">"
        );
        for (color, corners) in &self.shapes {
            let ring: Vec<String> = corners.iter().map(|&corner| scale.text(corner)).collect();
            let (ring, color) = (ring.join(" "), escape(color));
            let _ = writeln!(out, "<polygon points=\"{ring}\" fill=\"{color}\"/>");
        }
        out.push_str("</g>\n");
    }

    fn draw_leg(
        &self,
        out: &mut String,
        scale: &Scale,
        frames: std::ops::Range<usize>,
        color: [u8; 3],
        width: f32,
    ) {
        let color = hex(color);
        let poses = &self.poses[frames];
        let opacity = if width > 4.0 { 0.45 } else { 0.95 };
        let line: Vec<String> = poses.iter().map(|pose| scale.text(flat(pose))).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\" stroke-linecap=\"round\" stroke-opacity=\"{opacity}\"/>",
            line.join(" ")
        );
        let every = (poses.len() / 28).max(1);
        for pose in poses.iter().step_by(every) {
            let [x, y] = scale.place(flat(pose));
            // SVG turns clockwise with y down, so the yaw changes its sign.
            let degrees = -pose.yaw().to_degrees();
            let _ = writeln!(
                out,
                "<path d=\"M13 0 L3 4.5 L5.5 0 L3 -4.5 Z\" fill=\"{color}\" stroke=\"#ffffff\" stroke-width=\"0.8\" \
                 transform=\"translate({x:.1} {y:.1}) rotate({degrees:.1})\"/>"
            );
        }
    }

    fn draw_marks(&self, out: &mut String, scale: &Scale) {
        let last = self.poses.len() - 1;
        let marks = [
            (0, "start", EXPLORE_COLOR),
            (self.boundary.min(last), "return begins", RETURN_COLOR),
            (last, "end", RETURN_COLOR),
        ];
        let mut drawn: Vec<[f32; 2]> = Vec::new();
        for (frame, name, color) in marks {
            let [x, y] = scale.place(flat(&self.poses[frame]));
            // Start and end of a loop meet: the later label goes below the earlier one.
            let stack = drawn.iter().filter(|[a, b]| (a - x).hypot(b - y) < 40.0).count();
            drawn.push([x, y]);
            let color = hex(color);
            let (text_x, anchor) = beside(x, 9.0);
            let text_y = y - 12.0 + 29.0 * stack as f32;
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\" fill=\"#ffffff\" stroke=\"{color}\" stroke-width=\"3\"/>\n\
                 <text x=\"{text_x:.1}\" y=\"{text_y:.1}\" text-anchor=\"{anchor}\" fill=\"{color}\" \
                 font-weight=\"600\" {HALO}>{name}</text>"
            );
        }
    }

    fn draw_events(&self, out: &mut String, scale: &Scale) {
        let mut drawn: Vec<[f32; 2]> = Vec::new();
        for (frame, name) in &self.events {
            let Some(pose) = self.poses.get(*frame) else { continue };
            let [x, y] = scale.place(flat(pose));
            let (text_x, anchor) = beside(x, 14.0);
            let mut text_y = y + 4.0;
            while drawn.iter().any(|[a, b]| (a - text_x).abs() < 96.0 && (b - text_y).abs() < 13.0)
            {
                text_y += 13.0;
            }
            drawn.push([text_x, text_y]);
            let name = escape(name);
            let line_y = text_y - 4.0;
            let _ = writeln!(
                out,
                "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{text_x:.1}\" y2=\"{line_y:.1}\" stroke=\"#9a9a94\" stroke-width=\"0.7\"/>\n\
                 <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"#16a34a\" stroke=\"#ffffff\"/>\n\
                 <text x=\"{text_x:.1}\" y=\"{text_y:.1}\" text-anchor=\"{anchor}\" font-size=\"11\" fill=\"#14532d\" \
                 {HALO}>{name} <tspan fill=\"#7c7c76\">{frame}</tspan></text>"
            );
        }
    }

    fn draw_legend(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"30\" font-size=\"17\" font-weight=\"600\" fill=\"#28292d\">{}</text>",
            escape(&self.title)
        );
        let mut x = MARGIN;
        let explore = format!("explore, {} frames", self.boundary);
        let returning =
            format!("return, {} frames", self.poses.len().saturating_sub(self.boundary));
        let mut entries = vec![(hex(EXPLORE_COLOR), explore), (hex(RETURN_COLOR), returning)];
        if !self.events.is_empty() {
            entries.push(("#16a34a".into(), "event and its frame".into()));
        }
        for (color, text) in entries {
            let (dot, label) = (x + 5.0, x + 16.0);
            let _ = writeln!(
                out,
                "<circle cx=\"{dot:.1}\" cy=\"47\" r=\"5\" fill=\"{color}\"/>\
                 <text x=\"{label:.1}\" y=\"51.5\" fill=\"#55554f\">{text}</text>"
            );
            x += 40.0 + 7.0 * text.len() as f32;
        }
        let _ = writeln!(
            out,
            "<path d=\"M{0} 22 l5 14 l-5 -3.5 l-5 3.5 Z\" fill=\"#55554f\"/>\
             <text x=\"{0}\" y=\"50\" text-anchor=\"middle\" fill=\"#55554f\">N</text>",
            WIDTH - MARGIN - 8.0
        );
    }
}

impl Scale {
    fn around(poses: &[Pose]) -> Self {
        let (mut low, mut high) = ([f32::MAX; 2], [f32::MIN; 2]);
        for pose in poses {
            for axis in 0..2 {
                low[axis] = low[axis].min(pose.position[axis]);
                high[axis] = high[axis].max(pose.position[axis]);
            }
        }
        // At least two meters across, so that an observer who stands still has a map too.
        let extent = |axis: usize| (high[axis] - low[axis]).max(2.0) * 1.14;
        let room = [WIDTH - 2.0 * MARGIN, HEIGHT - HEAD - MARGIN];
        Self {
            center: [0, 1].map(|axis| 0.5 * (low[axis] + high[axis])),
            points_per_meter: (room[0] / extent(0)).min(room[1] / extent(1)),
        }
    }

    fn place(&self, [x, y]: [f32; 2]) -> [f32; 2] {
        let middle = HEAD + 0.5 * (HEIGHT - HEAD - MARGIN);
        [
            0.5 * WIDTH + (x - self.center[0]) * self.points_per_meter,
            middle - (y - self.center[1]) * self.points_per_meter,
        ]
    }

    fn text(&self, place: [f32; 2]) -> String {
        let [x, y] = self.place(place);
        format!("{x:.1},{y:.1}")
    }
}

/// Lines every round number of meters, and a bar that says how many.
fn draw_grid(out: &mut String, scale: &Scale) {
    let step = round_step(60.0 / scale.points_per_meter);
    let half = [0.5 * (WIDTH - 2.0 * MARGIN), 0.5 * (HEIGHT - HEAD - MARGIN)];
    for axis in 0..2 {
        let reach = half[axis] / scale.points_per_meter;
        let first = ((scale.center[axis] - reach) / step).ceil() as i64;
        let last = ((scale.center[axis] + reach) / step).floor() as i64;
        for line in first..=last {
            let mut at = scale.center;
            at[axis] = line as f32 * step;
            let [x, y] = scale.place(at);
            let [x1, y1, x2, y2] = match axis {
                0 => [x, HEAD, x, HEIGHT - MARGIN],
                _ => [MARGIN, y, WIDTH - MARGIN, y],
            };
            let _ = writeln!(
                out,
                "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#000000\" stroke-opacity=\"0.07\"/>"
            );
        }
    }
    let (y, length) = (HEIGHT - 0.5 * MARGIN, step * scale.points_per_meter);
    let (bar, label, base) = (y - 6.0, MARGIN + length + 8.0, y + 3.0);
    let _ = writeln!(
        out,
        "<path d=\"M{MARGIN} {bar:.1} v6 h{length:.1} v-6\" fill=\"none\" stroke=\"#55554f\" stroke-width=\"1.5\"/>\
         <text x=\"{label:.1}\" y=\"{base:.1}\" fill=\"#55554f\">{step} m</text>"
    );
}

/// The smallest of 0.5, 1, 2, 5, 10, 20, … that is at least `length`.
fn round_step(length: f32) -> f32 {
    let decade = 10f32.powf(length.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
    steps.into_iter().find(|step| *step >= length).unwrap_or(10.0 * decade).max(0.5)
}

/// Where a label beside `x` starts, and its anchor: to the right, or to the left near the edge.
fn beside(x: f32, gap: f32) -> (f32, &'static str) {
    if x > WIDTH - 190.0 { (x - gap, "end") } else { (x + gap, "start") }
}

fn flat(pose: &Pose) -> [f32; 2] {
    [pose.position[0], pose.position[1]]
}

fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> EpisodeMap {
        let pose = |i: usize| Pose::from_yaw_pitch([i as f32, 0.0, 1.6], 0.0, 0.0);
        EpisodeMap {
            title: "a < b".into(),
            poses: (0..20).map(pose).collect(),
            boundary: 12,
            events: vec![(3, "open".into()), (99, "nowhere".into())],
            shapes: vec![("#cccccc".into(), vec![[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])],
        }
    }

    #[test]
    fn north_is_up_and_east_is_right() {
        let scale = Scale::around(&map().poses);
        let [x, y] = scale.place([5.0, 0.0]);
        assert!(scale.place([6.0, 0.0])[0] > x && scale.place([5.0, 1.0])[1] < y);
    }

    #[test]
    fn legs_meet_and_text_is_escaped() {
        let svg = map().to_svg();
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("a &lt; b") && svg.contains(">open ") && !svg.contains("nowhere"));
        let joint = Scale::around(&map().poses).text([11.0, 0.0]);
        assert_eq!(svg.matches(&joint).count(), 2);
    }

    /// One flipped byte of a position used to draw a line for every five kilometers.
    #[test]
    fn a_map_has_few_lines_however_far_the_way_leads() {
        for reach in [0.1, 3.0, 40.0, 900.0, 1e6, 1e30] {
            let mut far = map();
            far.poses[7].position[0] = reach;
            let lines = far.to_svg().matches("<line").count();
            assert!(lines < 60, "{lines} lines for {reach} m");
        }
        assert_eq!(
            [0.2, 0.7, 3.0, 5.0, 51.0, 800.0].map(round_step),
            [0.5, 1.0, 5.0, 5.0, 100.0, 1000.0]
        );
    }

    #[test]
    fn a_standing_observer_has_a_map() {
        let mut still = map();
        still.poses = vec![Pose::identity(); 4];
        still.boundary = 4;
        assert!(!still.to_svg().contains("NaN") && !still.to_svg().contains("inf"));
    }
}
