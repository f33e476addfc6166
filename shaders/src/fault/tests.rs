use std::collections::BTreeSet;

use attnproof_layouts::kind::LayoutKind;
use attnproof_oracle::elem::Elem;

use super::{Edit, library};
use crate::compose::{Shader, compose, compose_faulty, concerns, validate};

/// Every shader of one format, or of all formats where an edit is in a decoder, that `edits` concern.
fn shaders(edits: &[Edit]) -> Vec<Shader> {
    let decoder = |elem: Elem| format!("elem/{}.wgsl", elem.name());
    let of_format = edits.iter().any(|edit| edit.file.starts_with("elem/"));
    let mut all = vec![Shader::Merge];
    for elem in Elem::ALL {
        let wanted = edits.iter().any(|edit| edit.file == decoder(elem));
        if wanted || !of_format && elem == Elem::E4m3fn {
            all.extend(LayoutKind::ALL.map(|layout| Shader::Attention { layout, elem, probe: true }));
        }
    }
    all.retain(|&shader| concerns(shader, edits));
    all
}

#[test]
fn ids_are_unique_and_every_fault_says_what_it_does() {
    let library = library();
    assert!(library.len() > 130, "{} faults", library.len());
    let ids: BTreeSet<&str> = library.iter().map(|fault| fault.id).collect();
    assert_eq!(ids.len(), library.len());
    for fault in library {
        assert!(
            fault.id.chars().all(|c| c == '-' || c.is_ascii_lowercase() || c.is_ascii_digit()),
            "{}",
            fault.id
        );
        assert!(!fault.says.is_empty() && !fault.says.ends_with('.'), "{}", fault.id);
        assert!(!fault.kind.name().is_empty());
    }
}

#[test]
fn every_edit_has_one_place_and_leaves_valid_wgsl() {
    for fault in library() {
        let shaders = shaders(fault.wgsl);
        let files: BTreeSet<&str> =
            shaders.iter().flat_map(|&shader| compose(shader).segments).map(|(file, _)| file).collect();
        for edit in fault.wgsl {
            assert!(files.contains(edit.file), "{}: no shader has {}", fault.id, edit.file);
        }
        for shader in shaders {
            let composition =
                compose_faulty(shader, fault.wgsl).unwrap_or_else(|error| panic!("{}: {error}", fault.id));
            assert_ne!(composition.source, compose(shader).source, "{}", fault.id);
            validate(shader, &composition).unwrap_or_else(|error| panic!("{}: {error}", fault.id));
        }
    }
}

#[test]
fn an_edit_without_one_place_is_refused() {
    let edit = |find| [Edit { file: "merge.wgsl", find, replace: "" }];
    let refusal = |find| compose_faulty(Shader::Merge, &edit(find)).unwrap_err();
    assert_eq!((refusal("no such text").found, refusal("no such text").file), (0, "merge.wgsl"));
    assert!(refusal("part").found > 1);
}

#[test]
fn lines_of_an_edited_shader_map_back_to_their_files() {
    let edits = [Edit { file: "params.wgsl", find: "struct Params {", replace: "\n\n\nstruct Params {" }];
    let (right, moved) = (compose(Shader::Merge), compose_faulty(Shader::Merge, &edits).unwrap());
    assert_eq!(moved.segments[1], (right.segments[1].0, right.segments[1].1 + 3));
}
