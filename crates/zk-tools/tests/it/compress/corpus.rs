//! Two hundred generated outputs in the shapes that real programs print, each with the lines that somebody needs who has to mend
//! what failed. Ten of each kind, of different lengths and with their failures in different places.

use fastrand::Rng;

/// One generated output.
pub(crate) struct Sample {
    pub(crate) command: String,
    pub(crate) text: String,
    /// Lines that must be kept.
    pub(crate) needed: Vec<String>,
}

type Kind = fn(&mut Rng, &mut Out);

const KINDS: [Kind; 20] = [
    cargo_build,
    cargo_test,
    nextest,
    npm_install,
    jest,
    vitest,
    tap,
    pytest_dots,
    pytest_verbose,
    go_verbose,
    go_all,
    make_c,
    cmake,
    kbuild,
    git_log,
    git_status,
    git_diff,
    list_recursively,
    find,
    service_log,
];

pub(crate) fn corpus() -> Vec<Sample> {
    let samples = KINDS.iter().enumerate().flat_map(|(number, kind)| {
        (0..10).map(move |seed| {
            let mut out = Out::default();
            kind(&mut Rng::with_seed(number as u64 * 100 + seed), &mut out);
            Sample { command: out.command, text: out.lines.join("\n"), needed: out.needed }
        })
    });
    samples.collect()
}

#[derive(Default)]
struct Out {
    command: String,
    lines: Vec<String>,
    needed: Vec<String>,
}

impl Out {
    fn of(&mut self, command: &str) {
        self.command = command.to_owned();
    }

    fn line(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    fn need(&mut self, text: &str) {
        for line in text.lines() {
            self.lines.push(line.to_owned());
            self.needed.push(line.to_owned());
        }
    }

    /// Lines made by `noise`, with `failure` somewhere among them.
    fn among(
        &mut self,
        rng: &mut Rng,
        many: usize,
        failure: &str,
        mut noise: impl FnMut(&mut Rng, usize) -> String,
    ) {
        let at = rng.usize(0..many);
        for index in 0..many {
            if index == at {
                self.need(failure);
            }
            self.lines.push(noise(rng, index));
        }
    }
}

const WORDS: [&str; 16] = [
    "parse", "error", "token", "serde", "stream", "fail", "window", "panic", "index", "retry", "cache",
    "split", "utf8", "warning", "merge", "clock",
];

fn name(rng: &mut Rng) -> String {
    let mut word = || rng.choice(WORDS).unwrap_or_default();
    format!("{}_{}_{}", word(), word(), rng.u32(0..100))
}

fn cargo_build(rng: &mut Rng, out: &mut Out) {
    out.of("cargo build --workspace 2>&1");
    let many = rng.usize(60..250);
    for _ in 0..many {
        out.line(format!("   Compiling {} v{}.{}.0", name(rng), rng.u32(0..9), rng.u32(0..30)));
    }
    let file = name(rng);
    out.need(&format!(
        "warning: unused variable: `x`\n  --> crates/a/src/{file}.rs:12:9\nerror[E0308]: mismatched types\n  --> crates/a/src/{file}.rs:40:5\n   |\n40 |     x + \"one\"\n   |         ^^^^^ expected `u32`, found `&str`"
    ));
    out.need("error: could not compile `a` (lib) due to 1 previous error; 1 warning emitted");
}

fn cargo_test(rng: &mut Rng, out: &mut Out) {
    out.of("cd crates && cargo test 2>&1 | tail -400");
    out.need("running 300 tests");
    let many = rng.usize(100..300);
    let failed = format!("test module::{} ... FAILED", name(rng));
    out.among(rng, many, &failed, |rng, _| format!("test module::{} ... ok", name(rng)));
    out.need(
        "failures:\n\n---- module::a stdout ----\nthread 'module::a' panicked at src/lib.rs:20:9:\nassertion `left == right` failed\n  left: 3\n right: 4\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
    );
    out.need(
        "test result: FAILED. 299 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.52s",
    );
}

fn nextest(rng: &mut Rng, out: &mut Out) {
    out.of("cargo nextest run");
    let many = rng.usize(80..400);
    out.need("    Starting 400 tests across 3 binaries");
    let failed = format!("        FAIL [   0.780s] zk-core::it {}", name(rng));
    out.among(rng, many, &failed, |rng, _| {
        format!("        PASS [   0.{:03}s] zk-core::it module::{}", rng.u32(0..999), name(rng))
    });
    out.need("     Summary [  12.300s] 400 tests run: 399 passed, 1 failed, 0 skipped");
}

fn npm_install(rng: &mut Rng, out: &mut Out) {
    out.of("npm install");
    for _ in 0..rng.usize(30..90) {
        out.line(format!(
            "npm http fetch GET 200 https://registry.npmjs.org/{} {}ms",
            name(rng),
            rng.u32(0..900)
        ));
    }
    for _ in 0..rng.usize(5..30) {
        out.line(format!("npm warn deprecated {}@1.{}.0: use something else", name(rng), rng.u32(0..9)));
    }
    out.need("npm error code ERESOLVE\nnpm error ERESOLVE could not resolve\nnpm error While resolving: app@1.0.0\nnpm error Found: react@19.0.0");
    out.need("added 812 packages, and audited 813 packages in 14s\n3 high severity vulnerabilities");
}

fn jest(rng: &mut Rng, out: &mut Out) {
    out.of("npx jest --ci");
    let many = rng.usize(40..160);
    let failed = "FAIL src/cart.test.js\n  ● cart › adds up\n\n    expect(received).toBe(expected)\n\n    Expected: 4\n    Received: 3\n\n      at Object.<anonymous> (src/cart.test.js:8:17)";
    out.among(rng, many, failed, |rng, index| match index % 4 {
        0 => format!("PASS src/{}.test.js (5.{} s)", name(rng), rng.u32(0..9)),
        _ => format!("    ✓ {} ({} ms)", name(rng).replace('_', " "), rng.u32(0..90)),
    });
    out.need("Tests:       1 failed, 159 passed, 160 total");
}

fn vitest(rng: &mut Rng, out: &mut Out) {
    out.of("pnpm test");
    let many = rng.usize(40..160);
    let failed = " ❯ src/a.test.ts (4 tests | 1 failed) 12ms\n   × adds up 4ms\n     → expected 3 to be 4\n ✓ src/b.test.ts (9 tests | 2 failed)";
    out.among(rng, many, failed, |rng, _| {
        format!(" ✓ src/{}.test.ts ({} tests) 8ms", name(rng), rng.u32(1..40))
    });
    out.need(" Test Files  1 failed | 40 passed (41)");
}

fn tap(rng: &mut Rng, out: &mut Out) {
    out.of("node --test");
    out.need("TAP version 13");
    let many = rng.usize(40..160);
    let failed = "not ok 7 - adds up\n  ---\n  error: 'expected 3 to equal 4'\n  at: 'test/a.js:3:1'\n  ...";
    out.among(rng, many, failed, |rng, index| format!("ok {} - {}", index + 1, name(rng)));
    out.need("# fail 1");
}

fn pytest_dots(rng: &mut Rng, out: &mut Out) {
    out.of("python -m pytest -q");
    let many = rng.usize(15..60);
    out.among(
        rng,
        many,
        "tests/test_cart.py ..F....                                    [ 50%]",
        |rng, index| {
            format!("tests/test_{}.py {}      [ {}%]", name(rng), ".".repeat(rng.usize(3..40)), index % 100)
        },
    );
    out.need("=================================== FAILURES ===================================\n    def test_adds_up():\n>       assert add(1, 2) == 4\nE       assert 3 == 4\nE        +  where 3 = add(1, 2)\n\ntests/test_cart.py:4: AssertionError");
    out.need("FAILED tests/test_cart.py::test_adds_up - assert 3 == 4\n1 failed, 512 passed in 3.21s");
}

fn pytest_verbose(rng: &mut Rng, out: &mut Out) {
    out.of("uv run pytest -v tests");
    out.need("collected 200 items");
    let many = rng.usize(60..200);
    out.among(
        rng,
        many,
        "tests/test_a.py::test_adds_up FAILED                       [ 51%]",
        |rng, index| {
            format!("tests/test_{}.py::test_{} PASSED              [ {}%]", name(rng), name(rng), index % 100)
        },
    );
    out.need("E   KeyError: 'price'\ntests/test_a.py:9: KeyError");
}

fn go_verbose(rng: &mut Rng, out: &mut Out) {
    out.of("go test -v ./...");
    let many = rng.usize(60..200);
    out.among(rng, many, "    cart_test.go:12: got 3, want 4\n--- FAIL: TestAdd (0.00s)", |rng, index| {
        match index % 2 {
            0 => format!("=== RUN   Test{}", name(rng)),
            _ => format!("--- PASS: Test{} (0.00s)", name(rng)),
        }
    });
    out.need("FAIL\nFAIL\texample.com/cart\t0.004s");
}

fn go_all(rng: &mut Rng, out: &mut Out) {
    out.of("go test ./...");
    let many = rng.usize(30..120);
    let failed =
        "--- FAIL: TestAdd (0.00s)\n    cart_test.go:12: got 3, want 4\nFAIL\nFAIL\texample.com/cart\t0.004s";
    out.among(rng, many, failed, |rng, index| match index % 3 {
        0 => format!("?   \texample.com/{}\t[no test files]", name(rng)),
        1 => format!("go: downloading example.com/{} v1.2.3", name(rng)),
        _ => format!("ok  \texample.com/{}\t0.0{}s", name(rng), rng.u32(1..9)),
    });
}

fn make_c(rng: &mut Rng, out: &mut Out) {
    out.of("make -j4");
    for _ in 0..rng.usize(30..120) {
        let file = name(rng);
        if rng.u32(0..5) == 0 {
            out.line(format!("make[1]: Entering directory '/src/{file}'"));
        }
        out.line(format!("gcc -O2 -Wall -Werror -Iinclude -c -o build/{file}.o src/{file}.c"));
    }
    out.need("gcc -O2 -Wall -Werror -Iinclude -c -o build/cart.o src/cart.c");
    out.need("src/cart.c: In function 'add':\nsrc/cart.c:14:12: error: 'pirce' undeclared (first use in this function); did you mean 'price'?\n   14 |     return pirce;\n      |            ^~~~~");
    out.need("make: *** [Makefile:12: build/cart.o] Error 1\nmake: *** Waiting for unfinished jobs....");
}

fn cmake(rng: &mut Rng, out: &mut Out) {
    out.of("cmake --build build");
    for index in 0..rng.usize(60..200) {
        out.line(format!(
            "[{:3}%] Building CXX object src/CMakeFiles/app.dir/{}.cpp.o",
            index % 100,
            name(rng)
        ));
    }
    out.need("/usr/bin/ld: cart.o: undefined reference to `add(int, int)'\ncollect2: error: ld returned 1 exit status");
    out.need("gmake[2]: *** [src/CMakeFiles/app.dir/build.make:97: app] Error 1");
}

fn kbuild(rng: &mut Rng, out: &mut Out) {
    out.of("make -C linux");
    let many = rng.usize(100..300);
    let failed = "drivers/net/cart.c:80:6: warning: no previous prototype for 'add' [-Wmissing-prototypes]\n   80 | void add(void)\n      |      ^~~";
    out.among(rng, many, failed, |rng, _| format!("  CC      drivers/net/{}.o", name(rng)));
    out.need("make[2]: *** [scripts/Makefile.build:243: drivers/net/cart.o] Error 1");
}

fn git_log(rng: &mut Rng, out: &mut Out) {
    out.of("git log -n 60");
    for _ in 0..rng.usize(20..60) {
        out.need(&format!("commit {:040x}", rng.u128(..)));
        out.line("Author: Ada Example <ada.example@mail.example.com>");
        out.need("Date:   Sun Nov 22 17:00:00 2026 +0000");
        out.line("");
        out.need(&format!("    cart: keep {} when it is empty", name(rng)));
        out.line("");
    }
}

fn git_status(rng: &mut Rng, out: &mut Out) {
    out.of("git status");
    out.need("On branch main\nChanges not staged for commit:");
    out.line("  (use \"git add <file>...\" to update what will be committed)");
    out.line("  (use \"git restore <file>...\" to discard changes in working directory)");
    for _ in 0..rng.usize(8..40) {
        let file = name(rng);
        out.need(&format!("\tmodified:   src/{file}.rs"));
    }
    out.need("no changes added to commit (use \"git add\" and/or \"git commit -a\")");
}

fn git_diff(rng: &mut Rng, out: &mut Out) {
    out.of("git diff HEAD~1");
    out.need("diff --git a/package-lock.json b/package-lock.json");
    for _ in 0..rng.usize(60..300) {
        out.line(format!("+      \"integrity\": \"sha512-{:x}\",", rng.u128(..)));
    }
    out.need("diff --git a/src/cart.js b/src/cart.js\nindex 1a2b3c4..5d6e7f8 100644\n--- a/src/cart.js\n+++ b/src/cart.js\n@@ -1,3 +1,3 @@\n-const total = a - b;\n+const total = a + b;");
}

fn list_recursively(rng: &mut Rng, out: &mut Out) {
    out.of("ls -R");
    out.need(".:\nREADME.md\nsrc\nnode_modules\n");
    out.line("./node_modules:");
    for _ in 0..rng.usize(60..300) {
        out.line(name(rng));
    }
    out.line("");
    out.need("./src:\ncart.js\ncart.test.js");
}

fn find(rng: &mut Rng, out: &mut Out) {
    out.of("find . -name '*.js'");
    let many = rng.usize(80..300);
    out.among(rng, many, "./src/cart.js\n./src/node_modules.js\n./my node_modules/a b.js", |rng, _| {
        format!("./node_modules/{}/index.js", name(rng))
    });
}

fn service_log(rng: &mut Rng, out: &mut Out) {
    out.of("docker logs app");
    let many = rng.usize(100..400);
    let failed = "2026-11-22T17:00:31Z ERROR cart: cannot add: price of item 17 is missing\n2026-11-22T17:00:32Z WARN cart: trying again in 30 s";
    out.among(rng, many, failed, |rng, index| {
        format!(
            "2026-11-22T17:{:02}:{:02}Z INFO http: GET /health 200 in {} ms",
            index / 60 % 60,
            index % 60,
            rng.u32(1..99)
        )
    });
}
