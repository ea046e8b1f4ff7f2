//! Writes the header of the C interface: `fused-attention-header FOLDER`, where the package is.

use anyhow::{Context, Error, Result};
use std::{env, io, path::PathBuf};

fn main() -> Result<()> {
    let package = PathBuf::from(env::args_os().nth(1).context("no folder given")?);
    let config = cbindgen::Config::from_file(package.join("cbindgen.toml"));
    let config = config.map_err(Error::msg).context("in cbindgen.toml")?;
    let builder = cbindgen::Builder::new().with_crate(&package).with_config(config);
    builder.generate().context("cbindgen does not understand the package")?.write(io::stdout());
    Ok(())
}
