use super::model::Reply;

/// A moment of a conversation that has a picture.
#[derive(Debug)]
pub(super) struct Moment {
    /// Name of the moment, and of the file of its picture.
    pub(super) name: &'static str,
    /// Title of the picture, for who does not see it.
    pub(super) title: &'static str,
    /// Columns and rows of the terminal.
    pub(super) size: (usize, usize),
    /// Flags of the program.
    pub(super) flags: &'static str,
    /// Settings of the person.
    pub(super) settings: &'static str,
    pub(super) replies: &'static [Reply],
    /// Texts that are waited for, and the keys that are sent then, as tmux names them.
    pub(super) steps: &'static [(&'static str, &'static [&'static str])],
}

const PROMPT: &[&str] = &["fix the failing test", "Enter"];

const READY: &str = "? keys";

/// The fix of the shop.
const EDIT: &str = r#"{"path": "discounts.py", "old_string": "    return round(cents * (1 - pct))", "new_string": "    if not 0 <= pct <= 100:\n        raise ValueError(f\"percentage out of range: {pct}\")\n    return round(cents * (1 - pct / 100))"}"#;

const TESTS: (&str, &str) = ("shell", r#"{"command": "python3 -m unittest -q"}"#);

const READS: &[(&str, &str)] =
    &[("read_file", r#"{"path": "cart.py"}"#), ("read_file", r#"{"path": "discounts.py"}"#)];

const TODO: &str = r#"{"todos": [
    {"content": "find the failing test", "status": "completed"},
    {"content": "fix the discount", "status": "completed"},
    {"content": "run all tests", "status": "in_progress"},
    {"content": "write the changelog", "status": "pending"}]}"#;

const QUESTION: &str = r#"{"question": "Which rounding should totals use?", "options": ["Half up", "Bankers", "Truncate"],
    "descriptions": ["like a shop till", "half to even, like Python", "always down"]}"#;

const PLAN: &str = r##"{"plan": "# Fix the discounts\n\n1. Treat the percentage as one of a hundred.\n2. Refuse what is out of range.\n3. Run all tests.\n\n**Risk**: callers that pass fractions."}"##;

const USUAL: Moment = Moment {
    name: "",
    title: "",
    size: (100, 30),
    flags: "--screen inline",
    settings: "",
    replies: &[],
    steps: &[],
};

/// All moments.
pub(super) const MOMENTS: [Moment; 12] = [
    Moment {
        name: "first-screen",
        title: "zk at its start",
        size: (100, 12),
        steps: &[(READY, &[])],
        ..USUAL
    },
    Moment {
        name: "running-turn",
        title: "A turn of zk: a failed test, two reads, an edit, and a command that runs",
        flags: "--screen inline --permission-mode auto",
        replies: &[
            Reply::Call("I'll run the tests and look at the code first.", &[TESTS]),
            Reply::Call("", READS),
            Reply::Call("The percentage is treated as a fraction. Fixing it.", &[("edit", EDIT)]),
            Reply::Call(
                "",
                &[(
                    "shell",
                    r#"{"command": "for i in 1 2 3; do echo \"part $i … ok\"; sleep 2; done; sleep 30"}"#,
                )],
            ),
        ],
        steps: &[(READY, PROMPT), ("part 2", &[])],
        ..USUAL
    },
    Moment {
        name: "edit-card",
        title: "zk asks about an edit",
        size: (80, 24),
        flags: "--screen inline --permission-mode ask",
        replies: &[Reply::Call("", READS), Reply::Call("", &[("edit", EDIT)])],
        steps: &[(READY, PROMPT), ("out of range", &[])],
        ..USUAL
    },
    Moment {
        name: "outside-card",
        title: "zk asks about a command that leaves the sandbox",
        size: (80, 24),
        replies: &[Reply::Call(
            "",
            &[(
                "shell",
                r#"{"command": "git push origin main", "outside": {"reason": "it needs the network"}}"#,
            )],
        )],
        steps: &[(READY, &["push it", "Enter"]), ("the network", &[])],
        ..USUAL
    },
    Moment {
        name: "question",
        title: "The model asks with choices",
        size: (80, 24),
        replies: &[Reply::Call("", &[("ask_user", QUESTION)])],
        steps: &[(READY, PROMPT), ("Bankers", &[])],
        ..USUAL
    },
    Moment {
        name: "to-do",
        title: "The to-do list of a run",
        replies: &[Reply::Call("", &[("todo_write", TODO)]), Reply::Hang("Running all tests now.")],
        steps: &[(READY, PROMPT), ("Running all tests", &[])],
        ..USUAL
    },
    Moment {
        name: "plan",
        title: "A plan that the person decides on",
        flags: "--screen inline --preset plan",
        replies: &[Reply::Call("", &[("present_plan", PLAN)])],
        steps: &[(READY, PROMPT), ("out of range", &[])],
        ..USUAL
    },
    Moment {
        name: "models",
        title: "The list of models",
        steps: &[(READY, &["/model", "Enter"]), ("opus", &[])],
        ..USUAL
    },
    Moment {
        name: "sessions",
        title: "The list of sessions",
        replies: &[Reply::Say("The discount is fixed.")],
        steps: &[
            (READY, PROMPT),
            ("is fixed", &["/new", "Enter"]),
            ("a new conversation begins", &["/resume", "Enter"]),
            ("fix the failing test", &[]),
        ],
        ..USUAL
    },
    Moment {
        name: "diff",
        title: "An edit with the lines around it",
        flags: "--screen inline --permission-mode accept-edits",
        replies: &[
            Reply::Call("", READS),
            Reply::Call("", &[("edit", EDIT)]),
            Reply::Say("The discount is right now."),
        ],
        steps: &[(READY, PROMPT), ("right now", &[])],
        ..USUAL
    },
    Moment {
        name: "plain",
        title: "The same in plain lines",
        flags: "--screen plain --permission-mode accept-edits",
        replies: &[
            Reply::Call("", READS),
            Reply::Call("", &[("edit", EDIT)]),
            Reply::Say("The discount is right now."),
        ],
        steps: &[("Ctrl-D ends", PROMPT), ("right now", &[])],
        ..USUAL
    },
    Moment {
        name: "narrow",
        title: "zk on a terminal of 60 columns",
        size: (60, 20),
        flags: "--screen inline --permission-mode accept-edits",
        replies: &[
            Reply::Call("", READS),
            Reply::Call("", &[("edit", EDIT)]),
            Reply::Hang("The discount is right now."),
        ],
        steps: &[(READY, PROMPT), ("right now", &[])],
        ..USUAL
    },
];
