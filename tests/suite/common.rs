//! Running the command, and reading what it wrote.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

/// Names of the five layouts, in the order of reports.
pub(crate) const LAYOUTS: [&str; 5] = [
    "classic-paged",
    "packed-block-table",
    "hot-tail-contiguous",
    "virtual-contiguous",
    "hybrid-prefix-shared",
];

/// Real requests: the head of a public trace.
pub(crate) const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mooncake_excerpt.jsonl");

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

impl Ran {
    /// The verdict in one line.
    pub(crate) fn headline(&self) -> &str {
        self.out.lines().next().unwrap_or_default()
    }
}

/// The command, its environment free of whatever would change its output, and under a time limit: a command that hangs
/// fails its test.
pub(crate) fn attnproof() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attnproof"));
    for name in ["NO_COLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    // EGL complains on standard error without a runtime folder
    command
        .env("XDG_RUNTIME_DIR", env!("CARGO_TARGET_TMPDIR"))
        .env("COLUMNS", "100")
        .timeout(Duration::from_mins(5));
    command
}

/// Runs `command` with `args`.
pub(crate) fn finish(mut command: Command, args: &[&str]) -> Ran {
    let output = command.args(args).output().expect("the command starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
    let (out, err) = (text(output.stdout), text(output.stderr));
    let code = output.status.code().unwrap_or_else(|| panic!("{args:?} was killed, or hung:\n{out}\n{err}"));
    assert!(!err.contains("panicked"), "{args:?} panicked:\n{err}");
    Ran { code, out, err }
}

/// Runs the command with `args`.
pub(crate) fn run(args: &[&str]) -> Ran {
    finish(attnproof(), args)
}

/// Runs the command with `args` in `folder`.
pub(crate) fn run_in(folder: &Path, args: &[&str]) -> Ran {
    let mut command = attnproof();
    command.current_dir(folder);
    finish(command, args)
}

/// An empty folder, removed when dropped.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Rows of JSON lines.
pub(crate) fn rows(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).expect("a row is JSON")).collect()
}

/// Rows as JSON lines.
pub(crate) fn lines(rows: &[Value]) -> String {
    rows.iter().flat_map(|row| [row.to_string(), "\n".to_owned()]).collect()
}

/// A string field of a row.
pub(crate) fn text<'r>(row: &'r Value, field: &str) -> &'r str {
    row[field].as_str().unwrap_or_else(|| panic!("{field} is a string in {row}"))
}

/// The rows of one kernel.
pub(crate) fn of_kernel<'r>(rows: &'r [Value], kernel: &str) -> Vec<&'r Value> {
    rows.iter().filter(|row| text(row, "kernel") == kernel).collect()
}

/// A row without its time: what two runs must agree on.
pub(crate) fn timeless(row: &Value) -> Value {
    let mut row = row.clone();
    row["time_ms"] = Value::Null;
    row
}

/// A run whose rows were kept.
#[derive(Debug)]
pub(crate) struct Kept {
    /// How it ended.
    pub(crate) ran: Ran,
    /// The JSON lines it wrote.
    pub(crate) lines: String,
    /// The same as values.
    pub(crate) rows: Vec<Value>,
}

/// `run` with `args`, its rows kept.
pub(crate) fn kept(args: &[&str]) -> Kept {
    let folder = folder();
    let file = folder.path().join("rows.jsonl");
    let ran = run(&[&["run", "--json", file.to_str().expect("a UTF-8 path")], args].concat());
    let lines = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("no rows ({e}):\n{}", ran.err));
    Kept { rows: rows(&lines), ran, lines }
}

/// The main job on the best adapter and on the CPU twin, run once.
pub(crate) fn full() -> &'static Kept {
    static FULL: OnceLock<Kept> = OnceLock::new();
    need_adapter();
    FULL.get_or_init(|| kept(&[]))
}

/// The main job on the CPU twin alone, run once.
pub(crate) fn twin() -> &'static Kept {
    static TWIN: OnceLock<Kept> = OnceLock::new();
    TWIN.get_or_init(|| kept(&["--adapter", "cpu"]))
}

/// Adapters as `doctor --json` lists them.
pub(crate) fn adapters() -> &'static [Value] {
    static ADAPTERS: OnceLock<Vec<Value>> = OnceLock::new();
    ADAPTERS.get_or_init(|| rows(&run(&["doctor", "--json"]).out))
}

/// Fails the test on a machine that cannot run the shaders. A GL adapter does not count: only Vulkan, Metal and DX12
/// drivers are asked for.
pub(crate) fn need_adapter() {
    assert!(
        adapters().iter().any(|adapter| text(adapter, "backend") != "gl"),
        "no Vulkan, Metal or DX12 adapter on this machine, and these tests run shaders: run `bash tests/run.sh`, which \
         installs a software one (lavapipe)"
    );
}
