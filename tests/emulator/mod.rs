//! The emulator: what it finds in broken kernels, and that it finds nothing in right ones.

mod broken_kernels;
mod clusters;
mod collectives;
mod hopper;
mod launches;
mod memory;
mod omission;
mod tensor_cores;

use cuda_emulator::{Dim3, Emulator, Fault, FaultKind, Kernel, KernelArgs, LaunchConfig, Launcher};

/// The emulators a test tries: the plain one, that with the race check, and shuffled ones.
fn emulators() -> impl Iterator<Item = Emulator> {
    [Emulator::default(), Emulator::default().race_check(true)]
        .into_iter()
        .chain((0..6).map(Emulator::adversarial))
}

/// The fault of a launch that must have one.
#[track_caller]
fn fault<Args: KernelArgs>(
    emulator: &Emulator,
    kernel: &Kernel<Args>,
    config: LaunchConfig,
    args: Args,
) -> Fault {
    // SAFETY: the kernels of these tests touch buffers that live as long as the test. What they do
    // beyond that is what the emulator is to stop.
    let result = unsafe { emulator.launch(kernel, config, args) };
    result.expect_err("the kernel is broken, and nothing was found")
}

/// Launches what must succeed.
#[track_caller]
fn run<Args: KernelArgs>(
    emulator: &Emulator,
    kernel: &Kernel<Args>,
    config: LaunchConfig,
    args: Args,
) {
    // SAFETY: as above.
    unsafe { emulator.launch(kernel, config, args) }.expect("the kernel is right");
}

/// The line of the broken kernels with this comment.
#[track_caller]
fn line(comment: &str) -> u32 {
    let source = include_str!("broken_kernels.rs");
    let ends = |line: &str| line.ends_with(&format!("// {comment}"));
    let found: Vec<_> = source.lines().enumerate().filter(|(_, line)| ends(line)).collect();
    assert_eq!(found.len(), 1, "lines with {comment:?}");
    found[0].0 as u32 + 1
}

/// Checks the kind of a fault and the place that it blames.
#[track_caller]
fn check_fault(fault: &Fault, kind: FaultKind, comment: &str, block: u32, thread: u32) {
    assert_eq!(fault.kind(), kind, "{fault}");
    check_line(fault, &format!("blame: {comment}"));
    assert_eq!(fault.block(), Some(index(block)), "{fault}");
    assert_eq!(fault.thread(), Some(index(thread)), "{fault}");
}

/// The index along x, of a block or thread.
fn index(x: u32) -> Dim3 {
    Dim3 { x, y: 0, z: 0 }
}

#[track_caller]
fn check_line(fault: &Fault, comment: &str) {
    let location = fault.location().unwrap_or_else(|| panic!("no location: {fault}"));
    assert!(location.file.ends_with("broken_kernels.rs"), "{fault}");
    assert_eq!(location.line, line(comment), "{fault}");
    let text = fault.to_string();
    assert!(text.contains(&location.to_string()), "{text}");
}
