//! The functions that cust's bindings call: jumps into the driver.
//!
//! Each jumps to the address in its slot of a table. An empty slot leads to `first_call`, which
//! keeps the arguments, has [`resolve`] fill the slot, and goes on to what it found. All of it
//! passes the arguments on as they came, wherever they are, so that no signature is needed.

use crate::{DriverError, functions::for_functions, symbol};
use std::{
    arch::{global_asm, naked_asm},
    ffi::{CStr, c_void},
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering},
};

/// What every function returns without a driver: the program was linked against a stand-in.
const STUB_LIBRARY: u32 = 34;

/// What a function returns that the driver does not have.
const NOT_FOUND: u32 = 500;

extern "C" fn no_driver() -> u32 {
    STUB_LIBRARY
}

extern "C" fn no_function() -> u32 {
    NOT_FOUND
}

/// Fills a slot of the table, and returns what is in it.
extern "C" fn resolve(slot: usize) -> *mut c_void {
    let address = match symbol(NAMES[slot]) {
        Ok(address) => address.as_ptr(),
        Err(DriverError::NotLoaded { .. }) => no_driver as *mut c_void,
        Err(DriverError::NoFunction { .. }) => no_function as *mut c_void,
    };
    TABLE[slot].store(address, Ordering::Release);
    address
}

macro_rules! define {
    ($($name:ident)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(usize)]
        enum Slot {
            $($name,)*
            End,
        }

        const COUNT: usize = Slot::End as usize;

        static NAMES: [&CStr; COUNT] = [$(
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            },
        )*];

        static TABLE: [AtomicPtr<c_void>; COUNT] = [const { AtomicPtr::new(null_mut()) }; COUNT];

        $(trampoline!($name);)*

        /// Has the linker take the trampolines as soon as it takes anything of this crate, which
        /// may be before it sees who calls them.
        #[used]
        static KEEP: [unsafe extern "C" fn(); COUNT] = [$(declared::$name,)*];

        // Only their addresses are taken, so they need no signature here.
        #[allow(clashing_extern_declarations)]
        mod declared {
            unsafe extern "C" {
                $(pub fn $name();)*
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! trampoline {
    ($name:ident) => {
        global_asm!(
            concat!(".pushsection .text.", stringify!($name), ",\"ax\",@progbits"),
            concat!(".globl ", stringify!($name)),
            concat!(".hidden ", stringify!($name)),
            concat!(".type ", stringify!($name), ",@function"),
            ".p2align 4",
            concat!(stringify!($name), ":"),
            "mov r11, qword ptr [rip + {table} + {offset}]",
            "test r11, r11",
            "jz 2f",
            "jmp r11",
            "2:",
            "mov r11d, {slot}",
            "jmp {first_call}",
            concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            ".popsection",
            table = sym TABLE,
            offset = const Slot::$name as usize * size_of::<AtomicPtr<c_void>>(),
            slot = const Slot::$name as usize,
            first_call = sym first_call,
        );
    };
}

/// Goes on to the function of the slot in r11, with the arguments of the call.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn first_call() {
    // System V: arguments are in six integer and eight vector registers, and on the stack, which
    // is left as it was; r11 belongs to nobody.
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "sub rsp, 192",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "mov [rsp + 16], rdx",
        "mov [rsp + 24], rcx",
        "mov [rsp + 32], r8",
        "mov [rsp + 40], r9",
        "mov [rsp + 48], rax",
        "movups [rsp + 64], xmm0",
        "movups [rsp + 80], xmm1",
        "movups [rsp + 96], xmm2",
        "movups [rsp + 112], xmm3",
        "movups [rsp + 128], xmm4",
        "movups [rsp + 144], xmm5",
        "movups [rsp + 160], xmm6",
        "movups [rsp + 176], xmm7",
        "mov edi, r11d",
        "call {resolve}",
        "mov r11, rax",
        "mov rdi, [rsp]",
        "mov rsi, [rsp + 8]",
        "mov rdx, [rsp + 16]",
        "mov rcx, [rsp + 24]",
        "mov r8, [rsp + 32]",
        "mov r9, [rsp + 40]",
        "mov rax, [rsp + 48]",
        "movups xmm0, [rsp + 64]",
        "movups xmm1, [rsp + 80]",
        "movups xmm2, [rsp + 96]",
        "movups xmm3, [rsp + 112]",
        "movups xmm4, [rsp + 128]",
        "movups xmm5, [rsp + 144]",
        "movups xmm6, [rsp + 160]",
        "movups xmm7, [rsp + 176]",
        "leave",
        "jmp r11",
        resolve = sym resolve,
    )
}

// Not verified: it assembles, but has not run.
#[cfg(target_arch = "aarch64")]
macro_rules! trampoline {
    ($name:ident) => {
        global_asm!(
            concat!(".pushsection .text.", stringify!($name), ",\"ax\",@progbits"),
            concat!(".globl ", stringify!($name)),
            concat!(".hidden ", stringify!($name)),
            concat!(".type ", stringify!($name), ",@function"),
            ".p2align 4",
            concat!(stringify!($name), ":"),
            "adrp x16, {table} + {offset}",
            "ldr x16, [x16, :lo12:{table} + {offset}]",
            "cbz x16, 2f",
            "br x16",
            "2:",
            "mov w17, #{slot}",
            "b {first_call}",
            concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            ".popsection",
            table = sym TABLE,
            offset = const Slot::$name as usize * size_of::<AtomicPtr<c_void>>(),
            slot = const Slot::$name as usize,
            first_call = sym first_call,
        );
    };
}

/// Goes on to the function of the slot in w17, with the arguments of the call.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn first_call() {
    // AAPCS64: arguments are in x0 to x8 and q0 to q7, and on the stack, which is left as it was;
    // x16 and x17 belong to nobody.
    naked_asm!(
        "stp x29, x30, [sp, #-224]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "stp x2, x3, [sp, #32]",
        "stp x4, x5, [sp, #48]",
        "stp x6, x7, [sp, #64]",
        "str x8, [sp, #80]",
        "stp q0, q1, [sp, #96]",
        "stp q2, q3, [sp, #128]",
        "stp q4, q5, [sp, #160]",
        "stp q6, q7, [sp, #192]",
        "mov w0, w17",
        "bl {resolve}",
        "mov x16, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x2, x3, [sp, #32]",
        "ldp x4, x5, [sp, #48]",
        "ldp x6, x7, [sp, #64]",
        "ldr x8, [sp, #80]",
        "ldp q0, q1, [sp, #96]",
        "ldp q2, q3, [sp, #128]",
        "ldp q4, q5, [sp, #160]",
        "ldp q6, q7, [sp, #192]",
        "ldp x29, x30, [sp], #224",
        "br x16",
        resolve = sym resolve,
    )
}

for_functions!(define);
