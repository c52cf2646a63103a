use crate::wire::response::decode::Framing;

use super::Frames;

fn read(pieces: &[&[u8]]) -> Vec<String> {
    let mut frames = Frames::of(Framing::JsonLines);
    let mut lines = Vec::new();
    let mut take = |frames: &mut Frames| {
        while let Some(event) = frames.next().unwrap() {
            assert_eq!(event.name, "");
            lines.push(String::from_utf8(event.data.to_vec()).unwrap());
        }
    };
    for piece in pieces {
        frames.feed(piece);
        take(&mut frames);
    }
    frames.finish();
    take(&mut frames);
    lines
}

#[test]
fn every_line_is_an_event_and_blank_ones_are_none() {
    assert_eq!(read(&[b"{}\r\n\n  \n{\"a\":1}\n"]), ["{}", "{\"a\":1}"]);
    assert!(read(&[b""]).is_empty() && read(&[b"\n\n"]).is_empty());
}

#[test]
fn a_last_line_without_its_end_counts() {
    assert_eq!(read(&[b"1\n2"]), ["1", "2"]);
}

#[test]
fn lines_may_be_split_anywhere() {
    let whole = "{\"text\":\"grüße\"}\r\n\n{\"done\":true}\nlast".as_bytes();
    for at in 0..=whole.len() {
        let (first, second) = whole.split_at(at);
        assert_eq!(read(&[first, second]), read(&[whole]), "split at {at}");
    }
    let bytes: Vec<&[u8]> = whole.chunks(1).collect();
    assert_eq!(read(&bytes), read(&[whole]));
}

#[test]
fn a_line_without_end_is_not_kept_for_ever() {
    let mut frames = Frames::of(Framing::JsonLines);
    let chunk = vec![b'x'; 1 << 20];
    let failed = (0..20).any(|_| {
        frames.feed(&chunk);
        frames.next().is_err()
    });
    assert!(failed);
}
