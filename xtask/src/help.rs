//! Errors that say what to do.

use anyhow::{Context, Error, Result};
use std::fmt;

/// What the user can do about an error: the commands to run.
#[derive(Debug)]
struct Help(String);

impl fmt::Display for Help {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Adds to an error what to do about it.
pub(crate) trait WithHelp<T> {
    fn help(self, help: impl Into<String>) -> Result<T>;
}

impl<T, E> WithHelp<T> for Result<T, E>
where
    Self: Context<T, E>,
{
    fn help(self, help: impl Into<String>) -> Result<T> {
        self.context(Help(help.into()))
    }
}

/// An error as the user reads it: what failed, why, and what to do.
pub(crate) fn report(error: &Error) -> String {
    let help = error.downcast_ref::<Help>().map(Help::to_string);
    let causes = error.chain().map(ToString::to_string);
    let causes = causes.filter(|cause| help.as_ref() != Some(cause)).collect::<Vec<_>>();
    let causes = causes.join(": ");
    match help {
        Some(help) => format!("error: {causes}\nhelp: {help}"),
        None => format!("error: {causes}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn help_comes_last() {
        let error = Err::<(), _>(anyhow!("no such file")).context("cannot run ptxas");
        let error = error.help("run `cargo xtask setup`").context("in the step x").unwrap_err();
        let expected =
            "error: in the step x: cannot run ptxas: no such file\nhelp: run `cargo xtask setup`";
        assert_eq!(report(&error), expected);
    }
}
