//! A float that survives JSON: NaN and the infinities become the strings `nan`, `inf` and `-inf`.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// An `f64` of a result row. JSON has no NaN and no infinity (RFC 8259, section 6), so those three are
/// written as strings; the sign and payload of a NaN are not kept, and two NaNs are equal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Num(pub f64);

impl PartialEq for Num {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || (self.0.is_nan() && other.0.is_nan())
    }
}

impl From<f64> for Num {
    fn from(value: f64) -> Self {
        Self(value)
    }
}

impl From<f32> for Num {
    fn from(value: f32) -> Self {
        Self(f64::from(value))
    }
}

impl fmt::Display for Num {
    /// Six significant digits, or `nan`, `inf`, `-inf`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::format::sig(self.0, 6))
    }
}

impl Serialize for Num {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            x if x.is_nan() => serializer.serialize_str("nan"),
            f64::INFINITY => serializer.serialize_str("inf"),
            f64::NEG_INFINITY => serializer.serialize_str("-inf"),
            x => serializer.serialize_f64(x),
        }
    }
}

impl<'de> Deserialize<'de> for Num {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumVisitor)
    }
}

struct NumVisitor;

impl Visitor<'_> for NumVisitor {
    type Value = Num;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, \"nan\", \"inf\" or \"-inf\"")
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Num, E> {
        Ok(Num(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Num, E> {
        Ok(Num(value as f64))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Num, E> {
        Ok(Num(value as f64))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Num, E> {
        match value {
            "nan" => Ok(Num(f64::NAN)),
            "inf" => Ok(Num(f64::INFINITY)),
            "-inf" => Ok(Num(f64::NEG_INFINITY)),
            other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_survives_json() {
        for x in [0.0, -0.0, 1.5, 0.1 + 0.2, 5e-324, f64::MAX, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let text = serde_json::to_string(&Num(x)).unwrap();
            let back: Num = serde_json::from_str(&text).unwrap();
            assert!(
                x.is_nan() && back.0.is_nan() || back.0.to_bits() == x.to_bits(),
                "{x} -> {text} -> {back:?}"
            );
        }
    }

    #[test]
    fn integers_are_numbers_and_other_strings_are_not() {
        assert_eq!(serde_json::from_str::<Num>("3").unwrap(), Num(3.0));
        assert_eq!(serde_json::from_str::<Num>("-3").unwrap(), Num(-3.0));
        assert!(serde_json::from_str::<Num>("\"NaN\"").is_err());
        assert!(serde_json::from_str::<Num>("null").is_err());
    }

    #[test]
    fn nan_equals_nan_and_nothing_else() {
        assert_eq!(Num(f64::NAN), Num(f64::NAN));
        assert_ne!(Num(f64::NAN), Num(0.0));
        assert_ne!(Num(f64::INFINITY), Num(f64::NEG_INFINITY));
    }
}
