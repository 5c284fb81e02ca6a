//! Made-up recordings in every format of pictures, written by `scripts/make_import_sources.py`, come out
//! with the poses they were made with; wrong conventions are named.

mod import_source;

use far_data::import::{Convention, ConventionChoice, ImportOptions, ReturnRule, find_format};
use far_data::*;
use far_memory::Pose;
use import_source::{fixtures, options, plan, source};

/// The poses that the sources were made with.
fn truth() -> Vec<Pose> {
    let text = std::fs::read_to_string(fixtures().join("truth.csv")).expect("there");
    let pose = |line: &str| {
        let numbers: Vec<f32> =
            line.split(',').map(|word| word.parse().expect("a number")).collect();
        Pose {
            position: numbers[1..4].try_into().expect("three"),
            rotation: numbers[4..8].try_into().expect("four"),
        }
    };
    text.lines().skip(1).map(pose).collect()
}

/// Imports a source as one episode.
fn import(format: &str, name: &str, options: &ImportOptions) -> (tempfile::TempDir, Dataset) {
    let source = source(name);
    let out = source.path().join("out");
    let plan =
        plan(format, source.path(), options).unwrap_or_else(|error| panic!("{name}: {error}"));
    plan.write(&out, &|_| ()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let dataset = Dataset::open(&out).expect("opens");
    (source, dataset)
}

fn assert_near(found: &Pose, due: &Pose, what: &str) {
    let pairs = [
        (found.position, due.position),
        (found.forward(), due.forward()),
        (found.right(), due.right()),
    ];
    for (found, due) in pairs {
        let apart = (0..3).map(|axis| (found[axis] - due[axis]).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-4, "{what}: {found:?} instead of {due:?}");
    }
}

#[test]
fn every_format_comes_out_with_the_poses_it_was_made_with() {
    for (format, name) in [
        ("frames", "frames-opencv"),
        ("frames", "frames-matrix"),
        ("seven-scenes", "seven-scenes"),
        ("tum", "tum"),
        ("transforms", "transforms"),
        ("colmap", "colmap-text"),
        ("colmap", "colmap-binary"),
        ("realestate10k", "realestate10k"),
        ("scannet", "scannet"),
        ("tartanair", "tartanair"),
        ("soundspaces", "soundspaces"),
        ("thor", "thor"),
    ] {
        // Where the source says what the camera sees, nobody else has to.
        let says = ["transforms", "colmap", "realestate10k", "scannet", "thor"].contains(&format);
        let options = if says { ImportOptions::default() } else { options("") };
        let (_folder, dataset) = import(format, name, &options);
        let episode = verify_episode(&dataset, 0).expect("whole");
        let truth = truth();
        assert_eq!(episode.len(), truth.len(), "{name}");
        // A model of COLMAP has a world of its own: only how poses lie to each other is known.
        let own = |poses: &[Pose], frame: usize| match format {
            "colmap" => poses[frame].relative_to(&poses[0]),
            _ => poses[frame],
        };
        for frame in 0..truth.len() {
            let what = format!("{name}, frame {frame}");
            assert_near(&own(episode.poses(), frame), &own(&truth, frame), &what);
        }
        // Kinects and scanners have a rate of their own.
        let rate = if ["seven-scenes", "scannet"].contains(&format) { 30.0 } else { 10.0 };
        assert_eq!(dataset.description().fps, rate, "{name}");
        let view = dataset.description().field_of_view;
        assert!((view.horizontal_degrees - 80.0).abs() < 0.01, "{name}: {view:?}");
        assert!(episode.boundary() < episode.len(), "{name} returns");
        let report = PoseReport::of_episode(&episode).expect("checked").expect("posed");
        assert_eq!(report.better, None, "{name}: {report:?}");
        let picture = std::fs::read(fixtures().join("pictures/007.png")).expect("there");
        let due = Picture::from_png(&picture, [32, 24]).expect("a picture");
        assert_eq!(episode.picture(7).expect("a picture"), due, "{name}");
    }
}

#[test]
fn every_convention_is_converted() {
    for (name, words) in [
        ("frames-opengl", "axes opengl"),
        ("frames-ros", "axes ros"),
        ("frames-unity", "axes unity left up y"),
        ("frames-left-matrix", "left up y"),
        ("frames-inverse", "inverse"),
        ("frames-millimeters", "unit 0.001"),
        ("frames-xyzw", "xyzw"),
    ] {
        let (_folder, dataset) = import("frames", name, &options(words));
        let episode = dataset.episode(0).expect("opens");
        for (frame, (found, due)) in episode.poses().iter().zip(truth()).enumerate() {
            assert_near(found, &due, &format!("{name}, frame {frame}"));
        }
    }
}

#[test]
fn every_mistake_is_named_and_nothing_is_written() {
    for (name, words, better) in [
        ("frames-opengl", "", "--axes opengl"),
        ("frames-unity", "up y", "--axes unity --handed left"),
        ("frames-inverse", "", "--world-to-camera"),
        ("frames-millimeters", "", "--unit mm"),
        ("frames-xyzw", "", "--quaternion xyzw"),
        ("frames-left-matrix", "up y", "--handed"),
    ] {
        let source = source(name);
        let error = plan("frames", source.path(), &options(words)).err().expect(name);
        let told = format!("{error} {}", error.hint());
        assert!(told.contains(better), "{name}: {told}");
        if name == "frames-left-matrix" {
            assert!(told.contains("--no-poses") && !told.contains("--trust-poses"), "{told}");
        } else {
            let trusting = ImportOptions { trust_poses: true, ..options(words) };
            assert!(plan("frames", source.path(), &trusting).is_ok(), "{name} can be trusted");
        }
    }
}

#[test]
fn resizing_cutting_and_resuming_give_the_same_bytes() {
    let source = source("frames-opencv");
    let wanted = ImportOptions {
        resize: Some([12, 12]),
        square: true,
        window: Some(10),
        return_rule: ReturnRule::Last(0.3),
        license: "CC0".into(),
        ..options("")
    };
    let plan = plan("frames", source.path(), &wanted).expect("planned");
    let [first, second] = ["first", "second"].map(|name| source.path().join(name));
    plan.write(&first, &|_| ()).expect("written");
    plan.write(&second, &|_| ()).expect("written");
    // As if killed in the middle: one episode is gone, another half there.
    std::fs::remove_file(second.join("episodes/000001.arrow")).expect("removed");
    std::fs::write(second.join("episodes/000001.arrow.partial"), "half").expect("written");
    std::fs::remove_file(second.join("episodes.arrow")).expect("removed");
    let result = plan.write(&second, &|_| ()).expect("goes on");
    assert_eq!((result.kept, result.episodes), (2, 3));
    for name in ["dataset.json", "episodes.arrow", "episodes/000000.arrow", "episodes/000001.arrow"]
    {
        let [a, b] =
            [&first, &second].map(|folder| std::fs::read(folder.join(name)).expect("there"));
        assert!(a == b, "{name} differs");
    }
    let dataset = Dataset::open(&first).expect("opens");
    let description = dataset.description();
    assert_eq!((description.resolution, description.license.as_str()), ([12, 12], "CC0"));
    // 24 of 32 pixels across are kept.
    let view = description.field_of_view;
    assert!((view.horizontal_degrees - view.vertical_degrees).abs() < 1e-3, "{view:?}");
    assert!(
        description.provenance.contains("frames") && description.provenance.contains("window 10")
    );
    let splits: Vec<Split> =
        dataset.ids().map(|id| dataset.summary(id).expect("there").facts.split).collect();
    assert_eq!(splits, [Split::Train, Split::Train, Split::Test]);
    let lengths: Vec<_> = dataset.ids().map(|id| dataset.lengths(id).expect("there")).collect();
    // A second of training is left out before the test.
    assert_eq!(lengths, [(10, 7), (10, 7), (6, 4)]);
    let other = ImportOptions { window: Some(12), ..wanted };
    let other = self::plan("frames", source.path(), &other).expect("planned");
    let error = other.write(&first, &|_| ()).expect_err("another import");
    assert!(matches!(error, DataError::Conflict { .. }), "{error}");
}

#[test]
fn the_return_is_found_read_or_refused() {
    let source = source("frames-opencv");
    let boundary = |rule| {
        let options = ImportOptions { return_rule: rule, ..options("") };
        plan("frames", source.path(), &options).map(|plan| plan.episodes[0].boundary)
    };
    // The column says two thirds, and what the source says goes before what poses say.
    assert_eq!(boundary(ReturnRule::Column).expect("a column"), 24);
    assert_eq!(boundary(ReturnRule::Automatic).expect("a column"), 24);
    assert_eq!(boundary(ReturnRule::Last(0.25)).expect("a share"), 27);
    // Without the column: one round takes 24 frames, and places are seen again a little before.
    let table = source.path().join("poses.csv");
    let text = std::fs::read_to_string(&table).expect("there").replace("phase", "other");
    std::fs::write(&table, &text).expect("written");
    let found = boundary(ReturnRule::Automatic).expect("found");
    assert!((20..=26).contains(&found), "{found}");
    assert!(boundary(ReturnRule::Column).unwrap_err().to_string().contains("phase"));
    // Half a round sees nothing again.
    let half: Vec<&str> = text.lines().take(13).collect();
    std::fs::write(&table, half.join("\n")).expect("written");
    (12..36).for_each(|frame| {
        std::fs::remove_file(source.path().join(format!("images/{frame:06}.png")))
            .expect("removed");
    });
    let error = boundary(ReturnRule::Automatic).unwrap_err();
    assert!(
        error.to_string().contains("no frame sees a place again: nothing to recall"),
        "{error}"
    );
    assert!(error.hint().contains("last:30%"));
}

#[test]
fn what_is_exported_is_imported_again() {
    let (folder, dataset) = import("frames", "frames-opencv", &options(""));
    let out = folder.path().join("nerf");
    assert_eq!(export_transforms(&dataset, 0, &out).expect("written"), 36);
    let error = export_transforms(&dataset, 0, &out).expect_err("already there");
    assert!(error.to_string().contains("is there already"), "{error}");
    let plan = plan("transforms", &out, &ImportOptions::default()).expect("planned");
    plan.write(&folder.path().join("again"), &|_| ()).expect("written");
    let again = Dataset::open(&folder.path().join("again")).expect("opens");
    let (first, second) = (dataset.episode(0).expect("opens"), again.episode(0).expect("opens"));
    for frame in 0..36 {
        assert_near(&second.poses()[frame], &first.poses()[frame], &format!("frame {frame}"));
        assert_eq!(second.image_bytes(frame), first.image_bytes(frame));
    }
    assert_eq!(first.times(), second.times());
    let [a, b] = [&dataset, &again].map(|dataset| dataset.description().field_of_view);
    assert!((a.horizontal_degrees - b.horizontal_degrees).abs() < 1e-3);
}

#[test]
fn lerobot_goes_there_and_back() {
    let (folder, dataset) = import("frames", "frames-opencv", &options(""));
    let out = folder.path().join("robot");
    let mut done = 0;
    assert_eq!(export_lerobot(&dataset, &out, || done += 1).expect("written"), (1, 36));
    assert_eq!(done, 1);
    assert!(export_lerobot(&dataset, &out, || ()).unwrap_err().to_string().contains("is there"));
    let options = ImportOptions {
        pose_column: Some("observation.camera_pose".into()),
        ..ImportOptions::default()
    };
    let plan = plan("lerobot", &out, &options).expect("planned");
    plan.write(&folder.path().join("again"), &|_| ()).expect("written");
    let again = Dataset::open(&folder.path().join("again")).expect("opens");
    let (first, second) = (dataset.episode(0).expect("opens"), again.episode(0).expect("opens"));
    assert_eq!((first.len(), first.boundary()), (second.len(), second.boundary()));
    let actions = second.numbers("robot_action").expect("a column");
    for frame in 0..36 {
        assert_near(&second.poses()[frame], &first.poses()[frame], &format!("frame {frame}"));
        assert_eq!(second.image_bytes(frame), first.image_bytes(frame));
        assert!((first.times()[frame] - second.times()[frame]).abs() < 1e-5);
        assert_eq!(actions.row(frame)[0], first.action(frame).forward);
    }
    let view = again.description().field_of_view;
    assert_eq!(view, dataset.description().field_of_view);
}

/// The commands of a robot: described for models, kept through imports and exports.
#[test]
fn commands_of_a_robot_are_described_and_go_there_and_back() {
    let (folder, walk) = import("frames", "frames-opencv", &options(""));
    let lerobot = |from: &Dataset, name: &str| {
        let [out, again] = [name.into(), format!("{name}-again")].map(|at| folder.path().join(at));
        export_lerobot(from, &out, || ()).expect("written");
        let options = ImportOptions { no_poses: true, ..options("") };
        let plan = plan("lerobot", &out, &options).expect("planned");
        plan.write(&again, &|_| ()).expect("written");
        Dataset::open(&again).expect("opens")
    };
    // Without commands of their own, the motion of the camera is exported as the action.
    let first = lerobot(&walk, "first");
    let described = first.description().robot_action.clone().expect("commands");
    let rows: Vec<[f64; 5]> = (0..36)
        .map(|frame| walk.episode(0).expect("opens").action(frame))
        .map(|own| [own.forward, own.left, own.up, own.turn, own.tilt].map(f64::from))
        .collect();
    for number in 0..5 {
        let mean = rows.iter().map(|row| row[number]).sum::<f64>() / 36.0;
        let spread = rows.iter().map(|row| (row[number] - mean).powi(2)).sum::<f64>() / 36.0;
        let deviation = if spread < 1e-12 { 1.0 } else { spread.sqrt() };
        assert!((f64::from(described.mean[number]) - mean).abs() < 1e-6);
        assert!((f64::from(described.deviation[number]) - deviation).abs() < 1e-5, "{number}");
    }
    let episode = verify_episode(&first, 0).expect("whole");
    assert!(!episode.unknown_columns().iter().any(|name| name == ROBOT_ACTION));
    let standard = described.standardized(&episode).expect("commands");
    let mean: f32 = (0..36).map(|frame| standard.row(frame)[0]).sum::<f32>() / 36.0;
    assert!(mean.abs() < 1e-5, "{mean}");
    // They are what is exported the second time, and what a dataset of ours keeps.
    let second = lerobot(&first, "second");
    let plan = plan("dataset", first.folder(), &options("")).expect("planned");
    plan.write(&folder.path().join("kept"), &|_| ()).expect("written");
    let kept = Dataset::open(&folder.path().join("kept")).expect("opens");
    for again in [&second, &kept] {
        assert_eq!(again.description().robot_action.as_ref(), Some(&described));
        let column = again.episode(0).expect("opens").numbers(ROBOT_ACTION).expect("a column");
        assert_eq!(column, episode.numbers(ROBOT_ACTION).expect("a column"));
    }
    // A description that does not fit the column is found, and keys do not replace commands.
    let error = add_made_keys(&first, ROBOT_ACTION, 1, |_| Ok::<_, DataError>(vec![0.0; 36]));
    assert!(error.unwrap_err().to_string().contains("the robot's commands"));
    let path = first.folder().join("dataset.json");
    let other = first
        .description()
        .clone()
        .with_robot_action(RobotAction { mean: vec![0.0; 4], deviation: vec![1.0; 4] });
    std::fs::write(&path, other.to_json()).expect("written");
    let first = Dataset::open(first.folder()).expect("opens");
    let error = verify_episode(&first, 0).err().expect("refused").to_string();
    assert!(error.contains("`robot_action` has 5 numbers, dataset.json says 4"), "{error}");
}

#[test]
fn a_source_without_poses_is_a_dataset_without_poses() {
    let source = source("frames-opencv");
    let options = ImportOptions { no_poses: true, ..options("") };
    let out = source.path().join("out");
    let plan = plan("frames", source.path(), &options).expect("planned");
    assert!(plan.reports.is_empty() && plan.notes[0].contains("no camera poses"));
    plan.write(&out, &|_| ()).expect("written");
    let dataset = Dataset::open(&out).expect("opens");
    assert_eq!((dataset.description().version, dataset.description().poses), (2, false));
    let episode = verify_episode(&dataset, 0).expect("whole");
    assert_eq!((episode.len(), episode.boundary(), episode.pose(3)), (36, 24, None));
    assert!(episode.poses().is_empty());
    assert_eq!(episode.action(5), far_memory::Displacement::default());
    assert_eq!(PoseReport::of_episode(&episode).expect("read"), None);
    let nerf = source.path().join("nerf");
    let error = export_transforms(&dataset, 0, &nerf).unwrap_err().to_string();
    assert!(error.contains("no poses") && !nerf.exists(), "{error}");
    // Without the column `phase`, pictures are compared. Its second round is another one than the first.
    let table = source.path().join("poses.csv");
    let text = std::fs::read_to_string(&table).expect("there").replace("phase", "other");
    std::fs::write(&table, &text).expect("written");
    let error = self::plan("frames", source.path(), &options).err().expect("no return");
    assert!(error.to_string().contains("pictures are alike by"), "{error}");
}

#[test]
fn choices_replace_only_what_they_name() {
    let choice = ConventionChoice { unit: Some(0.01), ..Default::default() };
    let own = find_format("colmap").expect("known").convention;
    assert_eq!(choice.over(own), Convention { unit: 0.01, ..own });
}
