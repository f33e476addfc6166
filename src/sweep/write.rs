//! A drawn case as a case file, with what is needed to ask the kernel again in comments.

use attnproof_cases::case::Case;

/// Comment that names the kernel.
const KERNEL: &str = "kernel";
/// Comment with the seed of the inputs.
const SEED: &str = "seed";
/// Comment with what chance is drawn from in a simulated kernel.
const CHANCE: &str = "chance";

/// What a case file of a violation says of it in its comments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kernel.
    pub kernel: String,
    /// Seed of the inputs.
    pub seed: u64,
    /// What chance is drawn from in a simulated kernel.
    pub chance: u64,
}

impl Header {
    /// The comments, and the command that asks again, `FILE` standing for the file.
    pub fn text(&self, command: &str, detail: &str) -> String {
        format!(
            "# {detail}\n# again: {command}\n# {KERNEL}: {}\n# {SEED}: {:#x}\n# {CHANCE}: {:#x}\n",
            self.kernel, self.seed, self.chance
        )
    }

    /// Reads the comments of a case file.
    ///
    /// # Errors
    /// A comment that is missing or cannot be read, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let find = |key: &str| {
            let prefix = format!("# {key}: ");
            let value = text.lines().find_map(|line| line.strip_prefix(&prefix));
            value.map(str::trim).ok_or_else(|| format!("no comment `{prefix}...`: not written by a sweep"))
        };
        let number = |key: &str| {
            let word = find(key)?;
            let digits = word.strip_prefix("0x").unwrap_or_default();
            u64::from_str_radix(digits, 16).map_err(|_| format!("comment {key}: `{word}` is not 0x..."))
        };
        Ok(Self { kernel: find(KERNEL)?.to_owned(), seed: number(SEED)?, chance: number(CHANCE)? })
    }
}

/// One `[[case]]` table in the form that `catalogue::from_toml` reads; `script` is the text of the case's script.
pub fn case(case: &Case, script: &str) -> String {
    let mut text = format!("[[case]]\nname = \"{}\"\nwhy = {}\n", case.name, quoted(&case.why));
    for field in case.fields(None).into_iter().filter(|field| field.shown) {
        let Some(value) = field.value else { continue };
        let value = match field.key {
            "kv" | "scales" | "saturate" | "order" | "causal" | "fill" => quoted(&value),
            "release" | "alibi" | "sinks" => (value == "yes").to_string(),
            _ => value,
        };
        text.extend([field.key, " = ", &value, "\n"]);
    }
    text + "script = \"\"\"\n" + script + "\"\"\"\n"
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use attnproof_cases::catalogue::from_toml;
    use attnproof_cases::{Family, catalogue};

    use super::*;
    use crate::sweep::draw::draw;

    #[test]
    fn a_written_case_is_read_as_the_same() {
        for index in 0..300 {
            let drawn = draw(3, index, 512, false);
            let text = case(&drawn.case, &drawn.story.text());
            let read = from_toml(&text, "drawn.toml", Family::User).unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(read, [drawn.case], "{text}");
        }
    }

    /// Every key of the catalogue is written; scripts are not asked here.
    #[test]
    fn every_field_is_written() {
        for known in catalogue::thirty().into_iter().chain(catalogue::extra()) {
            let text = case(&known, "prefill A 40\ncheck A\n");
            let read = from_toml(&text, "known.toml", known.family).unwrap_or_else(|e| panic!("{e}\n{text}"));
            let expected = Case { script: read[0].script.clone(), ..known };
            assert_eq!(read, [expected], "{text}");
        }
    }

    #[test]
    fn a_header_is_read_back() {
        let header = Header { kernel: "strict f32 / two-pass".to_owned(), seed: 7, chance: u64::MAX };
        let text = header.text("attnproof sweep --replay FILE", "o at 2.0");
        assert_eq!(Header::parse(&text), Ok(header));
        let without = text.replace("# seed", "# need");
        assert_eq!(
            Header::parse(&without),
            Err("no comment `# seed: ...`: not written by a sweep".to_owned())
        );
        let bad = text.replace("0x7", "7");
        assert_eq!(Header::parse(&bad), Err("comment seed: `7` is not 0x...".to_owned()));
    }
}
