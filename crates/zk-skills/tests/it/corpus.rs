//! Skills as people write them: what is used of them, and whether they are valid by the reference validator.

use std::path::{Path, PathBuf};

use zk_exec::LocalHostFiles;
use zk_skills::{SkillRoots, SkillSet, discover, validate};

/// One directory with a skill.
struct Case {
    dir: &'static str,
    text: String,
    /// Whether `agentskills validate` takes it.
    valid: bool,
    /// Name under which it is used; `None` if it is not.
    used: Option<&'static str>,
}

fn case(dir: &'static str, valid: bool, used: Option<&'static str>, text: impl Into<String>) -> Case {
    Case { dir, text: text.into(), valid, used }
}

/// Frontmatter of these lines, and a body.
fn front(lines: &str) -> String {
    format!("---\n{lines}\n---\n# Body\n")
}

fn cases() -> Vec<Case> {
    let long = "x".repeat(1100);
    let body = "A line of text.\n".repeat(2000);
    let of = |name: &'static str, rest: &str| front(&format!("name: {name}\ndescription: Does it.\n{rest}"));
    vec![
        case("plain", true, Some("plain"), front("name: plain\ndescription: Does it.")),
        case(
            "all-fields",
            true,
            Some("all-fields"),
            of(
                "all-fields",
                "license: MIT\ncompatibility: git\nmetadata:\n  author: me\n  version: 1.10\nallowed-tools: Bash(git:*) Read",
            ),
        ),
        case(
            "quoted",
            true,
            Some("quoted"),
            front("name: \"quoted\"\ndescription: 'Use when: it is needed'"),
        ),
        case("crlf", true, Some("crlf"), "---\r\nname: crlf\r\ndescription: Does it.\r\n---\r\nBody\r\n"),
        case("bom", false, Some("bom"), format!("\u{feff}{}", front("name: bom\ndescription: Does it."))),
        case("tools-list", true, Some("tools-list"), of("tools-list", "allowed-tools:\n  - Read\n  - Bash")),
        case("tools-flow", false, Some("tools-flow"), of("tools-flow", "allowed-tools: [Read, Bash]")),
        case(
            "tools-comma",
            true,
            Some("tools-comma"),
            of("tools-comma", "allowed-tools: Read, Bash(git:*, ls)"),
        ),
        case("unknown-field", false, Some("unknown-field"), of("unknown-field", "version: 1.0\nauthor: me")),
        case("number-name", false, Some("42"), front("name: 42\ndescription: Does it.")),
        case(
            "true-description",
            true,
            Some("true-description"),
            front("name: true-description\ndescription: true"),
        ),
        case("no-frontmatter", false, None, "# Only a body\n"),
        case("not-closed", false, None, "---\nname: not-closed\ndescription: Does it.\n"),
        case("empty", false, None, ""),
        case("no-description", false, None, front("name: no-description")),
        case("blank-description", false, None, front("name: blank-description\ndescription: \"  \"")),
        case("null-description", false, None, front("name: null-description\ndescription:")),
        case("no-name", false, Some("no-name"), front("description: Does it.")),
        case("other-name", false, Some("another"), front("name: another\ndescription: Does it.")),
        case("Upper", false, Some("Upper"), front("name: Upper\ndescription: Does it.")),
        case(
            "with-blank",
            false,
            Some("with-blank-here"),
            front("name: With Blank Here\ndescription: Does it."),
        ),
        case("-hyphen", false, Some("-hyphen"), front("name: -hyphen\ndescription: Does it.")),
        case("two--hyphens", false, Some("two--hyphens"), front("name: two--hyphens\ndescription: Does it.")),
        case("under_score", false, Some("under_score"), front("name: under_score\ndescription: Does it.")),
        // One name, composed here and not there.
        case("cafe\u{301}", true, Some("café"), front("name: café\ndescription: Does it.")),
        case("naïve", true, Some("nai\u{308}ve"), front("name: nai\u{308}ve\ndescription: Does it.")),
        case("file-x", true, Some("\u{fb01}le-x"), front("name: \u{fb01}le-x\ndescription: Does it.")),
        case("straße", true, Some("straße"), front("name: straße\ndescription: Does it.")),
        case(
            "long-description",
            false,
            Some("long-description"),
            front(&format!("name: long-description\ndescription: {long}")),
        ),
        case(
            "block-description",
            true,
            Some("block-description"),
            front("name: block-description\ndescription: |\n  Does it.\n  In two lines."),
        ),
        case(
            "folded-description",
            true,
            Some("folded-description"),
            front("name: folded-description\ndescription: >-\n  Does it\n  in one line."),
        ),
        case("colon", false, Some("colon"), front("name: colon\ndescription: Use when: it is needed")),
        case("at-sign", false, Some("at-sign"), front("name: at-sign\ndescription: @file is read")),
        case(
            "unbalanced",
            false,
            Some("unbalanced"),
            front("name: unbalanced\ndescription: Does it.\ntags: [a, b"),
        ),
        case("hopeless", false, None, "---\nname: hopeless\n\tdescription: - {[\n---\n"),
        case(
            "double-key",
            false,
            Some("double-key"),
            front("name: double-key\ndescription: One.\ndescription: Two."),
        ),
        case(
            "anchored",
            false,
            Some("anchored"),
            front("name: anchored\ndescription: &a Does it.\nlicense: *a"),
        ),
        case("tagged", false, Some("tagged"), front("name: tagged\ndescription: !!str Does it.")),
        case("flow-metadata", false, Some("flow-metadata"), of("flow-metadata", "metadata: {a: b}")),
        case("list-document", false, None, front("- name: list-document\n- description: Does it.")),
        case(
            "dashes-inside",
            true,
            Some("dashes-inside"),
            front("name: dashes-inside\ndescription: one --- two"),
        ),
        case(
            "long-body",
            true,
            Some("long-body"),
            format!("---\nname: long-body\ndescription: Does it.\n---\n{body}"),
        ),
        case("no-body", true, Some("no-body"), "---\nname: no-body\ndescription: Does it.\n---"),
        case(
            "comment",
            true,
            Some("comment"),
            front("# A comment\nname: comment\ndescription: Does it. # really"),
        ),
        case(
            "long-compatibility",
            false,
            Some("long-compatibility"),
            of("long-compatibility", &format!("compatibility: {}", "y".repeat(501))),
        ),
        case(
            "list-compatibility",
            false,
            Some("list-compatibility"),
            of("list-compatibility", "compatibility:\n  - git"),
        ),
        case("hidden", false, Some("hidden"), of("hidden", "disable-model-invocation: true")),
    ]
}

fn write(cases: &[Case]) -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    for case in cases {
        let dir = root.join(case.dir);
        std::fs::create_dir_all(dir.join("references")).unwrap();
        std::fs::write(dir.join("SKILL.md"), &case.text).unwrap();
    }
    (temp, root)
}

fn load(root: &Path) -> SkillSet {
    let roots = SkillRoots { configured: vec![root.to_path_buf()], ..SkillRoots::default() };
    discover(&roots, &LocalHostFiles::new(), None)
}

#[test]
fn every_odd_skill_is_used_under_its_name_or_left_out_with_a_reason() {
    let cases = cases();
    let (_temp, root) = write(&cases);
    let set = load(&root);
    for case in &cases {
        let dir = root.join(case.dir);
        let found = set.skills.iter().find(|skill| skill.dir.as_ref() == Some(&dir));
        assert_eq!(found.map(|skill| skill.name()), case.used, "{}: {:?}", case.dir, set.broken);
        let broken = set.broken.iter().any(|skill| skill.path == dir && !skill.diagnostic.message.is_empty());
        assert_eq!(broken, case.used.is_none(), "{}", case.dir);
    }
    let tools = |name: &str| set.get(name).unwrap().manifest.allowed_tools.clone().unwrap();
    for name in ["tools-list", "tools-flow"] {
        assert_eq!(tools(name), ["Read", "Bash"]);
    }
    assert_eq!(tools("tools-comma"), ["Read", "Bash(git:*, ls)"]);
    assert_eq!(set.get("all-fields").unwrap().manifest.metadata["version"], "1.10");
    assert_eq!(set.get("colon").unwrap().manifest.description, "Use when: it is needed");
    assert_eq!(set.get("dashes-inside").unwrap().manifest.description, "one --- two");
    assert!(set.get("hidden").unwrap().manifest.disable_model_invocation);
}

#[test]
fn the_strict_validator_says_what_the_reference_says() {
    let cases = cases();
    let (_temp, root) = write(&cases);
    let wrong = cases.iter().filter_map(|case| {
        let faults = validate(&root.join(case.dir), &LocalHostFiles::new());
        (faults.is_empty() != case.valid).then(|| format!("{}: {faults:?}", case.dir))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), Vec::<String>::new());
}

/// `ZK_AGENTSKILLS` names the program `agentskills` of the package `skills-ref`.
#[test]
fn the_verdicts_of_the_table_are_those_of_the_reference() {
    #[expect(clippy::disallowed_methods, reason = "tests are told by the environment where the program is")]
    let Ok(program) = std::env::var("ZK_AGENTSKILLS") else {
        println!("skipped: ZK_AGENTSKILLS names no program");
        return;
    };
    let cases = cases();
    let (_temp, root) = write(&cases);
    let mut wrong = Vec::new();
    for case in &cases {
        #[expect(clippy::disallowed_methods, reason = "the reference runs as it is")]
        let ran =
            std::process::Command::new(&program).arg("validate").arg(root.join(case.dir)).output().unwrap();
        if ran.status.success() != case.valid {
            wrong.push(format!("{}: {}", case.dir, String::from_utf8_lossy(&ran.stderr)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// `ZK_SKILLS_CORPUS` names a directory with many skills.
#[test]
fn a_collection_of_skills_loads_without_a_panic() {
    #[expect(clippy::disallowed_methods, reason = "tests are told by the environment where the data is")]
    let Ok(folder) = std::env::var("ZK_SKILLS_CORPUS") else {
        println!("skipped: ZK_SKILLS_CORPUS names no directory");
        return;
    };
    let set = load(&PathBuf::from(folder).canonicalize().unwrap());
    let found = set.skills.len() + set.shadowed.len();
    println!("{found} used, {} not: {:#?}", set.broken.len(), set.broken);
    assert!(found > 0 && set.broken.len() * 100 <= found, "more than one in a hundred is not used");
}
