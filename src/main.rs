//! The `attnproof` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    attnproof::cli::main()
}
