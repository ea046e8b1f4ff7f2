//! Streams: our own, other people's, and graphs captured from them.

use crate::{
    conformance::harness::{Buffer, conformance},
    host::launches::{empty_entry, library},
};
use conformance_kernels::memory::memory_u32;
use cuda_std::kernel;
use cust::sys;
use fused_attention::{Device, DeviceKind, Error, LaunchConfig, Launcher, Stream};
use std::ptr::null_mut;

/// Each result of this kernel is the input, four times over.
fn pass_on(stream: &Stream, from: &Buffer<u32>, to: &Buffer<u32>) -> Result<(), Error> {
    let config = LaunchConfig::new(1, 64).shared_bytes(64 * 4);
    // SAFETY: an element for each of 64 threads, and four; the buffers outlive the stream's work.
    unsafe { stream.launch(&memory_u32, config, (from.pointer(), to.pointer_mut())) }
}

fn first_of_each(to: &Buffer<u32>) -> Vec<u32> {
    to.to_vec().chunks(4).map(|results| results[0]).collect()
}

fn is_gpu(device: &Device) -> bool {
    matches!(device.kind(), DeviceKind::Cuda { .. })
}

#[track_caller]
pub(crate) fn ok(status: sys::CUresult) {
    assert_eq!(status, sys::CUresult::CUDA_SUCCESS);
}

#[test]
fn a_stream_carries_out_its_work_in_order() {
    conformance(|device| {
        let stream = Stream::new(device).unwrap();
        let input: Vec<u32> = (1..=64).collect();
        let from = Buffer::new(device, &input);
        let (middle, to) = (Buffer::empty(device, 256), Buffer::empty(device, 256));
        pass_on(&stream, &from, &middle).unwrap();
        pass_on(&stream, &middle, &to).unwrap();
        stream.synchronize().unwrap();
        let expected: Vec<u32> = middle.to_vec()[..64].to_vec();
        assert_eq!(first_of_each(&to), expected);
        assert_eq!(first_of_each(&middle), input);
        assert!(!stream.is_capturing().unwrap());
    });
}

#[test]
fn a_stream_of_someone_else_is_used_as_it_is() {
    conformance(|device| {
        let mut raw = null_mut();
        if is_gpu(device) {
            // Non-blocking: nothing but its own order orders it.
            with_primary_context(device, || {
                // SAFETY: writes one handle.
                ok(unsafe { sys::cuStreamCreate(&mut raw, 1) });
            });
        }
        // SAFETY: the stream is destroyed below.
        let stream = unsafe { Stream::from_raw(device, raw.cast()) }.unwrap();
        assert_eq!(stream.as_raw(), raw.cast());
        let input: Vec<u32> = (1..=64).collect();
        let (from, to) = (Buffer::new(device, &input), Buffer::empty(device, 256));
        pass_on(&stream, &from, &to).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(first_of_each(&to), input);
        if is_gpu(device) {
            // SAFETY: made above, and not used again.
            ok(unsafe { sys::cuStreamDestroy_v2(raw) });
        }
    });
}

#[test]
fn a_stream_of_another_context_is_refused() {
    for device in support::gpus() {
        let (mut context, mut raw) = (null_mut(), null_mut());
        // SAFETY: writes handles; the new context is current.
        unsafe {
            ok(sys::cuCtxCreate_v2(&mut context, 0, 0));
            ok(sys::cuStreamCreate(&mut raw, 0));
        }
        // SAFETY: the stream exists.
        let error = unsafe { Stream::from_raw(&device, raw.cast()) }.unwrap_err();
        let Error::ForeignStream { stream, .. } = error else { panic!("{error}") };
        assert_eq!(stream, raw as u64);
        // SAFETY: made above; takes the stream with it.
        ok(unsafe { sys::cuCtxDestroy_v2(context) });
    }
}

#[test]
fn the_current_context_is_left_as_it_was() {
    conformance(|device| {
        if !is_gpu(device) {
            return;
        }
        let use_everything = || {
            let input: Vec<u32> = (1..=64).collect();
            let (from, to) = (Buffer::new(device, &input), Buffer::empty(device, 256));
            pass_on(&Stream::new(device).unwrap(), &from, &to).unwrap();
            assert_eq!(first_of_each(&to), input);
        };
        let current = || {
            let mut current = null_mut();
            // SAFETY: writes one handle.
            ok(unsafe { sys::cuCtxGetCurrent(&mut current) });
            current
        };
        let before = current();
        use_everything();
        assert_eq!(current(), before, "without another context");
        let mut foreign = null_mut();
        // SAFETY: writes one handle.
        ok(unsafe { sys::cuCtxCreate_v2(&mut foreign, 0, 0) });
        use_everything();
        assert_eq!(current(), foreign);
        // SAFETY: made above.
        ok(unsafe { sys::cuCtxDestroy_v2(foreign) });
        use_everything();
    });
}

#[test]
fn a_captured_launch_runs_when_its_graph_does() {
    conformance(|device| {
        if !is_gpu(device) {
            return;
        }
        device.prepare(&["memory_u32"]).unwrap();
        let stream = Stream::non_blocking(device).unwrap();
        let from = device.upload(&[1u8; 256], &[256]).unwrap();
        let to = Buffer::<u32>::new(device, &[0; 256]);
        let config = LaunchConfig::new(1, 64).shared_bytes(64 * 4);
        let graph = capture(&stream, || {
            assert!(stream.is_capturing().unwrap());
            let from = from.pointer() as *const u32;
            // SAFETY: as `pass_on`.
            unsafe { stream.launch(&memory_u32, config, (from, to.pointer_mut())) }.unwrap();
        });
        assert_eq!(to.to_vec(), [0; 256], "a capture runs nothing");
        for byte in [1, 2, 3] {
            from.copy_from(&[byte; 256]).unwrap();
            // SAFETY: a graph and a stream of the same context.
            ok(unsafe { sys::cuGraphLaunch(graph, stream.as_raw().cast()) });
            stream.synchronize().unwrap();
            assert_eq!(first_of_each(&to), [u32::from_ne_bytes([byte; 4]); 64]);
        }
        // SAFETY: instantiated above.
        ok(unsafe { sys::cuGraphExecDestroy(graph) });
    });
}

/// Loaded by nothing else.
#[kernel(launch_bounds(32, 1))]
unsafe fn not_prepared() {}

#[test]
fn a_kernel_is_not_loaded_during_a_capture() {
    for device in support::gpus() {
        let ptx = empty_entry("7.0", "not_prepared");
        let device = device.with_library(library(&[("not_prepared", &ptx)]));
        let stream = Stream::non_blocking(&device).unwrap();
        // SAFETY: the kernel touches no memory.
        let launch = || unsafe { stream.launch(&not_prepared, LaunchConfig::new(1, 32), ()) };
        let mut result = Ok(());
        capture(&stream, || result = launch());
        let error = result.unwrap_err();
        assert!(
            matches!(&error, Error::LoadDuringCapture { kernel } if kernel == "not_prepared"),
            "{error}"
        );
        assert!(error.to_string().contains("prepare"), "{error}");
        device.prepare(&["not_prepared"]).unwrap();
        capture(&stream, || launch().unwrap());
    }
}

#[test]
fn memory_can_be_had_while_a_graph_is_captured() {
    for device in support::gpus() {
        let stream = Stream::non_blocking(&device).unwrap();
        capture(&stream, || {
            let tensor = device.upload(&[1f32, 2.0], &[2]).unwrap();
            assert_eq!(tensor.to_vec().unwrap(), [1.0, 2.0]);
        });
    }
}

/// The graph of what `work` enqueues in the stream, ready to run.
pub(crate) fn capture(stream: &Stream, work: impl FnOnce()) -> sys::CUgraphExec {
    let (mut graph, mut exec) = (null_mut(), null_mut());
    let raw = stream.as_raw().cast();
    with_primary_context(stream.device(), || {
        // Other tests go on meanwhile, with calls that a global capture forbids.
        let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: a stream of this context.
        ok(unsafe { sys::cuStreamBeginCapture_v2(raw, mode) });
        work();
        // SAFETY: as above; writes handles.
        unsafe {
            ok(sys::cuStreamEndCapture(raw, &mut graph));
            ok(sys::cuGraphInstantiateWithFlags(&mut exec, graph, 0));
            ok(sys::cuGraphDestroy(graph));
        }
    });
    exec
}

/// Calls `f` with the device's primary context current, as a program of its own would.
pub(crate) fn with_primary_context(device: &Device, f: impl FnOnce()) {
    let DeviceKind::Cuda { ordinal } = device.kind() else { panic!("{device} has no context") };
    let (mut context, mut popped) = (null_mut(), null_mut());
    // SAFETY: writes handles; pops what it pushed.
    unsafe {
        ok(sys::cuDevicePrimaryCtxRetain(&mut context, ordinal as i32));
        ok(sys::cuCtxPushCurrent_v2(context));
        f();
        ok(sys::cuCtxPopCurrent_v2(&mut popped));
        ok(sys::cuDevicePrimaryCtxRelease_v2(ordinal as i32));
    }
}
