//! How adapters are named and chosen.

use attnproof_shaders::device::AdapterKind::{Cpu, Discrete, Integrated, Other, Virtual};
use attnproof_shaders::device::{self, Adapter, AdapterKind, DeviceError, best, candidates, matching};

use crate::machine::adapter;

fn indices(found: Result<Vec<&Adapter>, DeviceError>) -> Vec<usize> {
    found.expect("a match").into_iter().map(|adapter| adapter.info.index).collect()
}

#[test]
fn every_adapter_of_the_list_is_found_by_index_and_by_name() {
    let all = candidates();
    assert!(!all.is_empty(), "no adapter: run tests/run.sh, which installs lavapipe");
    for (index, adapter) in all.iter().enumerate() {
        let info = &adapter.info;
        assert_eq!(info.index, index);
        assert_eq!(indices(matching(&all, &index.to_string())), [index]);
        for name in [info.name.clone(), info.name.to_uppercase(), info.backend.clone(), info.to_string()] {
            assert!(indices(matching(&all, &name)).contains(&index), "{name}");
        }
        assert!(info.max_binding_bytes > 0 && info.workgroup_bytes > 0, "{info:?}");
        assert_ne!(info.backend, "noop", "the control is never in the list");
    }
}

#[test]
fn what_is_not_there_is_refused_with_what_is() {
    let all = candidates();
    assert!(!all.is_empty(), "no adapter: run tests/run.sh, which installs lavapipe");
    for wanted in ["no such adapter", "", "999999", "-1"] {
        let error = matching(&all, wanted).expect_err(wanted);
        let text = error.to_string();
        let DeviceError::NoMatch { wanted: named, present } = error else { panic!("{text}") };
        assert_eq!(named, wanted);
        assert_eq!(present, all.iter().map(|a| a.info.to_string()).collect::<Vec<_>>());
        assert!(text.contains(&format!("'{wanted}'")) && text.contains(&all[0].info.name), "{text}");
    }
    let text = matching(&[], "nvidia").expect_err("nothing is there").to_string();
    assert_eq!(text, "no adapter matches 'nvidia'; there is no adapter at all");
    assert!(best(&[]).is_none());
}

#[test]
fn hardware_comes_before_software_and_the_list_decides_the_rest() {
    let real = adapter();
    let of = |index: usize, kind: AdapterKind| {
        let mut adapter = real.clone();
        (adapter.info.index, adapter.info.kind) = (index, kind);
        adapter
    };
    let choice = |list: &[Adapter]| best(list).map(|adapter| adapter.info.index);
    let mut list = vec![of(0, Cpu)];
    for (index, kind) in [(1, Other), (2, Virtual), (3, Integrated), (4, Discrete)] {
        assert_eq!(choice(&list), Some(index - 1));
        list.push(of(index, kind));
    }
    list.push(of(5, Discrete));
    assert_eq!(choice(&list), Some(4));
    list.reverse();
    assert_eq!(choice(&list), Some(4));
    let kinds = [Discrete, Integrated, Virtual, Other, Cpu].map(AdapterKind::name);
    assert_eq!(kinds, ["discrete", "integrated", "virtual", "other", "cpu"]);
}

#[test]
fn the_chosen_adapter_opens_and_the_control_is_the_noop_backend() {
    let all = candidates();
    let chosen = best(&all).expect("no adapter: run tests/run.sh, which installs lavapipe");
    assert!(all.iter().all(|other| chosen.info.kind <= other.info.kind));
    chosen.open().expect("it opens");
    let noop = device::noop().expect("wgpu has its noop backend");
    assert_eq!((noop.info.index, noop.info.backend.as_str()), (0, "noop"));
    noop.open().expect("it opens");
}
