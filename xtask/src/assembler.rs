//! NVIDIA's assembler, which makes machine code of PTX.

use crate::tools;
use anyhow::{Context, Result, ensure};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The assembler.
pub(crate) struct Assembler {
    pub(crate) program: PathBuf,
    /// What it states as its version.
    pub(crate) version: String,
}

/// What it makes of a module.
pub(crate) struct Assembly {
    /// The machine code, as a cubin. The same PTX gives the same bytes.
    pub(crate) machine_code: Vec<u8>,
    /// What it says of registers, memory and doubtful code.
    pub(crate) log: String,
}

impl Assembler {
    pub(crate) fn find() -> Result<Self> {
        let program = tools::need("ptxas")?;
        let version = tools::version(&program)?;
        Ok(Assembler { program, version })
    }

    /// Assembles a file of PTX for a machine, such as `sm_90a`.
    pub(crate) fn assemble(&self, machine: &str, ptx: &Path) -> Result<Assembly> {
        let mut command = Command::new(&self.program);
        command.args(["-v", "-arch", machine, "-o", "/dev/stdout"]).arg(ptx);
        let output = command.output().context("cannot run ptxas")?;
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "ptxas refuses it: {}", log.trim());
        Ok(Assembly { machine_code: output.stdout, log })
    }
}
