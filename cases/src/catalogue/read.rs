//! One case from its TOML table, with the line and the field of whatever is wrong.

use std::str::FromStr;

use attnproof_oracle::{BiasOrder, Causal, Elem, Granularity, Saturate, Shape};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::CatalogueError;
use crate::case::{Case, Family, FillKind};
use crate::id::{self, KEYS};
use crate::script::{Script, parse_script};

/// A case file.
#[derive(Clone, Copy)]
pub(super) struct Document<'t> {
    pub(super) text: &'t str,
    pub(super) file: &'t str,
}

impl Document<'_> {
    /// Gives every `[[case]]` table with its line.
    pub(super) fn each_case(
        self,
        mut visit: impl FnMut(usize, &Reader<'_>) -> Result<(), CatalogueError>,
    ) -> Result<(), CatalogueError> {
        let root = DeTable::parse(self.text)
            .map_err(|error| self.error(error.span().map_or(0, |span| span.start), error.message()))?;
        if let Some(key) = root.get_ref().keys().find(|key| key.get_ref() != "case") {
            let reason = format!("unknown key `{}`: expected [[case]] tables", key.get_ref());
            return Err(self.error(key.span().start, &reason));
        }
        let tables = root.get_ref().get("case");
        let cases = tables.and_then(|value| value.get_ref().as_array()).filter(|cases| !cases.is_empty());
        let Some(cases) = cases else {
            return Err(self.error(0, "no cases: expected at least one [[case]] table"));
        };
        for entry in cases {
            let start = entry.span().start;
            let Some(table) = entry.get_ref().as_table() else {
                return Err(self.error(start, "expected a [[case]] table"));
            };
            let reader = Reader { document: self, start, table };
            visit(self.line(start), &reader)?;
        }
        Ok(())
    }

    fn line(self, offset: usize) -> usize {
        1 + self.text.char_indices().take_while(|(at, _)| *at < offset).filter(|(_, c)| *c == '\n').count()
    }

    fn error(self, offset: usize, reason: &str) -> CatalogueError {
        CatalogueError {
            file: self.file.to_owned(),
            line: self.line(offset),
            case: None,
            field: None,
            reason: reason.to_owned(),
        }
    }
}

/// One `[[case]]` table.
pub(super) struct Reader<'t> {
    document: Document<'t>,
    start: usize,
    table: &'t DeTable<'t>,
}

impl Reader<'_> {
    /// An error about a field, at its line, or at the table's if the field is missing.
    pub(super) fn error(&self, field: &str, reason: &str) -> CatalogueError {
        let offset = self.table.get(field).map_or(self.start, |value| value.span().start);
        CatalogueError {
            case: self.table.get("name").and_then(|name| name.get_ref().as_str()).map(str::to_owned),
            field: Some(field.to_owned()),
            ..self.document.error(offset, reason)
        }
    }

    /// The case.
    pub(super) fn case(&self, family: Family) -> Result<Case, CatalogueError> {
        self.no_unknown_keys()?;
        let d = self.need("d", whole::<usize>)?;
        let shape = Shape {
            q_heads: self.need("hq", whole)?,
            kv_heads: self.need("hk", whole)?,
            d,
            dv: self.find("dv", whole)?.unwrap_or(d),
        };
        let (name, why) = (self.need("name", text)?, self.need("why", text)?);
        let base = Case::new(family, &name, &why, shape, self.script()?);
        let (k_scale, v_scale) = self.find("scales", scales)?.unwrap_or((base.k_scale, base.v_scale));
        let case = Case {
            block_size: self.find("block", whole)?.unwrap_or(base.block_size),
            blocks: self.find("blocks", whole)?.unwrap_or(base.blocks),
            first_block: self.find("first", whole)?.unwrap_or(base.first_block),
            splits: self.find("splits", whole)?,
            split_tokens: self.find("split", whole)?,
            kv: self.find("kv", elem)?.unwrap_or(base.kv),
            k_scale,
            v_scale,
            saturate: self.find("saturate", saturate)?.unwrap_or(base.saturate),
            scale: self.find("scale", real)?.unwrap_or(base.scale),
            window: self.find("window", whole)?,
            release: self.find("release", flag)?.unwrap_or(base.release),
            alibi: self.find("alibi", flag)?.unwrap_or(base.alibi),
            softcap: self.find("softcap", real)?,
            bias_order: self.find("order", bias_order)?.unwrap_or(base.bias_order),
            sinks: self.find("sinks", flag)?.unwrap_or(base.sinks),
            causal: self.find("causal", causal)?.unwrap_or(base.causal),
            slot_pad: self.find("pad", whole)?.unwrap_or(base.slot_pad),
            fill: self.find("fill", fill)?.unwrap_or(base.fill),
            ..base
        };
        case.limits().map_err(|(field, reason)| match case.script.uneven_hits(case.block_size) {
            Some((line, uneven)) if uneven == reason => self.script_error(line, &reason),
            _ => self.error(field, &reason),
        })?;
        case.spec(0).map_err(|error| self.error("name", &error.to_string()))?;
        Ok(case)
    }

    fn no_unknown_keys(&self) -> Result<(), CatalogueError> {
        let own = ["name", "why", "script"];
        let known = || own.into_iter().chain(KEYS).filter(|key| *key != "layout");
        match self.table.keys().find(|key| !known().any(|name| name == key.get_ref())) {
            None => Ok(()),
            Some(key) => {
                let reason = format!("unknown key; keys are {}", known().collect::<Vec<_>>().join(" "));
                Err(self.error(key.get_ref(), &reason))
            }
        }
    }

    fn find<T>(
        &self,
        field: &str,
        convert: impl Fn(&DeValue<'_>) -> Result<T, String>,
    ) -> Result<Option<T>, CatalogueError> {
        let value = self.table.get(field).map(Spanned::get_ref);
        value.map(convert).transpose().map_err(|reason| self.error(field, &reason))
    }

    fn need<T>(
        &self,
        field: &str,
        convert: impl Fn(&DeValue<'_>) -> Result<T, String>,
    ) -> Result<T, CatalogueError> {
        self.find(field, convert)?.ok_or_else(|| self.error(field, "missing"))
    }

    /// The script; an error is at the line of the file, not of the script.
    fn script(&self) -> Result<Script, CatalogueError> {
        let source = self.need("script", text)?;
        parse_script(&source).map_err(|error| {
            self.script_error(error.line, &format!("at `{}`: expected {}", error.word, error.expected))
        })
    }

    /// An error at a line of the script, counted from 1.
    fn script_error(&self, line: usize, reason: &str) -> CatalogueError {
        let mut located = self.error("script", reason);
        let quoted = self.table.get("script").map_or("", |value| &self.document.text[value.span()]);
        // TOML drops a line break right after the opening quotes.
        let opening = quoted.trim_start_matches(['"', '\'']);
        let dropped = usize::from(opening.starts_with('\n') || opening.starts_with("\r\n"));
        located.line += dropped + line - 1;
        located
    }
}

fn text(value: &DeValue<'_>) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| expected("a string", value))
}

fn flag(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| expected("true or false", value))
}

fn whole<T: TryFrom<u64>>(value: &DeValue<'_>) -> Result<T, String> {
    let integer = value.as_integer().ok_or_else(|| expected("a whole number", value))?;
    let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
    number
        .and_then(|n| T::try_from(n).ok())
        .ok_or_else(|| format!("`{integer}` is not a whole number in range"))
}

fn real(value: &DeValue<'_>) -> Result<f32, String> {
    let digits = match value {
        DeValue::Float(float) => float.as_str(),
        DeValue::Integer(integer) => integer.as_str(),
        _ => return Err(expected("a number", value)),
    };
    f32::from_str(digits).map_err(|_| format!("`{digits}` is not a number"))
}

/// A word that stands for one of a few values.
fn one_of<T>(value: &DeValue<'_>, choices: impl IntoIterator<Item = (&'static str, T)>) -> Result<T, String> {
    let word = text(value)?;
    let mut names = Vec::new();
    for (name, choice) in choices {
        if name == word {
            return Ok(choice);
        }
        names.push(name);
    }
    Err(format!("`{word}` is not one of {}", names.join(" ")))
}

fn elem(value: &DeValue<'_>) -> Result<Elem, String> {
    one_of(value, Elem::ALL.map(|elem| (elem.name(), elem)))
}

fn saturate(value: &DeValue<'_>) -> Result<Saturate, String> {
    one_of(value, [Saturate::Finite, Saturate::Nonfinite].map(|mode| (id::saturate_name(mode), mode)))
}

fn bias_order(value: &DeValue<'_>) -> Result<BiasOrder, String> {
    one_of(
        value,
        [BiasOrder::CapThenAlibi, BiasOrder::AlibiThenCap].map(|order| (id::order_name(order), order)),
    )
}

fn causal(value: &DeValue<'_>) -> Result<Causal, String> {
    one_of(
        value,
        [Causal::BottomRight, Causal::TopLeft, Causal::None].map(|causal| (id::causal_name(causal), causal)),
    )
}

fn fill(value: &DeValue<'_>) -> Result<FillKind, String> {
    one_of(value, FillKind::ALL.map(|kind| (kind.name(), kind)))
}

fn scales(value: &DeValue<'_>) -> Result<(Granularity, Granularity), String> {
    let word = text(value)?;
    let pair = word.split_once('/').and_then(|(k, v)| Some((Granularity::parse(k)?, Granularity::parse(v)?)));
    pair.ok_or_else(|| {
        let names: Vec<_> = Granularity::ALL.iter().map(|granularity| granularity.name()).collect();
        format!("`{word}` is not K/V with each one of {}", names.join(" "))
    })
}

fn expected(what: &str, value: &DeValue<'_>) -> String {
    format!("expected {what}, found {}", value.type_str())
}
