//! Memory of the emulator, which checks that kernels stay within it.

use crate::{
    abi::fa_device,
    guard::guard,
    read::{not_null, reference},
    status::{Failure, fa_status},
};
use fused_attention::{DeviceKind, Tensor};
use std::{
    collections::HashMap,
    ffi::c_void,
    sync::{Mutex, PoisonError},
};

/// What has been allocated and not freed, by address.
static ALLOCATED: Mutex<Option<HashMap<u64, Tensor<u8>>>> = Mutex::new(None);

/// Writes to `pointer` the address of as many bytes of the host's memory, for tensors on the
/// emulator, whose kernels may touch no other. On a GPU, tensors are in memory of the caller's.
///
/// # Safety
/// `device` is null (an error) or a handle; `pointer` is null (an error) or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa_emulator_allocate(
    device: *const fa_device,
    bytes: usize,
    pointer: *mut *mut c_void,
) -> fa_status {
    guard(|| {
        // SAFETY: promised.
        let fa_device(device) = unsafe { reference("device", device) }?;
        not_null("pointer", pointer)?;
        if device.kind() != DeviceKind::Emulator {
            let message = format_args!("{device} is not the emulator");
            return Err(Failure::new(fa_status::ConflictingArguments, message));
        }
        let memory = device.empty::<u8>(&[bytes])?;
        let address = memory.pointer();
        let mut allocated = ALLOCATED.lock().unwrap_or_else(PoisonError::into_inner);
        allocated.get_or_insert_default().insert(address, memory);
        // SAFETY: promised.
        unsafe { pointer.write(address as *mut c_void) };
        Ok(())
    })
}

/// Frees what `fa_emulator_allocate` gave. Null, and what is not from there, is nothing to do.
///
/// # Safety
/// Nothing uses the memory any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fa_emulator_free(pointer: *mut c_void) {
    guard(|| {
        let mut allocated = ALLOCATED.lock().unwrap_or_else(PoisonError::into_inner);
        drop(allocated.as_mut().and_then(|allocated| allocated.remove(&(pointer as u64))));
        Ok(())
    });
}
