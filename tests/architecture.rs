//! The arrows between the crates, read from cargo itself.

use std::collections::BTreeSet;
use std::process::Command;

/// Every package that `package` builds on, itself left out.
fn dependencies(package: &str) -> BTreeSet<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let out = Command::new(cargo)
        .args(["tree", "--offline", "-p", package, "-e", "normal", "--prefix", "none", "--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo tree runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).expect("package names are UTF-8");
    let names = text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned);
    names.filter(|name| name != package && !name.is_empty()).collect()
}

fn own(package: &str) -> Vec<String> {
    dependencies(package).into_iter().filter(|d| d.starts_with("attnproof")).collect()
}

#[test]
fn arrows_never_turn_back() {
    assert_eq!(own("attnproof-oracle"), [""; 0]);
    assert_eq!(own("attnproof-report"), [""; 0]);
    assert_eq!(own("attnproof-cases"), ["attnproof-oracle"]);
    assert_eq!(own("attnproof-layouts"), ["attnproof-oracle"]);
    assert_eq!(own("attnproof-shaders"), ["attnproof-layouts", "attnproof-oracle"]);
}

#[test]
fn only_the_shaders_reach_the_gpu() {
    let gpu = |package: &str| dependencies(package).iter().any(|d| d.starts_with("wgpu") || d == "naga");
    for package in ["attnproof-oracle", "attnproof-cases", "attnproof-layouts", "attnproof-report"] {
        assert!(!gpu(package), "{package} reaches wgpu or naga");
    }
    assert!(gpu("attnproof-shaders"), "the check sees wgpu where it is");
}

#[test]
fn files_stay_small() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders: Vec<_> = ["src", "oracle", "cases", "layouts", "shaders", "report", "tests", "benches"]
        .map(|f| root.join(f))
        .into();
    let mut long = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of the project") {
            let path = entry.expect("an entry").path();
            let ending = path.extension().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
            if path.is_dir() {
                folders.push(path);
            } else if ending == "rs" || ending == "wgsl" {
                let lines = std::fs::read_to_string(&path).expect("source is text").lines().count();
                if lines > 430 {
                    long.push(format!("{}: {lines}", path.display()));
                }
            } else if ending == "snap" {
                let bytes = path.metadata().expect("a file").len();
                assert!(bytes <= 8 * 1024, "{} is {bytes} bytes; snapshots stay under 8 KiB", path.display());
            }
        }
    }
    assert!(long.is_empty(), "files past 430 lines: {long:?}");
}
