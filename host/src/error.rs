//! Everything that can be refused or go wrong, one variant for each precondition.

use crate::element::Dtype;
use cuda_launch::LaunchConfig;

/// The result of this library's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call was refused, or failed.
///
/// Variants about arguments are returned before anything is launched. `tensor` is the argument's
/// name.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor has another shape than the call asks for.
    #[error("{tensor} has shape {found:?}, expected {expected:?}")]
    ShapeMismatch {
        /// The argument.
        tensor: &'static str,
        /// The shape that the other arguments ask for.
        expected: Vec<usize>,
        /// The shape given.
        found: Vec<usize>,
    },

    /// A tensor has another number of dimensions than the call asks for.
    #[error("{tensor} has {found} dimensions, expected {expected}")]
    RankMismatch {
        /// The argument.
        tensor: &'static str,
        /// The number of dimensions expected.
        expected: usize,
        /// The number of dimensions given.
        found: usize,
    },

    /// A tensor has more dimensions than the library stores.
    #[error("a tensor of {rank} dimensions; at most {limit} are supported")]
    RankTooLarge {
        /// The number of dimensions given.
        rank: usize,
        /// The largest number of dimensions.
        limit: usize,
    },

    /// The number of elements given is not what the shape holds.
    #[error("{found} elements for a tensor of shape {shape:?}, which holds {expected}")]
    LengthMismatch {
        /// The shape asked for.
        shape: Vec<usize>,
        /// How many elements it holds.
        expected: usize,
        /// How many elements were given.
        found: usize,
    },

    /// A size in bytes or elements does not fit 64 bits.
    #[error("a tensor of shape {shape:?} and strides {strides:?} is larger than 2^63 bytes")]
    SizeOverflow {
        /// The shape.
        shape: Vec<usize>,
        /// The strides in elements.
        strides: Vec<i64>,
    },

    /// A tensor's stride in a dimension is not one the call can work with.
    #[error("{tensor} has stride {found} in dimension {dim}, expected {expected}")]
    UnsupportedStride {
        /// The argument.
        tensor: &'static str,
        /// The dimension.
        dim: usize,
        /// The stride given, in elements.
        found: i64,
        /// What the call can work with.
        expected: &'static str,
    },

    /// A dimension that the tensor does not have.
    #[error("dimension {dim} of a tensor of {rank} dimensions")]
    NoSuchDimension {
        /// The dimension asked for.
        dim: usize,
        /// The number of dimensions of the tensor.
        rank: usize,
    },

    /// A range beyond the end of a dimension.
    #[error("elements {start}..{start}+{len} of dimension {dim}, which has {size}")]
    OutOfRange {
        /// The dimension.
        dim: usize,
        /// The range's start.
        start: usize,
        /// The range's length.
        len: usize,
        /// The dimension's size.
        size: usize,
    },

    /// A list of dimensions that does not name each once.
    #[error("{order:?} is not an order of {rank} dimensions")]
    NotAPermutation {
        /// The order given.
        order: Vec<usize>,
        /// The number of dimensions of the tensor.
        rank: usize,
    },

    /// A view of another shape would need a copy.
    #[error("a tensor of shape {shape:?} and strides {strides:?} is not {to:?} without a copy")]
    NotViewable {
        /// The tensor's shape.
        shape: Vec<usize>,
        /// The tensor's strides in elements.
        strides: Vec<i64>,
        /// The shape asked for.
        to: Vec<usize>,
    },

    /// A shape that cannot be expanded to another.
    #[error("{tensor} of shape {found:?} does not broadcast to {expected:?}")]
    NotBroadcastable {
        /// The argument.
        tensor: &'static str,
        /// The shape to expand to.
        expected: Vec<usize>,
        /// The shape given.
        found: Vec<usize>,
    },

    /// A tensor has another element type than the call asks for.
    #[error("{tensor} has elements of type {found}, expected {expected}")]
    DtypeMismatch {
        /// The argument.
        tensor: &'static str,
        /// The type expected.
        expected: Dtype,
        /// The type given.
        found: Dtype,
    },

    /// An operation does not compute on this element type.
    #[error("{tensor} has elements of type {found}, which this operation does not take")]
    UnsupportedDtype {
        /// The argument.
        tensor: &'static str,
        /// The type given.
        found: Dtype,
    },

    /// A tensor lives on another device than the call runs on.
    #[error("{tensor} is on {found}, expected {expected}")]
    DeviceMismatch {
        /// The argument.
        tensor: &'static str,
        /// The device that the call runs on.
        expected: String,
        /// The device that holds the tensor.
        found: String,
    },

    /// A tensor's address is not a multiple of its element's size.
    #[error("{tensor} is at {pointer:#x}, which is not aligned for {dtype}")]
    BelowElementAlignment {
        /// The argument.
        tensor: &'static str,
        /// The address.
        pointer: u64,
        /// The element's type.
        dtype: Dtype,
    },

    /// A tensor with elements has no address.
    #[error("{tensor} is a null pointer, but has elements")]
    NullPointer {
        /// The argument.
        tensor: &'static str,
    },

    /// An output shares memory with another argument.
    #[error("{output} shares memory with {other}")]
    OverlappingOutput {
        /// The output.
        output: &'static str,
        /// The argument it overlaps.
        other: &'static str,
    },

    /// Several elements of an output are the same memory.
    #[error("{output} of shape {shape:?} and strides {strides:?} overlaps itself")]
    SelfOverlappingOutput {
        /// The output.
        output: &'static str,
        /// Its shape.
        shape: Vec<usize>,
        /// Its strides in elements.
        strides: Vec<i64>,
    },

    /// A row's length is negative, or beyond the row.
    #[error("length {length} of sequence {index} is not in 0..={row}")]
    LengthBeyondRow {
        /// The position in the tensor of lengths.
        index: usize,
        /// The length given.
        length: i64,
        /// How many elements a row has.
        row: usize,
    },

    /// An index into a bank of masks beyond its end.
    #[error("mask {value} for batch entry {index}, from a bank of {bank}")]
    BankIndexOutOfRange {
        /// The batch entry.
        index: usize,
        /// The index given.
        value: i64,
        /// How many masks the bank holds.
        bank: usize,
    },

    /// No tile has this name.
    #[error("there is no tile {tile:?}; the tiles are {known}")]
    NoSuchTile {
        /// The name asked for.
        tile: String,
        /// The names there are.
        known: String,
    },

    /// No variant of an operation can run the problem, or not the one that the options ask for.
    #[error("{operation}: no eligible tile ({tried})")]
    NoEligibleTile {
        /// The operation.
        operation: &'static str,
        /// Each tile, and why it cannot run the problem.
        tried: String,
    },

    /// The file that `FUSED_ATTENTION_TUNING` names does not hold preferences of tiles.
    #[error("FUSED_ATTENTION_TUNING: {path}: {reason}")]
    BadTuning {
        /// The file.
        path: String,
        /// What is wrong with it.
        #[source]
        reason: crate::TuningError,
    },

    /// An index into a bank of masks without a mask.
    #[error("a bank index is given, but neither a byte mask nor an additive mask")]
    MissingMaskBank,

    /// A head dimension that no kernel computes on.
    #[error("{tensor} has a head dimension of {found}, expected a multiple of 8 up to {largest}")]
    UnsupportedHeadDim {
        /// The argument.
        tensor: &'static str,
        /// The head dimension given.
        found: usize,
        /// The largest there is a kernel for.
        largest: usize,
    },

    /// Query heads that cannot share the K/V heads evenly.
    #[error("{heads} query heads are not a multiple of {kv_heads} K/V heads")]
    UnevenHeads {
        /// Heads of the queries.
        heads: usize,
        /// Heads of keys and values.
        kv_heads: usize,
    },

    /// A problem has more of something than a kernel counts.
    #[error("{found} {what}; at most {limit} are supported")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// How many there may be.
        limit: u64,
    },

    /// Lengths for each row, where only those for each batch entry have a meaning.
    #[error("{tensor} are given for each row, expected one for each batch entry")]
    LengthsPerRow {
        /// The argument.
        tensor: &'static str,
    },

    /// Offsets of packed sequences that are negative, descend, or of which there is none.
    #[error("offsets of sequences: {value} at {index}, then {next}; expected to ascend from 0 on")]
    BadSequenceOffsets {
        /// The position of the offset.
        index: usize,
        /// The offset.
        value: i32,
        /// The one after it.
        next: i32,
    },

    /// Packed sequences that end beyond the rows of a tensor.
    #[error("the sequences of {tensor} end at row {end}, and it has {rows}")]
    SequencesBeyondRows {
        /// The argument.
        tensor: &'static str,
        /// Where they end.
        end: usize,
        /// The rows of the tensor.
        rows: usize,
    },

    /// A cap on scores that is not a positive number, or beyond those that are taken.
    #[error("a softcap of {softcap}, expected a number from 2^-100 to 2^100")]
    BadSoftcap {
        /// The cap given.
        softcap: f64,
    },

    /// A probability of dropout that is not one, or drops everything.
    #[error("a dropout probability of {probability}, expected one from 0 to less than 1")]
    BadDropout {
        /// The probability given.
        probability: f64,
    },

    /// Dropout without a seed for its random numbers.
    #[error("dropout of {dropped} in 256, but no seed is given")]
    MissingDropoutSeed {
        /// How many of 256 are to be dropped.
        dropped: u32,
    },

    /// No tensor map describes a tensor and its tiles.
    #[error(transparent)]
    Tiling(cuda_launch::TilingError),

    /// The CUDA driver is not installed, or cannot be loaded.
    #[error("no CUDA driver: {reason}")]
    NoDriver {
        /// What the loader said.
        reason: String,
    },

    /// The library is built without the backend asked for.
    #[error("built without the feature `{feature}`")]
    FeatureDisabled {
        /// The cargo feature that has it.
        feature: &'static str,
    },

    /// The CUDA driver is too old for a kernel.
    #[error("kernel {kernel} needs {needed}; this one supports CUDA {found}")]
    DriverTooOld {
        /// The kernel.
        kernel: String,
        /// What is needed.
        needed: String,
        /// The CUDA version the driver supports.
        found: String,
    },

    /// There is no GPU of this number.
    #[error("no CUDA device {ordinal}: there are {count}")]
    NoSuchDevice {
        /// The number asked for.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },

    /// A stream that belongs to another context than its device's primary one.
    #[error("the stream {stream:#x} is not of the primary context of {device}")]
    ForeignStream {
        /// The stream's handle.
        stream: u64,
        /// The device it was given for.
        device: String,
    },

    /// A kernel that no registered library holds.
    #[error("no PTX for kernel {kernel} in {searched:?}")]
    KernelNotFound {
        /// The kernel.
        kernel: String,
        /// The architectures that the device can run.
        searched: Vec<&'static str>,
    },

    /// The kernels in this program are damaged.
    #[error(transparent)]
    DamagedPtx(cuda_ptx::PtxError),

    /// The driver refused a kernel's code.
    #[error("the driver does not load kernel {kernel}: {code} {log}")]
    ModuleLoad {
        /// The kernel.
        kernel: String,
        /// The driver's error.
        code: DriverError,
        /// What the driver's compiler said.
        log: String,
    },

    /// A kernel would have to be loaded while its stream captures a graph.
    #[error("kernel {kernel} is not loaded, and a graph is being captured: call Device::prepare")]
    LoadDuringCapture {
        /// The kernel.
        kernel: String,
    },

    /// A launch that no device could carry out.
    #[error("kernel {kernel} cannot be launched with {config:?}: {reason}")]
    InvalidLaunch {
        /// The kernel.
        kernel: &'static str,
        /// The launch.
        config: LaunchConfig,
        /// What is wrong with it.
        reason: String,
    },

    /// The driver refused a launch.
    #[error("the launch of kernel {kernel} with {config:?} failed: {code}")]
    LaunchFailed {
        /// The kernel.
        kernel: &'static str,
        /// The launch.
        config: LaunchConfig,
        /// The driver's error.
        code: DriverError,
    },

    /// A kernel did something wrong on the emulator.
    #[cfg(feature = "emulator")]
    #[error("kernel {fault}")]
    EmulatorFault {
        /// The kernel.
        kernel: &'static str,
        /// What it did, and where.
        #[source]
        fault: Box<cuda_emulator::Fault>,
    },

    /// The device has not enough memory.
    #[error("out of memory on {device}: {bytes} bytes asked for")]
    OutOfMemory {
        /// The device.
        device: String,
        /// How much was asked for.
        bytes: usize,
    },

    /// Another driver call failed.
    #[error("{call} failed: {code}")]
    Driver {
        /// The call.
        call: &'static str,
        /// The driver's error.
        code: DriverError,
    },

    /// A NaN, found because `FUSED_ATTENTION_DEBUG=nan` is set.
    #[error("{operation}: {tensor} is NaN at {index:?}")]
    NanFound {
        /// The operation.
        operation: &'static str,
        /// The argument or result.
        tensor: &'static str,
        /// The first NaN's position.
        index: Vec<usize>,
    },
}

/// An error code of the CUDA driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DriverError {
    /// The `CUresult`.
    pub code: i32,
    /// Its name in CUDA's documentation, where the driver knows it.
    pub name: &'static str,
}

impl std::fmt::Display for DriverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.code)
    }
}
