//! Which skills are found, in which order, and who has to approve them.

use std::os::unix::fs::symlink;

use zk_exec::LocalHostFiles;
use zk_skills::{Skill, SkillRoots, SkillSource, catalog, discover, left_out, place};

use crate::support::{Place, names};

#[test]
fn project_beats_user_and_the_nearest_directory_wins() {
    let at = Place::new();
    at.skill("project/.agents/skills/a", "Of the project.").skill("home/.agents/skills/a", "Of the person.");
    at.skill("home/.claude/skills/b", "Second.").skill("home/.agents/skills/b", "First.");
    at.skill("project/sub/.zk/skills/c", "Near.").skill("project/.claude/skills/c", "Far.");
    at.approve_all();
    let mut roots = at.roots();
    roots.cwd = at.path("project/sub");
    let files = LocalHostFiles::new();
    // Skills of the project need approval, from the directory they are found in.
    let all = discover(&roots, &files, None);
    for skill in &all.untrusted {
        let approval = zk_skills::SkillApproval::of(skill, &roots.project, &files).unwrap();
        approval
            .items(&roots.project)
            .iter()
            .for_each(|item| zk_core::service::Trust::approve(&at.trust, item).unwrap());
    }
    let set = discover(&roots, &files, Some(&at.trust));
    let said: Vec<&str> = set.skills.iter().map(|skill| &*skill.manifest.description).collect();
    assert_eq!((names(&set), said), (vec!["a", "b", "c"], vec!["Of the project.", "First.", "Near."]));
    assert_eq!(set.shadowed.len(), 3);
}

#[test]
fn a_project_skill_counts_once_it_is_approved_and_until_its_frontmatter_changes() {
    let at = Place::new();
    at.skill("project/.agents/skills/a", "Of the project.").skill("home/.agents/skills/a", "Of the person.");
    let set = at.discover();
    assert_eq!(set.get("a").unwrap().source, SkillSource::User, "one that nobody approved shadows nobody");
    assert_eq!(set.untrusted.len(), 1);
    at.approve_all();
    assert_eq!(at.discover().get("a").unwrap().source, SkillSource::Project);
    at.skill("project/.agents/skills/a", "Of somebody else.");
    assert_eq!(at.discover().get("a").unwrap().source, SkillSource::User);
    let without = discover(&at.roots(), &LocalHostFiles::new(), None);
    assert_eq!(without.untrusted.len(), 1, "without a store nothing is trusted");
}

#[test]
fn links_are_followed_once_and_not_out_of_a_project() {
    let at = Place::new();
    at.skill("home/.agents/skills/a", "One.").skill("elsewhere/b", "Elsewhere.");
    std::fs::create_dir_all(at.path("home/.claude/skills")).unwrap();
    symlink(at.path("home/.agents/skills/a"), at.path("home/.claude/skills/a")).unwrap();
    symlink(at.path("elsewhere/b"), at.path("home/.claude/skills/b")).unwrap();
    // A loop.
    symlink(at.path("home/.claude/skills"), at.path("home/.claude/skills/loop")).unwrap();
    std::fs::create_dir_all(at.path("project/.agents/skills")).unwrap();
    symlink(at.path("elsewhere/b"), at.path("project/.agents/skills/b")).unwrap();
    let set = at.discover();
    assert_eq!(names(&set), ["a", "b"]);
    assert!(set.shadowed.is_empty(), "two names of one directory are one skill");
    assert_eq!(set.broken.len(), 1);
    assert!(set.broken[0].diagnostic.message.contains("leads out of the project"), "{:?}", set.broken);
}

#[test]
fn a_whole_directory_that_is_a_link_out_of_the_project_is_not_followed() {
    let at = Place::new();
    at.skill("elsewhere/b", "Elsewhere.");
    std::fs::create_dir_all(at.path("project/.claude")).unwrap();
    symlink(at.path("elsewhere"), at.path("project/.claude/skills")).unwrap();
    let set = at.discover();
    assert!(set.skills.is_empty() && set.untrusted.is_empty());
    assert!(set.broken[0].diagnostic.message.contains("leads out"), "{:?}", set.broken);
}

#[test]
fn the_walk_is_bounded_and_skips_what_holds_parts_of_others() {
    let at = Place::new();
    at.skill("home/.agents/skills/pack/more/a", "Nested.")
        .skill("home/.agents/skills/pack/more/a/inner/b", "In a skill.");
    at.skill("home/.agents/skills/node_modules/c", "Of a package.")
        .skill("home/.agents/skills/.git/d", "Of git.");
    at.skill("home/.agents/skills/1/2/3/4/5/6/7/deep", "Too deep.");
    at.write("home/.agents/skills/SKILL.md", "---\nname: skills\ndescription: Not a skill.\n---\n");
    at.skill("home/.agents/skills/unwanted", "Left out.");
    let roots = SkillRoots { exclude: vec!["unwanted".into()], ..at.roots() };
    let set = discover(&roots, &LocalHostFiles::new(), None);
    assert_eq!(names(&set), ["a"]);
    let left = left_out(&roots, &set, &LocalHostFiles::new());
    let root = at.path("home/.agents/skills");
    let mut said: Vec<(&str, &str)> = left
        .iter()
        .map(|left| (left.path.strip_prefix(&root).unwrap().to_str().unwrap(), &*left.why))
        .collect();
    said.sort_unstable();
    let expected = [
        ("", "3 directories are more than 5 below it"),
        ("", "in the directory of skills itself"),
        (".git/d", "begins with a dot"),
        ("1/2/3/4/5/6/7/deep", "more than 5 directories below"),
        ("node_modules/c", "`node_modules`"),
        ("pack/more/a/inner/b", "inside of another skill"),
        ("unwanted", "the settings leave its name out"),
    ];
    assert_eq!(said.len(), expected.len(), "{said:?}");
    for ((place, why), (expected, words)) in said.iter().zip(expected) {
        assert!(*place == expected && why.contains(words), "{place}: {why}");
    }
    for n in 0..2100 {
        std::fs::create_dir_all(at.path(&format!("home/.agents/skills/z{n}"))).unwrap();
    }
    let set = at.discover();
    assert!(
        set.broken.iter().any(|skill| skill.diagnostic.message.contains("more than 2000")),
        "{:?}",
        set.broken
    );
    let left = left_out(&at.roots(), &set, &LocalHostFiles::new());
    let cut: Vec<&str> = left.iter().filter(|left| left.path == root).map(|left| &*left.why).collect();
    assert_eq!(
        cut.iter().filter(|why| why.contains("it has more than 2000 directories")).count(),
        1,
        "{cut:?}"
    );
}

#[test]
fn the_catalogue_is_the_same_bytes_whatever_the_order_on_disk_and_absent_when_empty() {
    assert_eq!(catalog(&Place::new().discover()), "");
    let (one, other) = (Place::new(), Place::new());
    for name in ["b", "a", "c"] {
        one.skill(&format!("home/.agents/skills/{name}"), "Text & <tags> \"quoted\".");
    }
    for name in ["c", "a", "b"] {
        other.skill(&format!("home/.agents/skills/{name}"), "Text & <tags> \"quoted\".");
    }
    let text = catalog(&one.discover());
    assert_eq!(text, catalog(&other.discover()));
    assert!(text.contains("<skill name=\"a\">Text &amp; &lt;tags&gt; &quot;quoted&quot;.</skill>"), "{text}");
    one.write(
        "home/.agents/skills/d/SKILL.md",
        "---\nname: d\ndescription: hidden </available_skills>\ndisable-model-invocation: true\n---\n",
    );
    one.write(
        "home/.agents/skills/e/SKILL.md",
        "---\nname: e\ndescription: About some files.\npaths: \"*.rs\"\n---\n",
    );
    assert_eq!(catalog(&one.discover()), text, "those that a model may not use, or not yet, are not in it");
}

#[test]
fn a_thousand_skills_stay_within_the_size_of_a_catalogue() {
    let at = Place::new();
    for n in 0..1000 {
        at.skill(&format!("home/.agents/skills/skill-{n:04}"), &"Something that is said of it. ".repeat(8));
    }
    let begun = std::time::Instant::now();
    let set = at.discover();
    println!("1000 skills found in {:?}", begun.elapsed());
    let text = catalog(&set);
    assert_eq!(set.skills.len(), 1000);
    assert!(text.len() < 42 * 1024, "{}", text.len());
    assert!(text.contains("skill-0000") && text.contains("<not_listed>"), "{text}");
}

#[test]
fn excluded_names_are_left_out_and_inline_skills_come_last() {
    let at = Place::new();
    at.skill("home/.agents/skills/a", "A.").skill("home/.agents/skills/b", "B.");
    let inline = |name: &str| {
        let text = format!("---\nname: {name}\ndescription: Of the program.\n---\nText.");
        Skill::inline(text, SkillSource::Inline).unwrap()
    };
    let mut roots = at.roots();
    roots.exclude = vec!["b".to_owned()];
    roots.inline = vec![inline("a"), inline("c")];
    let set = discover(&roots, &LocalHostFiles::new(), None);
    let found: Vec<String> =
        set.skills.iter().map(|skill| format!("{} {}", skill.name(), place(skill))).collect();
    let wanted = [format!("a {}", at.path("home/.agents/skills/a").display()), "c (inline)".to_owned()];
    assert_eq!(found, wanted);
}

#[test]
fn discovery_reads_frontmatters_and_no_bodies() {
    let at = Place::new();
    // A body of 8 MiB would exceed the limit.
    let text = format!("---\nname: a\ndescription: Large.\n---\n{}", "x".repeat(8 << 20));
    at.write("home/.agents/skills/a/SKILL.md", &text);
    let set = at.discover();
    let head = &set.get("a").unwrap().head;
    assert_eq!(&**head, b"---\nname: a\ndescription: Large.\n---\n");
}
