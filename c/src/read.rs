//! The caller's structs, checked.

use crate::{
    abi::{
        FA_MAX_RANK, fa_attention_forward_tensors, fa_attention_options, fa_diagonal, fa_dtype,
        fa_mask, fa_per, fa_polarity, fa_sequences, fa_softmax_backward_tensors,
        fa_softmax_forward_tensors, fa_softmax_options, fa_tensor,
    },
    status::{Failure, fa_status},
};
use fused_attention::{
    Causal, Dtype, Error, MAX_RANK, Per, Polarity, RawBackward, RawForward, RawMask, RawSaved,
    RawTensor, ScaledMaskedSoftmax,
};
use std::{fmt, mem::MaybeUninit, slice};

const _: () = assert!(FA_MAX_RANK == MAX_RANK);

/// Fails if a pointer that the call needs is null.
pub(crate) fn not_null<T>(name: &str, pointer: *const T) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(Failure::new(fa_status::NullArgument, format_args!("{name} is null")));
    }
    Ok(())
}

/// # Safety
/// The pointer is null or valid for as long as the reference is used.
pub(crate) unsafe fn reference<'a, T>(name: &str, pointer: *const T) -> Result<&'a T, Failure> {
    not_null(name, pointer)?;
    // SAFETY: promised.
    Ok(unsafe { &*pointer })
}

/// A struct of the interface that grows by fields at its end, whose zeros mean that they are not
/// given.
///
/// # Safety
/// The first field is the struct's size in bytes, and all bytes 0 are a value.
pub(crate) unsafe trait Growing: Copy {
    /// Its name in C.
    const NAME: &'static str;
    /// Its size in the first version of the interface that had it.
    const FIRST_SIZE: usize;
}

macro_rules! growing {
    ($($T:ident: $size:literal,)*) => {$(
        // SAFETY: numbers and pointers, the size first.
        unsafe impl Growing for $T {
            const NAME: &'static str = stringify!($T);
            const FIRST_SIZE: usize = $size;
        }

        const _: () = assert!(size_of::<$T>() >= $size && std::mem::offset_of!($T, struct_size) == 0);
    )*};
}

growing! {
    fa_softmax_options: 48,
    fa_mask: 48,
    fa_softmax_forward_tensors: 48,
    fa_softmax_backward_tensors: 56,
    fa_attention_options: 64,
    fa_sequences: 24,
    fa_attention_forward_tensors: 128,
}

/// Larger than any struct will be: a size beyond is a mistake.
const MAX_STRUCT_SIZE: usize = 4096;

/// A struct as the caller knows it: what an older one lacks is 0, and what a newer one has beyond
/// must be.
///
/// # Safety
/// The pointer is null or points to as many bytes as the struct's first field says.
pub(crate) unsafe fn read<T: Growing>(name: &str, from: *const T) -> Result<T, Failure> {
    not_null(name, from)?;
    // SAFETY: promised; the first field is there in every version.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    let refused = |why: &str| {
        let own = size_of::<T>();
        let message = format!("{name}: struct_size {size} of {}, here {own}: {why}", T::NAME);
        Failure::new(fa_status::StructSize, message)
    };
    if !(T::FIRST_SIZE..=MAX_STRUCT_SIZE).contains(&size) {
        return Err(refused("not a size of it"));
    }
    // SAFETY: promised.
    let bytes = unsafe { slice::from_raw_parts(from.cast::<MaybeUninit<u8>>(), size) };
    let (known, beyond) = bytes.split_at(size.min(size_of::<T>()));
    // SAFETY: the caller has set the fields beyond those that this version knows; they are numbers
    // or pointers, and structs are zeroed before their fields are set.
    if beyond.iter().any(|byte| unsafe { byte.assume_init() } != 0) {
        return Err(refused("fields are set that this version does not know"));
    }
    let mut own = MaybeUninit::<T>::zeroed();
    // SAFETY: `known` is no longer than the struct, whose bytes that it does not fill are 0, and
    // any numbers and pointers are a value of it.
    unsafe {
        known.as_ptr().copy_to_nonoverlapping(own.as_mut_ptr().cast(), known.len());
        Ok(own.assume_init())
    }
}

/// A number that should be one of an enumeration's.
fn one_of<T: Copy>(name: impl fmt::Display, value: u32, known: &[(u32, T)]) -> Result<T, Failure> {
    let found = known.iter().find(|&&(number, _)| number == value);
    let unknown = || {
        let numbers: Vec<_> = known.iter().map(|(number, _)| number.to_string()).collect();
        let message = format!("{name} is {value}, not one of {}", numbers.join(", "));
        Failure::new(fa_status::UnknownValue, message)
    };
    found.map(|&(_, value)| value).ok_or_else(unknown)
}

/// The corner that options name.
pub(crate) fn diagonal(number: u32) -> Result<Causal, Failure> {
    let corners = [
        (fa_diagonal::BottomRight as u32, Causal::BottomRight),
        (fa_diagonal::TopLeft as u32, Causal::TopLeft),
    ];
    one_of("options.diagonal", number, &corners)
}

/// The options.
///
/// # Safety
/// As [`read`].
pub(crate) unsafe fn options(
    from: *const fa_softmax_options,
) -> Result<ScaledMaskedSoftmax, Failure> {
    // SAFETY: promised.
    let options = unsafe { read("options", from) }?;
    let diagonal = diagonal(options.diagonal)?;
    one_of("options.reserved", options.reserved, &[(0, ())])?;
    let mut softmax = ScaledMaskedSoftmax::new(options.scale).diagonal(diagonal);
    if options.has_window != 0 {
        softmax = softmax.window(options.window_left, options.window_right);
    }
    if options.is_causal != 0 {
        softmax = softmax.causal(diagonal);
    }
    Ok(softmax)
}

/// The tensors of a forward call.
///
/// # Safety
/// As [`read`], for the struct and all that it points to.
pub(crate) unsafe fn forward(
    from: *const fa_softmax_forward_tensors,
) -> Result<RawForward, Failure> {
    // SAFETY: promised.
    unsafe {
        let tensors = read("tensors", from)?;
        Ok(RawForward {
            x: tensor("x", tensors.x)?,
            y: tensor("y", tensors.y)?,
            lse: optional_tensor("lse", tensors.lse)?,
            scale: optional_tensor("scale", tensors.scale)?,
            mask: mask(tensors.mask)?,
        })
    }
}

/// The tensors of a backward call.
///
/// # Safety
/// As [`read`], for the struct and all that it points to.
pub(crate) unsafe fn backward(
    from: *const fa_softmax_backward_tensors,
) -> Result<RawBackward, Failure> {
    // SAFETY: promised.
    unsafe {
        let tensors = read("tensors", from)?;
        let saved = match (optional_tensor("p", tensors.p)?, optional_tensor("x", tensors.x)?) {
            (Some(p), None) => RawSaved::Probabilities(p),
            (None, Some(x)) => RawSaved::Scores(x),
            (None, None) => return Err(Failure::new(fa_status::NullArgument, "p and x are null")),
            (Some(_), Some(_)) => {
                let message = "p and x are given, and one of them counts";
                return Err(Failure::new(fa_status::ConflictingArguments, message));
            }
        };
        Ok(RawBackward {
            saved,
            dp: tensor("dp", tensors.dp)?,
            dx: tensor("dx", tensors.dx)?,
            scale: optional_tensor("scale", tensors.scale)?,
            mask: mask(tensors.mask)?,
        })
    }
}

/// # Safety
/// As [`read`], for the struct and all that it points to.
pub(crate) unsafe fn mask(from: *const fa_mask) -> Result<RawMask, Failure> {
    if from.is_null() {
        return Ok(RawMask::default());
    }
    // SAFETY: promised.
    unsafe {
        let mask = read("mask", from)?;
        let polarities = [
            (fa_polarity::Exclude as u32, Polarity::Exclude),
            (fa_polarity::Keep as u32, Polarity::Keep),
        ];
        let pers = [(fa_per::Batch as u32, Per::Batch), (fa_per::Row as u32, Per::Row)];
        let bytes = optional_tensor("mask.bytes", mask.bytes)?;
        let lengths = optional_tensor("mask.lengths", mask.lengths)?;
        let polarity = |_| one_of("mask.polarity", mask.polarity, &polarities);
        let per = |_| one_of("mask.lengths_per", mask.lengths_per, &pers);
        Ok(RawMask {
            bytes: bytes.zip(bytes.map(polarity).transpose()?),
            additive: optional_tensor("mask.additive", mask.additive)?,
            lengths: lengths.zip(lengths.map(per).transpose()?),
            bank_index: optional_tensor("mask.bank_index", mask.bank_index)?,
        })
    }
}

/// # Safety
/// The pointer is null or valid.
pub(crate) unsafe fn optional_tensor(
    name: &str,
    from: *const fa_tensor,
) -> Result<Option<RawTensor>, Failure> {
    // SAFETY: promised.
    if from.is_null() { Ok(None) } else { unsafe { tensor(name, from) }.map(Some) }
}

/// # Safety
/// The pointer is null or valid.
pub(crate) unsafe fn tensor(name: &str, from: *const fa_tensor) -> Result<RawTensor, Failure> {
    not_null(name, from)?;
    // SAFETY: promised; all bytes are a value.
    let fa_tensor { pointer, dtype, rank, shape, strides } = unsafe { from.read_unaligned() };
    let dtypes = [
        (fa_dtype::F16 as u32, Dtype::F16),
        (fa_dtype::Bf16 as u32, Dtype::Bf16),
        (fa_dtype::F32 as u32, Dtype::F32),
        (fa_dtype::F64 as u32, Dtype::F64),
        (fa_dtype::U8 as u32, Dtype::U8),
        (fa_dtype::I32 as u32, Dtype::I32),
        (fa_dtype::I64 as u32, Dtype::I64),
    ];
    let dtype = one_of(format_args!("{name}.dtype"), dtype, &dtypes)?;
    let rank = rank as usize;
    if rank > FA_MAX_RANK {
        return Err(Error::RankTooLarge { rank, limit: FA_MAX_RANK }.into());
    }
    let mut sizes = [0; FA_MAX_RANK];
    for (dim, (to, &size)) in sizes.iter_mut().zip(&shape).enumerate().take(rank) {
        *to = usize::try_from(size).map_err(|_| {
            let message = format!("{name}.shape[{dim}] is {size}");
            Failure::new(fa_status::NegativeSize, message)
        })?;
    }
    Ok(RawTensor::new(pointer as u64, dtype, &sizes[..rank], &strides[..rank])?)
}
