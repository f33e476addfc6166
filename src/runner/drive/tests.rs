//! Expected hits: kept by the right manager in every layout, and broken by a wrong number and by wrong managers.

use attnproof_cases::case::Family;
use attnproof_cases::script::parse_script;
use attnproof_layouts::fault::library;
use attnproof_oracle::Shape;

use super::*;

/// The rule that `script` breaks in `layout`, under the named fault if there is one.
fn broken(script: &str, layout: LayoutKind, fault: Option<&str>) -> Option<&'static str> {
    let shape = Shape { q_heads: 1, kv_heads: 1, d: 8, dv: 8 };
    let script = parse_script(script).expect("a script");
    let case = Case::new(Family::User, "mine", "for a test", shape, script);
    let mut drive = match fault {
        None => Drive::new(&case, layout, 0, true),
        Some(id) => {
            let fault = library().iter().find(|fault| fault.id == id).expect("a fault of the library");
            Drive::with_fault(&case, layout, 0, false, fault)
        }
    }
    .expect("a pool");
    let mut steps = case.script.ops.iter().zip(&case.script.lines);
    match steps.try_for_each(|(op, &line)| drive.step(op, line)) {
        Ok(()) => None,
        Err(DriveError::Broken { rule, .. }) => Some(rule),
        Err(other) => panic!("{other}"),
    }
}

/// B continues A in mid-block, where hybrid copies 8 tokens more.
fn continued(hits: u32) -> String {
    format!("prefill A 40 hits=0\nprefill B A:40+5 hits={hits}\nfree A B\nprefill C A:40+9 hits=32\ncheck")
}

#[test]
fn whole_blocks_are_expected_alike_in_every_layout() {
    for layout in LayoutKind::ALL {
        assert_eq!(broken(&continued(32), layout, None), None, "{layout:?}");
        for wrong in [0, 16] {
            assert_eq!(broken(&continued(wrong), layout, None), Some("hits"), "{layout:?}, {wrong}");
        }
        assert_eq!(broken("prefill A 64\nprefill B A:60 hits=32\ncheck", layout, None), Some("hits"));
        assert_eq!(broken("prefill A 64\nprefill B 60 hits=16\ncheck", layout, None), Some("hits"));
    }
}

#[test]
fn a_prompt_that_must_miss_and_hits() {
    for layout in LayoutKind::ALL {
        assert_eq!(broken("prefill A 20 hits=0\nprefill B 20 hits=0\ncheck", layout, None), None);
        assert_eq!(broken("prefill A 20\nprefill B A:20 hits=0\ncheck", layout, None), Some("hits"));
    }
}

#[test]
fn managers_that_find_nothing_or_count_wrongly() {
    for layout in LayoutKind::ALL {
        let under = |fault| broken(&continued(32), layout, Some(fault));
        assert_eq!(under("prefix-never-hit"), Some("hits"), "{layout:?}");
        assert_eq!(under("hits-count-the-prompt"), Some("count"), "{layout:?}");
    }
}
