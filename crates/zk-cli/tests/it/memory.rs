//! The whole process stays small, whatever a model sends or asks for.

use std::io::{Read, Seek, SeekFrom, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use zk_testkit::{Script, Step, Turn};

use crate::zk::{LONG, Person, program, server};

/// What the process may have at any moment.
const PROCESS: u64 = 128 << 20;

/// What of that the program itself takes, as it is shipped. An unoptimised one is several times as large, so what is
/// mapped of its file is not counted.
const PROGRAM: u64 = 16 << 20;

/// Bytes that each endless stream sends before the test gives up.
const ENDLESS: usize = 64 << 20;

/// Pieces of text that are together so long that nobody may keep them.
fn endless() -> Vec<String> {
    let piece = "words without end ".repeat(4096);
    std::iter::repeat_n(piece.clone(), ENDLESS / piece.len()).collect()
}

/// The most memory that a process had so far without the pages of its files, in bytes.
fn peak(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
    };
    Some(bytes("VmHWM:")?.saturating_sub(bytes("RssFile:")?))
}

/// Runs the program on what a script says, and gives the most memory it had, and what it said.
fn run(person: &Person) -> (u64, String) {
    let mut child = person.spawn(program(), &["-p", "go", "--allow-all"], Stdio::null());
    let (mut output, mut errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let reading = std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = output.read_to_end(&mut said);
        said.len()
    });
    let hearing = std::thread::spawn(move || {
        let mut said = String::new();
        let _ = errors.read_to_string(&mut said);
        said
    });
    let (begun, mut most) = (Instant::now(), 0);
    while child.try_wait().unwrap().is_none() {
        most = most.max(peak(child.id()).unwrap_or_default());
        if begun.elapsed() > LONG * 6 {
            child.kill().unwrap();
            panic!("it does not end; {} MB", most >> 20);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    reading.join().unwrap();
    (most, hearing.join().unwrap())
}

/// What a model says.
type Says = fn() -> Turn;

#[test]
fn the_whole_process_stays_below_128_mb_whatever_a_model_sends_or_asks_for() {
    if !std::path::Path::new("/proc/self/status").exists() {
        println!("skipped: there is no /proc");
        return;
    }
    let answer = || Turn::new().chunks(endless());
    let thinking = || Turn::new().step(Step::Thinking { chunks: endless(), signature: None });
    let arguments = || {
        let begin = "{\"path\": \"made\", \"content\": \"".to_owned();
        let args = std::iter::once(begin).chain(endless()).chain(["\"}".to_owned()]).collect();
        Turn::new().step(Step::Call { id: None, name: "write_file".to_owned(), args })
    };
    let search = || {
        let args = json!({"pattern": "needle", "path": "big", "mode": "content", "head_limit": 0});
        Turn::new().call("grep", args)
    };
    let reads = || {
        (0..20).fold(Turn::new(), |turn, _| turn.call("read_file", json!({"path": "long", "max_bytes": 0})))
    };
    let cases: [(&str, Says); 5] = [
        ("an answer", answer),
        ("reasoning", thinking),
        ("arguments", arguments),
        ("a search of a gigabyte", search),
        ("twenty reads", reads),
    ];
    for (what, first) in cases {
        let server = server(Script::answering(move |asked| match asked.number {
            1 => first(),
            _ => Turn::new().text("Done."),
        }));
        let person = Person::asking(&server);
        if what.starts_with("a search") {
            let mut big = std::fs::File::create(person.project().join("big")).unwrap();
            big.write_all("a line with a needle in it\n".repeat(400_000).as_bytes()).unwrap();
            big.seek(SeekFrom::Start(1 << 30)).unwrap();
            big.write_all(b"end\n").unwrap();
        }
        if what == "twenty reads" {
            person.write("long", &"a line of a file that is long\n".repeat(1 << 19));
        }
        let (most, said) = run(&person);
        println!("{what}: {} MB {}", most >> 20, said.lines().next().unwrap_or_default());
        assert!(most > 0 && most < PROCESS - PROGRAM, "{what}: {} MB: {said}", most >> 20);
    }
}
