//! Right kernels are never accused, wrong ones are; a sweep that was cut off goes on to the same end.

use std::fs;
use std::path::{Path, PathBuf};

use attnproof::kernel::Twin;
use attnproof::sweep::judge::Lab;
use attnproof::sweep::{Request, Sweep, state};
use serde_json::Value;

use crate::common::{Ran, folder, run, run_in};

fn lab() -> Lab {
    Lab::new(vec![Box::new(Twin::new())])
}

fn request(rows: u64, control: bool) -> Request {
    Request { seed: 11, rows, max_keys: 96, adapter: None, control }
}

/// A sweep with so many workers, ended by the saving numbered `cut` if there is one.
fn swept(sweep: &mut Sweep, jobs: usize, cut: Option<usize>) -> Option<String> {
    let mut saved = (0, String::new());
    let mut save = |sweep: &Sweep| {
        saved = (saved.0 + 1, state::write(sweep));
        if Some(saved.0) == cut { Err(()) } else { Ok(()) }
    };
    let ran = sweep.run((0..jobs).map(|_| lab()).collect(), &|_| (), &mut save);
    ran.is_err().then_some(saved.1)
}

/// `sweep ARGS` in `folder`, short unless ARGS say otherwise.
fn short(folder: &Path, args: &[&str]) -> Ran {
    let missing =
        [["--rows", "600"], ["--max-keys", "64"]].into_iter().filter(|flag| !args.contains(&flag[0]));
    let flags: Vec<&str> = missing.flatten().collect();
    run_in(folder, &[&["sweep"], &flags[..], args].concat())
}

fn json(file: PathBuf) -> Value {
    serde_json::from_str(&fs::read_to_string(file).expect("the result")).expect("a JSON document")
}

#[test]
fn right_kernels_are_never_accused() {
    let folder = folder();
    let args =
        ["sweep", "--rows", "4000", "--max-keys", "200", "--seed", "3", "--json", "s.json", "--out", "o"];
    let ran = run_in(folder.path(), &args);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.headline().starts_with("PASS: "), "{}", ran.out);
    let result = json(folder.path().join("s.json"));
    let total = &result["total"];
    assert!(total["rows"].as_u64() > Some(3000), "{total}");
    assert_eq!(total["violations"], 0);
    let kernels = result["kernels"].as_array().expect("kernels");
    let named =
        |part: &str| kernels.iter().any(|k| k["kernel"].as_str().is_some_and(|name| name.contains(part)));
    for part in ["cpu-twin hybrid-prefix-shared", "strict f32 / ", "fast-math ", "wgsl-letter ", "split-7x1"]
    {
        assert!(named(part), "{part} took part");
    }
    assert!(total["o"]["max"].as_f64() > Some(0.3), "the bound is no wall far away: {total}");
    assert_eq!(fs::read_dir(folder.path().join("o")).expect("a folder").count(), 0);
}

#[test]
fn a_wrong_simulated_kernel_is_found_shrunk_and_found_again() {
    let folder = folder();
    let ran = short(folder.path(), &["--rows", "3000", "--control", "--out", "o", "--json", "s.json"]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.headline().starts_with("FAIL: "), "{}", ran.out);
    let result = json(folder.path().join("s.json"));
    for kernel in result["kernels"].as_array().expect("kernels") {
        let right = !kernel["kernel"].as_str().expect("a name").starts_with("control ");
        assert!(!right || kernel["violations"] == 0, "{kernel}");
    }
    let mut files: Vec<_> = fs::read_dir(folder.path().join("o"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{}", ran.out);
    for file in &files {
        let path = file.to_str().expect("a UTF-8 path");
        assert!(path.contains("control-f32-"), "{path}");
        let again = run(&["sweep", "--replay", path]);
        assert_eq!(again.code, 1, "{}{}", again.out, again.err);
        assert!(again.out.starts_with("FAIL: "), "{}", again.out);
        let text = fs::read_to_string(file).expect("a case file");
        assert!(text.contains("\nprefill A 1\ncheck q=1\n"), "it was shrunk: {text}");
        // the same inputs to a kernel that is right
        let right = text.replace("# kernel: control f32", "# kernel: wgsl-letter f32");
        let file = folder.path().join("right.toml");
        fs::write(&file, right).expect("a file");
        let right = run_in(folder.path(), &["sweep", "--replay", "right.toml"]);
        assert_eq!(right.code, 0, "{}{}", right.out, right.err);
    }
}

#[test]
fn a_wrong_adapter_is_found_and_its_case_runs() {
    let folder = folder();
    let ran = short(folder.path(), &["--rows", "100", "--adapter", "noop", "--out", "o"]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let file = fs::read_dir(folder.path().join("o"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a UTF-8 name"))
        .find(|name| name.ends_with("-wgsl-classic-paged.toml"))
        .expect("a case of the shaders");
    let file = format!("o/{file}");
    let again = |adapter| run_in(folder.path(), &["run", "--cases", &file, "--adapter", adapter]);
    let (noop, twin) = (again("noop"), again("cpu"));
    assert_eq!((noop.code, twin.code), (1, 0), "{}{}", noop.out, twin.out);
    let replay = run_in(folder.path(), &["sweep", "--replay", &file]);
    assert_eq!(replay.code, 2);
    assert!(replay.err.contains("is no simulated kernel: use attnproof run --cases"), "{}", replay.err);
}

#[test]
fn the_number_of_workers_changes_nothing() {
    let sweeps = [1, 2].map(|jobs| {
        let mut sweep = Sweep::new(request(2500, true));
        assert_eq!(swept(&mut sweep, jobs, None), None);
        sweep
    });
    assert_eq!(sweeps[0], sweeps[1]);
    assert!(sweeps[0].is_done() && sweeps[0].table.total().rows > 2000);
}

#[test]
fn a_sweep_that_was_cut_off_goes_on_to_the_same_end() {
    let request = request(9000, true);
    let mut whole = Sweep::new(request.clone());
    assert_eq!(swept(&mut whole, 2, None), None);
    let mut cut = Sweep::new(request.clone());
    let saved = swept(&mut cut, 2, Some(1)).expect("the sweep is long enough to be saved on the way");
    let mut resumed = state::read(&saved, &request).expect("a state of this request");
    assert_eq!(resumed, cut);
    assert!(!resumed.is_done());
    assert_eq!(swept(&mut resumed, 1, None), None);
    assert_eq!(resumed, whole);
    assert!(!whole.violations.is_empty(), "violations are part of what must be equal");
}

#[test]
fn a_finished_state_gives_the_same_table() {
    let folder = folder();
    let first = short(folder.path(), &["--state", "state.json", "--jobs", "1"]);
    let second = short(folder.path(), &["--state", "state.json", "--jobs", "2"]);
    assert_eq!((first.code, second.code), (0, 0), "{}{}", first.err, second.err);
    assert_eq!(first.out, second.out);
}

/// Exit 2, one line that says `said`, and nothing on standard output.
fn refused(folder: &Path, args: &[&str], said: &str) {
    let ran = short(folder, args);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {}", ran.err);
    assert!(ran.err.starts_with("error: ") && ran.err.contains(said), "{args:?}: {}", ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{args:?}: {}", ran.err);
}

#[test]
fn states_of_something_else_are_refused() {
    let folder = folder();
    let file = folder.path().join("state.json");
    assert_eq!(short(folder.path(), &["--state", "state.json"]).code, 0);
    let good = fs::read_to_string(&file).expect("a state");
    for (args, said) in [
        (&["--seed", "4"][..], "state.json: seed: the state has \"0x9e37\", this sweep \"0x4\""),
        (&["--rows", "601"], "state.json: rows: the state has 600, this sweep 601"),
        (&["--max-keys", "65"], "state.json: max-keys: the state has 64, this sweep 65"),
        (&["--control"], "state.json: control: the state has false, this sweep true"),
        (&["--adapter", "noop"], "state.json: adapter: the state has null, this sweep \""),
    ] {
        refused(folder.path(), &[&["--state", "state.json"], args].concat(), said);
    }
    assert_eq!(fs::read_to_string(&file).expect("a state"), good, "a refused state is left as it was");
    for (content, said) in [
        ("", "state.json: $: no state of a sweep: "),
        ("[]", "state.json: version: missing"),
        (&good[..good.len() / 2], "state.json: $: no state of a sweep: "),
        (&good.replace("\"cases\":", "\"bases\":"), "state.json: cases: missing"),
        (&good.replace("\"buckets\":[[", "\"buckets\":[[9"), ".buckets: no such bucket"),
        (&good.replace("\"violations\":[]", "\"violations\":0"), "state.json: violations: expected a list"),
    ] {
        fs::write(&file, content).expect("a file");
        refused(folder.path(), &["--state", "state.json"], said);
    }
    refused(folder.path(), &["--state", "missing/state.json"], "missing/state.json: No such file");
    refused(
        folder.path(),
        &["--state", "s", "--json", "s"],
        "s: two outputs of one run would be written to it",
    );
}

#[test]
fn flags_and_files_that_make_no_sense() {
    let folder = folder();
    for (args, said) in [
        (&["--rows", "many"][..], "'many' for '--rows <N>'"),
        (&["--seed", "x"], "'x' for '--seed <SEED>'"),
        (&["--jobs", "0"], "'0' for '--jobs <N>'"),
        (&["--max-keys", "0"], "'0' for '--max-keys <N>'"),
        (&["--max-keys", "70000"], "'70000' for '--max-keys <N>'"),
        (&["--replay", "a", "--rows", "7"], "cannot be used with"),
    ] {
        let ran = run_in(folder.path(), &[&["sweep"], args].concat());
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.err);
        assert!(ran.err.contains(said), "{args:?}: {}", ran.err);
    }
    let replay = |content: &str, said: &str| {
        fs::write(folder.path().join("c.toml"), content).expect("a file");
        let ran = run_in(folder.path(), &["sweep", "--replay", "c.toml"]);
        assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{}", ran.err);
        assert!(ran.err.contains(said), "{}", ran.err);
    };
    replay("", "c.toml: no comment `# kernel: ...`: not written by a sweep");
    let comments = "# kernel: strict f32 / two-pass\n# seed: 0x1\n# chance: 0x1\n";
    replay(&comments.replace("strict", "loose"), "c.toml: `loose f32 / two-pass` is no simulated kernel");
    replay(comments, "c.toml:1: no cases: expected at least one [[case]] table");
    let ran = run_in(folder.path(), &["sweep", "--replay", "missing.toml"]);
    assert!(ran.code == 2 && ran.err.contains("missing.toml: No such file"), "{}", ran.err);
    let ran = short(folder.path(), &["--adapter", "no such adapter"]);
    assert_eq!((ran.code, ran.err.lines().count()), (3, 1), "{}", ran.err);
}

#[test]
fn nothing_asked_is_no_pass() {
    let folder = folder();
    let ran = short(folder.path(), &["--rows", "0"]);
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    assert!(ran.headline().starts_with("NOTHING JUDGED: "), "{}", ran.out);
}
