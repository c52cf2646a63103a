use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::*;

const LONG: Duration = Duration::from_secs(10);

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn everything_arrives_in_order() {
    let sink = Sink::default();
    let output = Output::with_sink(sink.clone(), || ()).unwrap();
    let mut expected = String::new();
    for n in 0..10_000 {
        output.add(|out| out.extend_from_slice(format!("{n}\n").as_bytes()));
        expected.push_str(&format!("{n}\n"));
    }
    assert_eq!(output.finish(LONG), None);
    assert_eq!(*sink.0.lock().unwrap(), expected.into_bytes());
}

/// Writer that accepts one write for each permit, like a slow reader.
struct Slow(mpsc::Receiver<()>);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.recv().map_err(|_| ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_slow_reader_blocks_the_run_unless_waits_are_ended() {
    let (_permit, permits) = mpsc::channel();
    let output = Output::with_sink(Slow(permits), || ()).unwrap();
    let added = Arc::new(AtomicUsize::new(0));
    let (other, count) = (output.clone(), added.clone());
    let filler = std::thread::spawn(move || {
        for _ in 0..8 {
            other.add(|out| out.resize(out.len() + MAX_PENDING_BYTES / 2, b'x'));
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    while added.load(Ordering::SeqCst) < 2 {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(50));
    assert!(added.load(Ordering::SeqCst) < 8, "it did not wait");
    output.stop_waiting();
    filler.join().unwrap();
    assert_eq!(output.finish(Duration::from_millis(10)), None);
}

#[test]
fn a_reader_that_goes_away_breaks_the_output_once() {
    let (permit, permits) = mpsc::channel();
    drop(permit);
    let (broke, told) = mpsc::channel();
    let output = Output::with_sink(Slow(permits), move || broke.send(()).unwrap()).unwrap();
    output.add(|out| out.push(b'x'));
    told.recv_timeout(LONG).unwrap();
    output.add(|out| out.resize(4 * MAX_PENDING_BYTES, b'x'));
    assert_eq!(output.finish(LONG), Some(WriteFailure::Pipe));
    assert!(told.try_recv().is_err());
}
