//! Joins whole WGSL files into one shader and maps the lines of a message back to the file they came from.

use attnproof_layouts::kind::LayoutKind;
use attnproof_oracle::elem::Elem;

/// A shader of the suite. Two shaders with equal `Shader` have equal source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shader {
    /// The attention core of a layout for a KV format; with the probe, every load is counted.
    Attention {
        /// Address file and element order.
        layout: LayoutKind,
        /// Decoder of the KV format.
        elem: Elem,
        /// Whether loads are counted.
        probe: bool,
    },
    /// The merge of partial results, the same for every layout and format.
    Merge,
}

impl Shader {
    /// Name of the entry point.
    pub fn entry_point(self) -> &'static str {
        match self {
            Self::Attention { .. } => "attention",
            Self::Merge => "merge",
        }
    }

    /// Every shader of the suite.
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::Merge];
        for layout in LayoutKind::ALL {
            for elem in Elem::ALL {
                all.extend([false, true].map(|probe| Self::Attention { layout, elem, probe }));
            }
        }
        all
    }

    /// A short label: layout, format and probe.
    pub fn label(self) -> String {
        match self {
            Self::Attention { layout, elem, probe } => {
                let probe = if probe { "probe" } else { "plain" };
                format!("{}/{}/{probe}", layout.name(), elem.name())
            }
            Self::Merge => "merge".to_owned(),
        }
    }
}

/// A composed shader: the source text, and which lines came from which file.
#[derive(Debug, Clone)]
pub struct Composition {
    /// WGSL source.
    pub source: String,
    /// For each file in order: its name and the line of `source` (from 1) at which it begins.
    pub segments: Vec<(&'static str, usize)>,
}

impl Composition {
    /// The file and line (from 1) that `line` (from 1) of the joined source came from.
    pub fn locate(&self, line: usize) -> Option<(&'static str, usize)> {
        self.segments
            .iter()
            .rev()
            .find(|(_, first)| *first <= line)
            .map(|(file, first)| (*file, line - first + 1))
    }
}

type Source = (&'static str, &'static str);

const PARAMS: Source = ("params.wgsl", include_str!("../wgsl/params.wgsl"));
const ATTENTION: Source = ("attention.wgsl", include_str!("../wgsl/attention.wgsl"));
const MERGE: Source = ("merge.wgsl", include_str!("../wgsl/merge.wgsl"));
const PROBE_OFF: Source = ("probe/off.wgsl", include_str!("../wgsl/probe/off.wgsl"));
const PROBE_ON: Source = ("probe/on.wgsl", include_str!("../wgsl/probe/on.wgsl"));
const CLASSIC_ORDER: Source = ("order/classic.wgsl", include_str!("../wgsl/order/classic.wgsl"));
const SLOT_MAJOR: Source = ("order/slot_major.wgsl", include_str!("../wgsl/order/slot_major.wgsl"));
const ONE_ROW: Source = ("addr/one_row.wgsl", include_str!("../wgsl/addr/one_row.wgsl"));
const BLOCKS: Source = ("addr/blocks.wgsl", include_str!("../wgsl/addr/blocks.wgsl"));
const PAGED: Source = ("addr/paged.wgsl", include_str!("../wgsl/addr/paged.wgsl"));
const WHOLE_ROW: Source = ("addr/whole_row.wgsl", include_str!("../wgsl/addr/whole_row.wgsl"));
const SPANS: Source = ("addr/spans.wgsl", include_str!("../wgsl/addr/spans.wgsl"));
const CLASSIC: Source = ("addr/classic-paged.wgsl", include_str!("../wgsl/addr/classic-paged.wgsl"));
const PACKED: Source = ("addr/packed-block-table.wgsl", include_str!("../wgsl/addr/packed-block-table.wgsl"));
const HOT_TAIL: Source =
    ("addr/hot-tail-contiguous.wgsl", include_str!("../wgsl/addr/hot-tail-contiguous.wgsl"));
const VIRTUAL: Source =
    ("addr/virtual-contiguous.wgsl", include_str!("../wgsl/addr/virtual-contiguous.wgsl"));
const HYBRID: Source =
    ("addr/hybrid-prefix-shared.wgsl", include_str!("../wgsl/addr/hybrid-prefix-shared.wgsl"));

fn element_source(elem: Elem) -> Source {
    match elem {
        Elem::F32 => ("elem/f32.wgsl", include_str!("../wgsl/elem/f32.wgsl")),
        Elem::F16 => ("elem/f16.wgsl", include_str!("../wgsl/elem/f16.wgsl")),
        Elem::Bf16 => ("elem/bf16.wgsl", include_str!("../wgsl/elem/bf16.wgsl")),
        Elem::E4m3fn => ("elem/e4m3fn.wgsl", include_str!("../wgsl/elem/e4m3fn.wgsl")),
        Elem::E5m2 => ("elem/e5m2.wgsl", include_str!("../wgsl/elem/e5m2.wgsl")),
        Elem::E4m3fnuz => ("elem/e4m3fnuz.wgsl", include_str!("../wgsl/elem/e4m3fnuz.wgsl")),
        Elem::E5m2fnuz => ("elem/e5m2fnuz.wgsl", include_str!("../wgsl/elem/e5m2fnuz.wgsl")),
        Elem::Int8 => ("elem/int8.wgsl", include_str!("../wgsl/elem/int8.wgsl")),
    }
}

fn address_sources(layout: LayoutKind) -> &'static [Source] {
    match layout {
        LayoutKind::ClassicPaged => &[CLASSIC_ORDER, CLASSIC, PAGED, BLOCKS, WHOLE_ROW, ONE_ROW],
        LayoutKind::PackedBlockTable => &[SLOT_MAJOR, PACKED, PAGED, BLOCKS, WHOLE_ROW, ONE_ROW],
        LayoutKind::HotTailContiguous => &[SLOT_MAJOR, HOT_TAIL, BLOCKS, ONE_ROW],
        LayoutKind::VirtualContiguous => &[SLOT_MAJOR, VIRTUAL, SPANS, WHOLE_ROW, ONE_ROW],
        LayoutKind::HybridPrefixShared => &[SLOT_MAJOR, HYBRID, SPANS, WHOLE_ROW],
    }
}

/// A change to the text of one file: `find`, which occurs there once, becomes `replace`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edit {
    /// File under `wgsl/`.
    pub file: &'static str,
    /// Text to be replaced.
    pub find: &'static str,
    /// What it becomes.
    pub replace: &'static str,
}

/// An edit whose text does not occur exactly once in its file.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {found} places to edit instead of one: {find}")]
pub struct NoPlace {
    /// File under `wgsl/`.
    pub file: &'static str,
    /// The text of the edit.
    pub find: &'static str,
    /// How often it occurs.
    pub found: usize,
}

/// The files of `shader` in order.
fn files(shader: Shader) -> Vec<Source> {
    let mut files = vec![PARAMS];
    match shader {
        Shader::Attention { layout, elem, probe } => {
            files.push(if probe { PROBE_ON } else { PROBE_OFF });
            files.push(element_source(elem));
            files.extend(address_sources(layout));
            files.push(ATTENTION);
        }
        Shader::Merge => files.push(MERGE),
    }
    files
}

/// The text of a file after the edits that concern it, one after the other.
fn edited((file, text): Source, edits: &[Edit]) -> Result<String, NoPlace> {
    let mut text = text.to_owned();
    for edit in edits.iter().filter(|edit| edit.file == file) {
        let found = text.matches(edit.find).count();
        if found != 1 {
            return Err(NoPlace { file, find: edit.find, found });
        }
        text = text.replacen(edit.find, edit.replace, 1);
    }
    Ok(text)
}

/// Whether `edits` change the source of `shader`.
pub fn concerns(shader: Shader, edits: &[Edit]) -> bool {
    files(shader).iter().any(|(file, _)| edits.iter().any(|edit| edit.file == *file))
}

/// The source of `shader` with `edits` applied; edits of files that it does not have are left out.
///
/// # Errors
/// [`NoPlace`] for the first edit whose text does not occur exactly once in its file.
pub fn compose_faulty(shader: Shader, edits: &[Edit]) -> Result<Composition, NoPlace> {
    let texts: Result<Vec<_>, NoPlace> =
        files(shader).into_iter().map(|source| Ok((source.0, edited(source, edits)?))).collect();
    Ok(join(texts?.iter().map(|(name, text)| (*name, text.as_str()))))
}

/// The source of `shader`.
pub fn compose(shader: Shader) -> Composition {
    join(files(shader).into_iter())
}

fn join<'a>(files: impl Iterator<Item = (&'static str, &'a str)>) -> Composition {
    let mut composition = Composition { source: String::new(), segments: Vec::new() };
    let mut line = 1;
    for (name, text) in files {
        composition.segments.push((name, line));
        composition.source.push_str(text);
        line += text.lines().count();
    }
    composition
}

/// A composed shader that naga refuses.
#[derive(Debug, thiserror::Error)]
#[error("shader {shader}: {file}:{line}: {message}")]
pub struct InvalidShader {
    /// [`Shader::label`] of the shader.
    pub shader: String,
    /// File under `wgsl/`, or `?` when the message has no place.
    pub file: String,
    /// Line in that file, from 1; 0 when the message has no place.
    pub line: usize,
    /// naga's message.
    pub message: String,
}

/// Parses and validates `source` as `shader` with naga, with no optional capability.
///
/// # Errors
/// The first fault naga finds, at the file and line it came from.
pub fn validate(shader: Shader, composition: &Composition) -> Result<(), InvalidShader> {
    let invalid = |message: String, location: Option<naga::SourceLocation>| {
        let place = location.and_then(|l| composition.locate(l.line_number as usize));
        let (file, line) = place.unwrap_or(("?", 0));
        InvalidShader { shader: shader.label(), file: file.to_owned(), line, message }
    };
    let module = naga::front::wgsl::parse_str(&composition.source)
        .map_err(|e| invalid(e.message().to_owned(), e.location(&composition.source)))?;
    naga::valid::Validator::new(naga::valid::ValidationFlags::all(), naga::valid::Capabilities::empty())
        .validate(&module)
        .map(|_| ())
        .map_err(|e| invalid(e.to_string(), e.location(&composition.source)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_composition_is_valid_wgsl() {
        let all = Shader::all();
        assert_eq!(all.len(), 5 * 8 * 2 + 1);
        for shader in all {
            validate(shader, &compose(shader)).unwrap();
        }
    }

    #[test]
    fn a_fault_is_reported_at_its_own_file_and_line() {
        let shader = Shader::Attention { layout: LayoutKind::ClassicPaged, elem: Elem::F32, probe: false };
        let mut broken = compose(shader);
        broken.source = broken
            .source
            .replace("P.entries_at + y * P.entries_stride;", "P.entries_at + y * P.entries_strode;");
        let error = validate(shader, &broken).unwrap_err();
        let line = 1 + CLASSIC.1.lines().position(|l| l.contains("P.entries_stride;")).unwrap();
        assert_eq!((error.file.as_str(), error.line), ("addr/classic-paged.wgsl", line), "{error}");
    }

    #[test]
    fn lines_map_back_to_files() {
        let composition = compose(Shader::Merge);
        assert_eq!(composition.locate(1), Some(("params.wgsl", 1)));
        assert_eq!(composition.locate(PARAMS.1.lines().count() + 3), Some(("merge.wgsl", 3)));
        assert_eq!(composition.locate(0), None);
    }
}
