//! Ids: `family:name;layout=...;key=value...` with the keys in one fixed order.
//!
//! `hq`, `hk`, `d`, `block` and `kv` are always shown; every other key only when it departs from its
//! default, so that ids stay short and adding a key does not change the ids of existing cases.

use attnproof_oracle::{BiasOrder, Causal, Granularity, Saturate};

use crate::case::{Case, FillKind, default_scale};

/// The keys of an id in their order, `layout` first. Case files use the same keys (without `layout`).
pub const KEYS: [&str; 23] = [
    "layout", "hq", "hk", "d", "dv", "block", "blocks", "first", "splits", "split", "kv", "scales",
    "saturate", "scale", "window", "release", "alibi", "softcap", "order", "sinks", "causal", "pad", "fill",
];

/// One key of a case with its value as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// One of [`KEYS`].
    pub key: &'static str,
    /// The value as written in ids; `None` where the case does not have it (no window, no softcap).
    pub value: Option<String>,
    /// Whether ids show it.
    pub shown: bool,
}

impl Case {
    /// Every key with its value, in the order of [`KEYS`]; `layout` is absent if `layout` is `None`.
    pub fn fields(&self, layout: Option<&str>) -> Vec<Field> {
        let always = |key, value: String| Field { key, value: Some(value), shown: true };
        let unless = |key, value: String, default: bool| Field { key, value: Some(value), shown: !default };
        let optional = |key, value: Option<String>| Field { key, shown: value.is_some(), value };
        let flag = |key, on: bool| unless(key, (if on { "yes" } else { "no" }).to_owned(), !on);
        let scales = format!("{}/{}", self.k_scale.name(), self.v_scale.name());
        let plain_scales = self.k_scale == Granularity::None && self.v_scale == Granularity::None;
        vec![
            optional("layout", layout.map(str::to_owned)),
            always("hq", self.shape.q_heads.to_string()),
            always("hk", self.shape.kv_heads.to_string()),
            always("d", self.shape.d.to_string()),
            unless("dv", self.shape.dv.to_string(), self.shape.dv == self.shape.d),
            always("block", self.block_size.to_string()),
            unless("blocks", self.blocks.to_string(), self.blocks == 64),
            unless("first", self.first_block.to_string(), self.first_block == 0),
            optional("splits", self.splits.map(|n| n.to_string())),
            optional("split", self.split_tokens.map(|n| n.to_string())),
            always("kv", self.kv.name().to_owned()),
            unless("scales", scales, plain_scales),
            unless("saturate", saturate_name(self.saturate).to_owned(), self.saturate == Saturate::Finite),
            unless("scale", self.scale.to_string(), self.scale == default_scale(self.shape.d)),
            optional("window", self.window.map(|w| w.to_string())),
            flag("release", self.release),
            flag("alibi", self.alibi),
            optional("softcap", self.softcap.map(|c| c.to_string())),
            unless(
                "order",
                order_name(self.bias_order).to_owned(),
                self.bias_order == BiasOrder::CapThenAlibi,
            ),
            flag("sinks", self.sinks),
            unless("causal", causal_name(self.causal).to_owned(), self.causal == Causal::BottomRight),
            unless("pad", self.slot_pad.to_string(), self.slot_pad == 0),
            unless("fill", self.fill.name().to_owned(), self.fill == FillKind::Plain),
        ]
    }

    /// `family:name;hq=...`: the id without a layout.
    pub fn id(&self) -> String {
        self.render(None)
    }

    /// `family:name;layout=...;hq=...`: the id of the case on one layout.
    pub fn id_for(&self, layout: &str) -> String {
        self.render(Some(layout))
    }

    /// `family:name`.
    pub fn short_id(&self) -> String {
        format!("{}:{}", self.family.name(), self.name)
    }

    fn render(&self, layout: Option<&str>) -> String {
        let mut id = self.short_id();
        for field in self.fields(layout).into_iter().filter(|field| field.shown) {
            if let Some(value) = field.value {
                id.push(';');
                id.push_str(field.key);
                id.push('=');
                id.push_str(&value);
            }
        }
        id
    }
}

/// Name of a causal alignment in ids and case files.
pub fn causal_name(causal: Causal) -> &'static str {
    match causal {
        Causal::BottomRight => "bottom_right",
        Causal::TopLeft => "top_left",
        Causal::None => "none",
    }
}

/// Name of an order of softcap and `ALiBi` in ids and case files.
pub fn order_name(order: BiasOrder) -> &'static str {
    match order {
        BiasOrder::CapThenAlibi => "cap_then_alibi",
        BiasOrder::AlibiThenCap => "alibi_then_cap",
    }
}

/// Name of a saturation mode in ids and case files.
pub fn saturate_name(saturate: Saturate) -> &'static str {
    match saturate {
        Saturate::Finite => "finite",
        Saturate::Nonfinite => "nonfinite",
    }
}
