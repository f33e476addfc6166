//! `attnproof report`, and the report files of `attnproof run`.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use attnproof_report::model::{Row, read};
use attnproof_report::text::Style;
use attnproof_report::{html, junit, markdown, text};

use crate::exit::{Exit, Failure, OrExit as _};

use super::args::{RenderArgs, ReportArgs};

/// Renders a file of result rows.
pub(super) fn report(args: &ReportArgs) -> Result<Exit, Failure> {
    check_outputs(&args.render.files()).or_exit(Exit::Usage)?;
    let rows = load(&args.results).or_exit(Exit::Usage)?;
    write_all(&rows, &args.render).or_exit(Exit::Usage)?;
    if args.render.files().is_empty() {
        super::print(&text::render(&rows, stdout_style())).or_exit(Exit::Usage)?;
    }
    Ok(Exit::Pass)
}

fn load(file: &Path) -> anyhow::Result<Vec<Row>> {
    let name = file.display().to_string();
    let content = if name == "-" {
        let mut content = String::new();
        std::io::stdin().read_to_string(&mut content).context("standard input")?;
        content
    } else {
        std::fs::read_to_string(file).with_context(|| name.clone())?
    };
    Ok(read(&content, &name)?)
}

/// Writes the reports that were asked for.
pub(super) fn write_all(rows: &[Row], args: &RenderArgs) -> anyhow::Result<()> {
    if let Some(file) = &args.md {
        write(file, &markdown::render(rows))?;
    }
    if let Some(file) = &args.html {
        write(file, &html::render(rows)?)?;
    }
    if let Some(file) = &args.junit {
        write(file, &junit::render(rows)?)?;
    }
    Ok(())
}

/// Writes `content` to a file beside `file` and renames it, so that nothing half-written is ever there.
pub(super) fn write(file: &Path, content: &str) -> anyhow::Result<()> {
    if is_special(file) {
        return std::fs::write(file, content).with_context(|| file.display().to_string());
    }
    let partial = partial(file);
    let written = std::fs::write(&partial, content).and_then(|()| std::fs::rename(&partial, file));
    if written.is_err() {
        // it may not even be there
        let _ = std::fs::remove_file(&partial);
    }
    written.with_context(|| file.display().to_string())
}

/// A device or a pipe is written to, never replaced.
fn is_special(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

fn partial(file: &Path) -> PathBuf {
    let mut partial = file.as_os_str().to_owned();
    partial.push(".partial");
    partial.into()
}

/// Fails if one of `files` could not be written in the end, or if two are the same, before a long run is lost to it.
pub(super) fn check_outputs(files: &[&Path]) -> anyhow::Result<()> {
    for (index, file) in files.iter().enumerate() {
        let name = || file.display().to_string();
        if files[..index].contains(file) {
            anyhow::bail!("{}: two outputs of one run would be written to it", name());
        }
        if file.is_dir() {
            return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory)).with_context(name);
        }
        if is_special(file) {
            continue;
        }
        std::fs::write(partial(file), "")
            .and_then(|()| std::fs::remove_file(partial(file)))
            .with_context(name)?;
    }
    Ok(())
}

impl RenderArgs {
    /// The files asked for.
    pub(super) fn files(&self) -> Vec<&Path> {
        [&self.md, &self.html, &self.junit].into_iter().flatten().map(PathBuf::as_path).collect()
    }
}

/// How to print on standard output: `NO_COLOR`, `CLICOLOR_FORCE` and pipes are honoured.
pub(super) fn stdout_style() -> Style {
    style(std::io::stdout().is_terminal())
}

/// How to print on standard error.
pub(super) fn stderr_style() -> Style {
    style(std::io::stderr().is_terminal())
}

fn style(terminal: bool) -> Style {
    let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty() && v != "0");
    let color = if set("CLICOLOR_FORCE") { true } else { terminal && std::env::var_os("NO_COLOR").is_none() };
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let width = columns.or_else(|| terminal.then(terminal_columns).flatten()).unwrap_or(100);
    Style { color, width: width.clamp(60, 200) }
}

fn terminal_columns() -> Option<usize> {
    terminal_size::terminal_size().map(|(columns, _)| usize::from(columns.0))
}
