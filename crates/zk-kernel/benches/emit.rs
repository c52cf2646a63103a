//! Cost of one emit: `cargo bench -p zk-harness-kernel`, or `--profile quick` for a quick look.
//!
//! The bars: nobody listens ≤ 30 ns; eight sync handlers ≤ 100 ns and no allocation; eight async handlers
//! ≤ 300 ns and one allocation each. `floor` is a plain list of boxed closures in the same run, to read the
//! others against on a busy machine.

use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use divan::{AllocProfiler, Bencher};
use serde::Serialize;
use zk_kernel::{Answer, Bus, Cx, Event, Handler, Notify, Reach};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// Size of a stream delta without its text, whose creation is not measured.
#[derive(Clone, Copy, Serialize)]
struct Delta(u64);

impl Event for Delta {
    const NAME: &'static str = "bench:delta";
    type Reply = ();
    type Mode = Notify;
}

/// Work the compiler cannot leave out.
fn keep<T>(value: T) {
    let _ = black_box(value);
}

/// Polls a future in place, like an `.await`.
fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

struct Struct(u64);

impl Handler<Delta> for Struct {
    async fn call(&self, ev: &Delta, _: &Cx) -> Answer<Delta> {
        keep(self.0 + ev.0);
        Ok(None)
    }
}

/// Emits on a bus that `set_up` filled.
fn emit(bencher: Bencher<'_, '_>, set_up: impl FnOnce(&Bus)) {
    let bus = Bus::new();
    set_up(&bus);
    emit_on(bencher, &bus);
}

fn emit_on(bencher: Bencher<'_, '_>, bus: &Bus) {
    let cx = bus.cx();
    bencher.bench_local(|| {
        assert!(matches!(poll(pin!(cx.emit(black_box(Delta(1))))), Poll::Ready(Ok(()))));
    });
}

#[divan::bench(args = [1, 8])]
fn floor(bencher: Bencher<'_, '_>, handlers: u64) {
    type Plain = Box<dyn Fn(&Delta)>;
    let all: Vec<Plain> =
        (0..handlers).map(|n| Box::new(move |ev: &Delta| keep(n + ev.0)) as Plain).collect();
    bencher.bench_local(|| {
        let event = black_box(Delta(1));
        for handler in black_box(&all) {
            handler(&event);
        }
    });
}

#[divan::bench(args = [1, 8])]
fn floor_with_a_boxed_future_each(bencher: Bencher<'_, '_>, handlers: u64) {
    type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;
    fn boxed(n: u64) -> Box<dyn Fn(Delta) -> Boxed> {
        Box::new(move |ev| Box::pin(async move { keep(n + ev.0) }))
    }
    let all: Vec<_> = (0..handlers).map(boxed).collect();
    bencher.bench_local(|| {
        let event = black_box(Delta(1));
        for handler in black_box(&all) {
            assert!(poll(handler(event).as_mut()).is_ready());
        }
    });
}

#[divan::bench]
fn nobody_listens(bencher: Bencher<'_, '_>) {
    emit(bencher, |_| ());
}

#[divan::bench]
fn nobody_listens_and_the_event_is_not_built(bencher: Bencher<'_, '_>) {
    let cx = Bus::new().cx();
    bencher.bench_local(|| {
        assert!(matches!(poll(pin!(cx.emit_with(|| black_box(Delta(1))))), Poll::Ready(Ok(()))));
    });
}

#[divan::bench(args = [1, 8])]
fn sync_closure(bencher: Bencher<'_, '_>, handlers: u64) {
    emit(bencher, |bus| {
        for n in 0..handlers {
            bus.scope("bench").on_sync(move |ev: &Delta, _: &Cx| keep(n + ev.0));
        }
    });
}

#[divan::bench(args = [1, 8])]
fn async_struct(bencher: Bencher<'_, '_>, handlers: u64) {
    emit(bencher, |bus| {
        for n in 0..handlers {
            bus.scope("bench").handle(Arc::new(Struct(n)));
        }
    });
}

#[divan::bench(args = [1, 8])]
fn async_closure_with_state(bencher: Bencher<'_, '_>, handlers: u64) {
    emit(bencher, |bus| {
        for n in 0..handlers {
            bus.scope("bench").on_async_with(n, async |n: &u64, ev: &Delta, _: &Cx| keep(n + ev.0));
        }
    });
}

#[divan::bench]
fn one_observer(bencher: Bencher<'_, '_>) {
    emit(bencher, |bus| {
        bus.scope("bench").observe(|ev, _| keep(ev.name()));
    });
}

#[divan::bench(args = [1, 8])]
fn child_with_handlers_of_its_parent(bencher: Bencher<'_, '_>, handlers: u64) {
    let parent = Bus::new();
    for n in 0..handlers {
        let scope = parent.scope("bench");
        scope.on_sync_at(Reach::Descendants, move |ev: &Delta, _: &Cx| keep(n + ev.0));
    }
    emit_on(bencher, &parent.child("child"));
}

#[divan::bench]
fn child_nobody_listens(bencher: Bencher<'_, '_>) {
    emit_on(bencher, &Bus::new().child("child").child("grandchild"));
}
