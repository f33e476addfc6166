//! Numbers and foreign strings made fit for print: the same on every machine, one line, no control characters.

/// `value` to `digits` significant digits, shortest of fixed and scientific form, or `nan`, `inf`, `-inf`.
pub(crate) fn sig(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{:.*e}", digits.saturating_sub(1), value);
    // `{:e}` always writes `<mantissa>e<exponent>`.
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..7).contains(&exponent) {
        let places = (digits as i32 - 1 - exponent).max(0) as usize;
        return trim_zeros(&format!("{value:.places$}")).to_owned();
    }
    format!("{}e{exponent}", trim_zeros(mantissa))
}

fn trim_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// A ratio with two decimals, or `n/a` where the denominator is zero.
pub(crate) fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), |x| format!("{x:.2}"))
}

/// A share as per cent with one decimal, or `n/a` where the denominator is zero.
pub(crate) fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), |x| format!("{:.1} %", x * 100.0))
}

/// A whole number with thousands separated by commas.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A foreign string on one line: white space folded, control and direction-changing characters escaped, at most
/// `limit` characters and then an ellipsis.
pub(crate) fn clean(text: &str, limit: usize) -> String {
    let mut out = String::new();
    let mut left = limit;
    for c in text.trim().chars() {
        let escaped: String = match c {
            '\n' | '\r' | '\t' => ' '.into(),
            c if c.is_control() || is_misleading(c) => c.escape_unicode().collect(),
            c => c.into(),
        };
        let Some(rest) = left.checked_sub(escaped.chars().count()) else {
            out.push('\u{2026}');
            break;
        };
        left = rest;
        out.push_str(&escaped);
    }
    out
}

/// Characters that reorder the text around them (Unicode Standard Annex 9), the byte-order mark, and the two
/// noncharacters that XML 1.0 cannot hold (section 2.2).
fn is_misleading(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// `text` as one word of a POSIX shell.
pub(crate) fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Largest page written, in bytes; a summary page of GitHub Actions holds 1 MiB.
pub(crate) const PAGE_BYTES: usize = 1_000_000;

/// The longest of ever shorter renderings that fits a page. The argument of `render` is the largest number of
/// entries of any list; what is left out must be counted on the page.
pub(crate) fn fit<E>(render: impl Fn(usize) -> Result<String, E>) -> Result<String, E> {
    let mut most = 1024;
    loop {
        let page = render(most)?;
        if page.len() <= PAGE_BYTES || most == 0 {
            return Ok(page);
        }
        most /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn significant_digits() {
        for (value, want) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.031_199_999_153_614, "0.0312"),
            (61.34, "61.3"),
            (99.96, "100"),
            (1_234_567.0, "1234567"),
            (12_345_678.0, "1.23e7"),
            (0.000_012_345, "1.23e-5"),
            (-2.5, "-2.5"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(sig(value, 3), want);
        }
    }

    #[test]
    fn foreign_strings_cannot_leave_their_line() {
        assert_eq!(clean("a\nb\tc\u{1b}[31m\u{0}\u{202e}", 80), r"a b c\u{1b}[31m\u{0}\u{202e}");
        assert_eq!(clean(&"x".repeat(10), 4), "xxxx\u{2026}");
        assert_eq!(clean("xxxx", 4), "xxxx");
    }

    #[test]
    fn shell_words_cannot_be_left() {
        assert_eq!(shell_word("a'; rm -rf ~"), r"'a'\''; rm -rf ~'");
    }

    #[test]
    fn thousands() {
        assert_eq!(
            [0, 12, 999, 1000, 1_234_567].map(grouped),
            ["0", "12", "999", "1,000", "1,234,567"].map(str::to_owned)
        );
    }
}
