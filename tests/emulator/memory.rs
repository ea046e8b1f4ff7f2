//! Shared and global memory: bounds, alignment, initialisation, races.

use super::{broken_kernels as broken, check_fault, check_line, emulators, fault, run};
use cuda_emulator::{Buffer, Emulator, FaultKind, LaunchConfig, Placement};

fn config(threads: u32, shared_bytes: u32) -> LaunchConfig {
    LaunchConfig::new(1, threads).shared_bytes(shared_bytes)
}

#[test]
fn shared_memory_has_an_end() {
    let fault = fault(&Emulator::default(), &broken::shared_beyond_the_end, config(64, 252), ());
    check_fault(&fault, FaultKind::OutOfBounds, "shared out of bounds", 0, 63);
    assert!(fault.message().contains("4 bytes at 0x4fc"), "{fault}");
    run(&Emulator::default(), &broken::shared_beyond_the_end, config(63, 252), ());
}

#[test]
fn shared_vectors_are_aligned() {
    let fault = fault(&Emulator::default(), &broken::shared_misaligned, config(2, 256), ());
    check_fault(&fault, FaultKind::Misaligned, "shared misaligned", 0, 1);
}

#[test]
fn shared_memory_starts_uninitialised() {
    let fault = fault(&Emulator::default(), &broken::shared_uninitialised, config(64, 256), ());
    check_fault(&fault, FaultKind::Uninitialised, "shared uninitialised", 0, 7);
}

/// The blocks that one OS thread runs in turn don't see each other's memory.
#[test]
fn every_block_starts_uninitialised() {
    let config = LaunchConfig::new(50, 8).shared_bytes(32);
    let fault = fault(&Emulator::default(), &broken::shared_uninitialised, config, ());
    check_fault(&fault, FaultKind::Uninitialised, "shared uninitialised", 0, 7);
}

#[test]
fn a_missing_barrier_is_a_race() {
    let races = emulators().filter(|emulator| emulator.seed().is_some());
    for emulator in races.chain([Emulator::default().race_check(true)]) {
        let fault = fault(&emulator, &broken::shared_race, config(64, 256), ());
        assert_eq!(fault.kind(), FaultKind::DataRace, "{fault}");
        let line = fault.location().expect("races have places").line;
        let [write, read] =
            ["blame: racing write", "blame: racing read"].map(|comment| super::line(comment));
        assert!(line == write || line == read, "{fault}");
        let other = if line == write { read } else { write };
        assert!(fault.message().contains(&format!("broken_kernels.rs:{other}:")), "{fault}");
    }
}

#[test]
fn a_write_after_reads_is_a_race() {
    let emulator = Emulator::default().race_check(true);
    let fault = fault(&emulator, &broken::shared_race_of_a_loop, config(64, 256), ());
    assert_eq!(fault.kind(), FaultKind::DataRace, "{fault}");
    check_line(&fault, "blame: write of the next round");
}

#[test]
fn an_asynchronous_copy_needs_commit_wait_and_barrier() {
    let input = Buffer::from((0..256).collect::<Vec<u32>>());
    let output = Buffer::from(vec![0u32; 256]);
    let args = |forgotten| (input.as_ptr(), output.as_mut_ptr(), forgotten);
    for emulator in emulators() {
        run(&emulator, &broken::copies, config(64, 1024), args(0));
        assert_eq!(output[0..4], [4, 5, 6, 7]);
        assert_eq!(output[252..256], [0, 1, 2, 3]);
    }
    for emulator in emulators().filter(|emulator| emulator.seed().is_some()) {
        for forgotten in 1..=3 {
            let fault = fault(&emulator, &broken::copies, config(64, 1024), args(forgotten));
            let kinds = [FaultKind::DataRace, FaultKind::Uninitialised];
            assert!(kinds.contains(&fault.kind()), "{fault}");
        }
    }
}

#[test]
fn buffers_have_an_end() {
    for placement in [Placement::Aligned, Placement::Guarded] {
        let buffer = Buffer::new(&[0f32; 37], placement);
        let emulator = Emulator::default();
        let kernel = &broken::global_beyond_the_end;
        let found = fault(&emulator, kernel, config(38, 0), (buffer.as_mut_ptr(),));
        check_fault(&found, FaultKind::OutOfBounds, "global store", 0, 37);
        assert!(found.message().contains("0 past the end of the buffer of 148 bytes"), "{found}");
        run(&emulator, kernel, config(37, 0), (buffer.as_mut_ptr(),));
        assert_eq!(buffer[..], [1.; 37]);
    }
}

#[test]
fn vectors_end_within_a_buffer() {
    let buffer = Buffer::new(&[0f32; 14], Placement::Aligned);
    let kernel = &broken::global_vector_beyond_the_end;
    let fault = fault(&Emulator::default(), kernel, config(4, 0), (buffer.as_ptr(),));
    check_fault(&fault, FaultKind::OutOfBounds, "vector", 0, 3);
    assert!(fault.message().contains("go 8 past the end"), "{fault}");
}

#[test]
fn global_vectors_are_aligned() {
    let buffer = Buffer::new(&[0f32; 14], Placement::Aligned);
    let kernel = &broken::global_misaligned;
    let fault = fault(&Emulator::default(), kernel, config(4, 0), (buffer.as_ptr(),));
    check_fault(&fault, FaultKind::Misaligned, "global misaligned", 0, 1);
}

#[test]
fn memory_outside_of_buffers_is_not_global() {
    let on_the_stack = 0f32;
    for pointer in [std::ptr::null_mut(), (&raw const on_the_stack).cast_mut()] {
        let kernel = &broken::global_beyond_the_end;
        let fault = fault(&Emulator::default(), kernel, config(1, 0), (pointer,));
        check_fault(&fault, FaultKind::OutOfBounds, "global store", 0, 0);
    }
}

#[test]
fn a_dropped_buffer_is_gone() {
    let buffer = Buffer::from(vec![0f32; 8]);
    let pointer = buffer.as_mut_ptr();
    drop(buffer);
    let kernel = &broken::global_beyond_the_end;
    let fault = fault(&Emulator::default(), kernel, config(1, 0), (pointer,));
    check_fault(&fault, FaultKind::OutOfBounds, "global store", 0, 0);
}

#[test]
fn atomics_stay_within_a_buffer() {
    let buffer = Buffer::from(vec![0u32; 9]);
    let kernel = &broken::atomic_beyond_the_end;
    let fault = fault(&Emulator::default(), kernel, config(10, 0), (buffer.as_mut_ptr(),));
    check_fault(&fault, FaultKind::OutOfBounds, "atomic", 0, 9);
    assert_eq!(buffer[..], [1; 9]);
}

#[test]
fn asynchronous_copies_read_within_a_buffer() {
    let buffer = Buffer::from(vec![0u32; 30]);
    let kernel = &broken::copy_beyond_the_end;
    let fault = fault(&Emulator::default(), kernel, config(8, 128), (buffer.as_ptr(),));
    check_fault(&fault, FaultKind::OutOfBounds, "cp.async source", 0, 7);
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn raw_pointers_meet_the_guard() {
    let buffer = Buffer::new(&[0u32; 37], Placement::Guarded);
    let kernel = &broken::raw_beyond_the_end;
    let found = fault(&Emulator::default(), kernel, config(38, 0), (buffer.as_mut_ptr(),));
    if cfg!(debug_assertions) {
        check_fault(&found, FaultKind::IllegalAccess, "raw pointer", 0, 37);
    }
    assert_eq!(found.kind(), FaultKind::IllegalAccess, "{found}");
    let end = buffer.as_ptr() as usize + 4 * 37;
    assert!(found.message().contains(&format!("{end:#x}")), "{found}");
    // Nothing has been broken by it.
    run(&Emulator::default(), kernel, config(37, 0), (buffer.as_mut_ptr(),));
    assert_eq!(buffer[..], [1; 37]);
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn a_stack_has_an_end() {
    let buffer = Buffer::from(vec![0u32; 8]);
    let kernel = &broken::uses_up_the_stack;
    let found = fault(&Emulator::default(), kernel, config(1, 0), (buffer.as_mut_ptr(),));
    assert_eq!(found.kind(), FaultKind::StackOverflow, "{found}");
}

#[test]
fn buffers_are_placed_as_asked() {
    for len in [0usize, 1, 37, 64, 1024, 4096, 5000] {
        let aligned = Buffer::new(&vec![1f32; len], Placement::Aligned);
        assert_eq!(aligned.as_ptr() as usize % 256, 0);
        let guarded = Buffer::new(&vec![1f32; len], Placement::Guarded);
        assert_eq!((guarded.as_ptr() as usize + 4 * len) % 4096, 0);
        assert_eq!((aligned.len(), guarded.len()), (len, len));
        let bytes = Buffer::bytes(len, 16, Placement::Guarded).expect("there is memory");
        assert_eq!(bytes.as_ptr() as usize % 16, 0);
        assert!(bytes.iter().all(|byte| *byte == 0xff) && bytes.len() == len);
    }
}
