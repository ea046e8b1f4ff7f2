//! Error codes, and which of the library's errors has which.

#![allow(non_camel_case_types, reason = "names of C")]

use fused_attention::Error;
use std::{ffi::CStr, fmt};

/// What came of a call. The numbers are stable; further ones may be added.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum fa_status {
    /// Done, or enqueued.
    Success = 0,
    /// A pointer that the call needs is null.
    NullArgument = 1,
    /// A number that is not one of its enumeration's, or a reserved field that is not 0.
    UnknownValue = 2,
    /// A struct_size that is no size of the struct, or fields set that this library does not know.
    StructSize = 3,
    /// Arguments that exclude each other.
    ConflictingArguments = 4,
    /// A dimension has a negative size.
    NegativeSize = 10,
    /// A tensor has another shape than the call asks for, or does not broadcast to it.
    ShapeMismatch = 11,
    /// A tensor has another number of dimensions than the call asks for.
    RankMismatch = 12,
    /// A tensor has more than FA_MAX_RANK dimensions.
    RankTooLarge = 13,
    /// A size does not fit 64 bits.
    SizeOverflow = 14,
    /// A stride that the call cannot work with.
    UnsupportedStride = 15,
    /// A tensor has another element type than the call asks for.
    DtypeMismatch = 16,
    /// The operation does not compute on this element type.
    UnsupportedDtype = 17,
    /// A tensor's address is not a multiple of its element's size.
    BelowElementAlignment = 18,
    /// A tensor has elements, but no address.
    NullTensor = 19,
    /// An output shares memory with another tensor.
    OverlappingOutput = 20,
    /// Several elements of an output are the same memory.
    SelfOverlappingOutput = 21,
    /// A bank index without a mask.
    MissingMaskBank = 22,
    /// No kernel can run the problem.
    NoEligibleTile = 23,
    /// A head dimension that is not a multiple of 8 up to the largest that there is a kernel for.
    UnsupportedHeadDim = 24,
    /// The K/V heads do not divide the query heads.
    UnevenHeads = 25,
    /// More of something than a kernel counts.
    TooMany = 26,
    /// Lengths for each row, where only those for each batch entry have a meaning.
    LengthsPerRow = 27,
    /// A softcap that is not from 2^-100 to 2^100.
    BadSoftcap = 28,
    /// A dropout probability that is not from 0 to less than 1.
    BadDropout = 29,
    /// Dropout without a seed.
    MissingDropoutSeed = 30,
    /// The CUDA driver is not installed, or cannot be loaded.
    NoDriver = 40,
    /// The library is built without this device.
    FeatureDisabled = 41,
    /// The CUDA driver is too old.
    DriverTooOld = 42,
    /// There is no GPU of this number.
    NoSuchDevice = 43,
    /// The stream is not of the device's primary context.
    ForeignStream = 44,
    /// The library holds no kernel for this GPU.
    KernelNotFound = 45,
    /// The kernels in the library are damaged.
    DamagedKernels = 46,
    /// The driver refused a kernel's code.
    ModuleLoad = 47,
    /// A kernel would have to be loaded while a graph is captured: plan the call before.
    LoadDuringCapture = 48,
    /// No device could carry out the launch.
    InvalidLaunch = 49,
    /// The driver refused a launch.
    LaunchFailed = 50,
    /// A kernel did something wrong on the emulator.
    EmulatorFault = 51,
    /// The device has not enough memory.
    OutOfMemory = 52,
    /// Another driver call failed.
    Driver = 53,
    /// A NaN, found because the environment has FUSED_ATTENTION_DEBUG=nan.
    NanFound = 54,
    /// The library panicked; a fault of its own.
    Panic = 98,
    /// None of the above.
    Other = 99,
}

use fa_status as S;

static NAMES: [(fa_status, &CStr); 43] = [
    (S::Success, c"FA_STATUS_SUCCESS"),
    (S::NullArgument, c"FA_STATUS_NULL_ARGUMENT"),
    (S::UnknownValue, c"FA_STATUS_UNKNOWN_VALUE"),
    (S::StructSize, c"FA_STATUS_STRUCT_SIZE"),
    (S::ConflictingArguments, c"FA_STATUS_CONFLICTING_ARGUMENTS"),
    (S::NegativeSize, c"FA_STATUS_NEGATIVE_SIZE"),
    (S::ShapeMismatch, c"FA_STATUS_SHAPE_MISMATCH"),
    (S::RankMismatch, c"FA_STATUS_RANK_MISMATCH"),
    (S::RankTooLarge, c"FA_STATUS_RANK_TOO_LARGE"),
    (S::SizeOverflow, c"FA_STATUS_SIZE_OVERFLOW"),
    (S::UnsupportedStride, c"FA_STATUS_UNSUPPORTED_STRIDE"),
    (S::DtypeMismatch, c"FA_STATUS_DTYPE_MISMATCH"),
    (S::UnsupportedDtype, c"FA_STATUS_UNSUPPORTED_DTYPE"),
    (S::BelowElementAlignment, c"FA_STATUS_BELOW_ELEMENT_ALIGNMENT"),
    (S::NullTensor, c"FA_STATUS_NULL_TENSOR"),
    (S::OverlappingOutput, c"FA_STATUS_OVERLAPPING_OUTPUT"),
    (S::SelfOverlappingOutput, c"FA_STATUS_SELF_OVERLAPPING_OUTPUT"),
    (S::MissingMaskBank, c"FA_STATUS_MISSING_MASK_BANK"),
    (S::NoEligibleTile, c"FA_STATUS_NO_ELIGIBLE_TILE"),
    (S::UnsupportedHeadDim, c"FA_STATUS_UNSUPPORTED_HEAD_DIM"),
    (S::UnevenHeads, c"FA_STATUS_UNEVEN_HEADS"),
    (S::TooMany, c"FA_STATUS_TOO_MANY"),
    (S::LengthsPerRow, c"FA_STATUS_LENGTHS_PER_ROW"),
    (S::BadSoftcap, c"FA_STATUS_BAD_SOFTCAP"),
    (S::BadDropout, c"FA_STATUS_BAD_DROPOUT"),
    (S::MissingDropoutSeed, c"FA_STATUS_MISSING_DROPOUT_SEED"),
    (S::NoDriver, c"FA_STATUS_NO_DRIVER"),
    (S::FeatureDisabled, c"FA_STATUS_FEATURE_DISABLED"),
    (S::DriverTooOld, c"FA_STATUS_DRIVER_TOO_OLD"),
    (S::NoSuchDevice, c"FA_STATUS_NO_SUCH_DEVICE"),
    (S::ForeignStream, c"FA_STATUS_FOREIGN_STREAM"),
    (S::KernelNotFound, c"FA_STATUS_KERNEL_NOT_FOUND"),
    (S::DamagedKernels, c"FA_STATUS_DAMAGED_KERNELS"),
    (S::ModuleLoad, c"FA_STATUS_MODULE_LOAD"),
    (S::LoadDuringCapture, c"FA_STATUS_LOAD_DURING_CAPTURE"),
    (S::InvalidLaunch, c"FA_STATUS_INVALID_LAUNCH"),
    (S::LaunchFailed, c"FA_STATUS_LAUNCH_FAILED"),
    (S::EmulatorFault, c"FA_STATUS_EMULATOR_FAULT"),
    (S::OutOfMemory, c"FA_STATUS_OUT_OF_MEMORY"),
    (S::Driver, c"FA_STATUS_DRIVER"),
    (S::NanFound, c"FA_STATUS_NAN_FOUND"),
    (S::Panic, c"FA_STATUS_PANIC"),
    (S::Other, c"FA_STATUS_OTHER"),
];

/// The name of a status in C.
pub(crate) fn name(code: i32) -> &'static CStr {
    let known = NAMES.iter().find(|(status, _)| *status as i32 == code);
    known.map_or(c"FA_STATUS_OTHER", |(_, name)| name)
}

/// Why a call did not do what it was asked for.
#[derive(Debug)]
pub(crate) struct Failure {
    pub status: fa_status,
    pub message: String,
}

impl Failure {
    pub fn new(status: fa_status, message: impl fmt::Display) -> Self {
        Failure { status, message: message.to_string() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::ShapeMismatch { .. } | Error::NotBroadcastable { .. } => S::ShapeMismatch,
            Error::RankMismatch { .. } => S::RankMismatch,
            Error::RankTooLarge { .. } => S::RankTooLarge,
            Error::SizeOverflow { .. } => S::SizeOverflow,
            Error::UnsupportedStride { .. } => S::UnsupportedStride,
            Error::DtypeMismatch { .. } => S::DtypeMismatch,
            Error::UnsupportedDtype { .. } => S::UnsupportedDtype,
            Error::BelowElementAlignment { .. } => S::BelowElementAlignment,
            Error::NullPointer { .. } => S::NullTensor,
            Error::OverlappingOutput { .. } => S::OverlappingOutput,
            Error::SelfOverlappingOutput { .. } => S::SelfOverlappingOutput,
            Error::MissingMaskBank => S::MissingMaskBank,
            Error::NoEligibleTile { .. } => S::NoEligibleTile,
            Error::UnsupportedHeadDim { .. } => S::UnsupportedHeadDim,
            Error::UnevenHeads { .. } => S::UnevenHeads,
            Error::TooMany { .. } => S::TooMany,
            Error::LengthsPerRow { .. } => S::LengthsPerRow,
            Error::BadSoftcap { .. } => S::BadSoftcap,
            Error::BadDropout { .. } => S::BadDropout,
            Error::MissingDropoutSeed { .. } => S::MissingDropoutSeed,
            Error::NoDriver { .. } => S::NoDriver,
            Error::FeatureDisabled { .. } => S::FeatureDisabled,
            Error::DriverTooOld { .. } => S::DriverTooOld,
            Error::NoSuchDevice { .. } => S::NoSuchDevice,
            Error::ForeignStream { .. } => S::ForeignStream,
            Error::KernelNotFound { .. } => S::KernelNotFound,
            Error::DamagedPtx(..) => S::DamagedKernels,
            Error::ModuleLoad { .. } => S::ModuleLoad,
            Error::LoadDuringCapture { .. } => S::LoadDuringCapture,
            Error::InvalidLaunch { .. } => S::InvalidLaunch,
            Error::LaunchFailed { .. } => S::LaunchFailed,
            #[cfg(feature = "emulator")]
            Error::EmulatorFault { .. } => S::EmulatorFault,
            Error::OutOfMemory { .. } => S::OutOfMemory,
            Error::Driver { .. } => S::Driver,
            Error::NanFound { .. } => S::NanFound,
            _ => S::Other,
        };
        Failure::new(status, error)
    }
}
