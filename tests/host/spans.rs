//! Spans on launches, as a subscriber of `tracing` sees them.

use crate::conformance::harness::conformance;
use conformance_kernels::arguments::nothing;
use fused_attention::{LaunchConfig, Launcher};
use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::with_default,
};

/// Writes down each span and its fields.
#[derive(Default)]
struct Recorder {
    spans: Arc<Mutex<Vec<String>>>,
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!(" {field}={value:?}");
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(span.metadata().name().to_owned());
        span.record(&mut fields);
        self.spans.lock().unwrap().push(fields.0);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn a_launch_is_a_span_with_its_configuration() {
    conformance(|device| {
        let recorder = Recorder::default();
        let spans = recorder.spans.clone();
        with_default(recorder, || {
            let config = LaunchConfig::new(2, 32).shared_bytes(64);
            // SAFETY: the kernel touches no memory.
            unsafe { device.default_stream().launch(&nothing, config, ()) }.unwrap();
        });
        let expected = "launch kernel=\"nothing\" grid=(2, 1, 1) block=(32, 1, 1) cluster=1 \
                        shared_bytes=64";
        assert_eq!(*spans.lock().unwrap(), [expected]);
    });
}
